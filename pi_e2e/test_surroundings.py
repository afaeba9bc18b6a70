"""Where Pi is started, which tools it may use, and what switches the extension off or on."""

from __future__ import annotations

import json

from station import QUESTION, SENTENCE, TOOL


def tool_names(model):
    return sorted(tool["function"]["name"] for tool in model.requests[0]["tools"])


def test_a_folder_below_the_project_finds_it(sandbox, model):
    sandbox.project = sandbox.project / "source" / "noter"
    sandbox.ask(QUESTION)
    assert SENTENCE in model.tool_result


def test_the_tool_works_alone_beside_one_of_pi(sandbox, model):
    sandbox.pi("--tools", f"read,{TOOL}", "-p", QUESTION)
    assert tool_names(model) == ["read", TOOL]
    assert SENTENCE in model.tool_result


def test_a_variable_switches_the_extension_off(sandbox, model):
    sandbox.environment["DOXTR_RAG_PI_DISABLE"] = "1"
    assert sandbox.ask(QUESTION).returncode == 0
    assert TOOL not in tool_names(model)


def test_context_comes_by_itself_only_where_it_is_wanted(sandbox, model):
    sandbox.ask(QUESTION)
    assert SENTENCE not in json.dumps(model.requests[0]["messages"])
    model.requests.clear()
    sandbox.environment["DOXTR_RAG_AUTO_CONTEXT"] = "1"
    sandbox.ask(QUESTION)
    assert SENTENCE in json.dumps(model.requests[0]["messages"])
