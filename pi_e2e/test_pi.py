"""The extension inside the real Pi agent."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

from loopback import free_ports
from sandbox import Sandbox, run
from scripted_llm import ScriptedModel, calls
from station import QUESTION, SENTENCE, TOOL, endpoints_with_shared_at


def test_the_tool_is_listed_and_its_answer_reaches_the_model(sandbox, model):
    done = sandbox.ask(QUESTION)
    assert done.returncode == 0, done.stderr
    tools = {t["function"]["name"]: t["function"] for t in model.requests[0]["tools"]}
    assert {TOOL, "kb_doc", "kb_read"} <= tools.keys()
    assert tools[TOOL]["parameters"]["required"] == ["query"]
    prompt = model.system_prompt
    assert f"- {TOOL}: " in prompt
    assert any(TOOL in line for line in prompt.splitlines() if "before" in line)
    assert SENTENCE in model.tool_result
    assert "[Food §Moon cheese]" in model.tool_result
    assert "food.html#moon-cheese" in model.tool_result
    assert "SHARED_ORG" in model.tool_result
    assert "not instructions" in model.tool_result
    assert SENTENCE in done.stdout


def test_the_page_of_a_citation_opens(sandbox, model):
    sandbox.ask(QUESTION)
    (url,) = [
        line.removeprefix("Source: ")
        for line in model.tool_result.splitlines()
        if line.startswith("Source: ") and "#moon-cheese" in line
    ]
    path, _, anchor = url.removeprefix("file://").partition("#")
    assert f'id="{anchor}"' in Path(path).read_text(encoding="utf-8")


def test_what_happens_is_told_in_phases_with_small_details(sandbox):
    events = sandbox.events(QUESTION)
    phases = [
        e["partialResult"]["details"]["phase"]
        for e in events
        if e["type"] == "tool_execution_update"
    ]
    assert phases[0] == "embedding"
    assert "searching" in phases
    (end,) = [e for e in events if e["type"] == "tool_execution_end"]
    assert end["isError"] is False
    assert len(json.dumps(end["result"]["details"])) < 5000


def test_a_server_that_does_not_run_is_started(own_sandbox, project, model):
    assert run("doxtr-rag", "serve", "--status", cwd=project).returncode == 3
    own_sandbox.ask(QUESTION)
    assert SENTENCE in model.tool_result
    assert run("doxtr-rag", "serve", "--status", cwd=project).returncode == 0


def test_a_dead_shared_store_leaves_the_private_answer_and_one_sentence(
    tmp_path, served, sandbox, model
):
    (nobody,) = free_ports(1)
    chosen = endpoints_with_shared_at(served, tmp_path, nobody)
    sandbox.environment["DOXTR_RAG_ENDPOINTS"] = str(chosen)
    sandbox.ask(QUESTION)
    assert model.tool_result.count("shared store unavailable") == 1
    assert "nine thousand credits" in model.tool_result
    assert SENTENCE not in model.tool_result


def test_everything_down_is_one_sentence_with_the_next_command(own_sandbox):
    own_sandbox.environment["PATH"] = own_sandbox.environment["PATH"].partition(":")[2]
    end = own_sandbox.tool_end(QUESTION)
    assert end["isError"] is True
    said = end["result"]["content"][0]["text"]
    assert "doxtr-rag serve --detach" in said
    assert "    at " not in said
    assert "\n" not in said.strip()


def test_arguments_that_are_wrong_never_reach_the_tool(sandbox_folder, pi, served):
    with ScriptedModel(calls(TOOL, {"top_k": 9999})) as model:
        sandbox = Sandbox(sandbox_folder, pi, served, model.url)
        sandbox.install()
        end = sandbox.tool_end(QUESTION)
    assert end["isError"] is True
    assert "query" in model.tool_result


def test_reading_on_gives_the_section_and_its_neighbours(sandbox_folder, pi, served):
    with ScriptedModel(calls("kb_read", {"doc": "food", "section": "moon-cheese"})) as model:
        sandbox = Sandbox(sandbox_folder, pi, served, model.url)
        sandbox.install()
        sandbox.ask(QUESTION)
    assert SENTENCE in model.tool_result
    assert "Bread is baked" in model.tool_result


def test_an_abort_ends_the_search_at_once(sandbox):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        sandbox.environment["DOXTR_RAG_EMBED_URL"] = f"http://127.0.0.1:{port}/embed"
        with sandbox.rpc() as rpc:
            rpc.send(id="1", type="prompt", message=QUESTION)
            rpc.wait(lambda m: m["type"] == "tool_execution_update")
            rpc.send(id="2", type="abort")
            end = rpc.wait(lambda m: m["type"] == "tool_execution_end", 4)
            assert end["isError"] is True
            assert "abort" in json.dumps(end["result"]).lower()


def test_the_command_and_the_status_line_answer_without_a_model(sandbox, model):
    with sandbox.rpc() as rpc:
        status = rpc.wait(
            lambda m: m["type"] == "extension_ui_request" and m.get("method") == "setStatus"
        )
        assert status["statusKey"] == "chroma-rag"
        assert "kb: 2 stores" in status["statusText"]
        rpc.send(id="1", type="prompt", message="/kb status")
        note = rpc.wait(
            lambda m: m["type"] == "extension_ui_request" and m.get("method") == "notify"
        )
        assert "shared" in note["message"]
        assert "private" in note["message"]
    assert model.requests == []


def test_a_linked_extension_works_as_a_copied_one_does(sandbox_folder, pi, served, model):
    sandbox = Sandbox(sandbox_folder, pi, served, model.url)
    assert sandbox.install("--symlink").returncode == 0
    sandbox.ask(QUESTION)
    assert SENTENCE in model.tool_result


def test_a_second_copy_is_refused_since_pi_would_not_start(sandbox):
    extensions = sandbox.agent / "extensions"
    shutil.copytree(extensions / "chroma-rag", extensions / "older-copy")
    refused = sandbox.install()
    assert refused.returncode == 2
    assert "older-copy" in refused.stderr
    assert sandbox.ask(QUESTION).returncode == 1
    shutil.rmtree(extensions / "older-copy")
    assert sandbox.install().returncode == 0


def test_an_uninstalled_extension_is_gone(sandbox, model):
    assert sandbox.install("--uninstall").returncode == 0
    sandbox.ask(QUESTION)
    assert TOOL not in json.dumps(model.requests[0]["tools"])
