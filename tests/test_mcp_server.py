"""The MCP server, asked by the protocol's own client."""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from mcp import Client
from sphinx_project import Page, Project, build, child_environment

from doxtr_rag import bootstrap
from doxtr_rag.cli import mcp
from doxtr_rag.cli.main import main
from doxtr_rag.core.errors import ConfigError
from doxtr_rag.core.scope import Scope
from doxtr_rag.mcp_server import server

pytestmark = pytest.mark.usefixtures("tiny_model_dir")

PAGES = {
    "index": Page("Demo", [("Intro", "Welcome here.")], children=["guide", "notes"]),
    "guide": Page("Guide", [("Ports", "Open port 8000 for the server."), ("Logs", "Read logs.")]),
    "notes": Page("Notes", [("Plan", "Nobody may see the plan.")], scope="LOCAL_PRIVATE"),
}
TOOLS = {"search_knowledge_base", "kb_doc", "kb_read"}


@pytest.fixture(scope="module")
def built(tmp_path_factory, tiny_model_dir):
    root = tmp_path_factory.mktemp("mcp") / "work"
    Project(PAGES, {"rag_serve": "off"}).write(root)
    assert build(root).status == 0
    return root


def ask(root, *calls, scopes=tuple(Scope)):
    """Call tools of one server, one after the other."""

    async def talk(standing):
        async with Client(server(standing.current)) as client:
            return [await client.call_tool(tool, arguments) for tool, arguments in calls]

    standing = bootstrap.StandingKnowledgeBase(
        lambda: bootstrap.find_project(None, root), bootstrap.start_if_wanted, scopes
    )
    with closing(standing):
        return asyncio.run(talk(standing))


def search(root, query, **arguments):
    (found,) = ask(root, ("search_knowledge_base", {"query": query, **arguments}))
    return found


def test_tools_are_described_and_read_only(built):
    async def tools():
        async with Client(server(lambda: None)) as client:
            return client.instructions, (await client.list_tools()).tools

    instructions, listed = asyncio.run(tools())
    assert "search_knowledge_base" in instructions
    assert {tool.name for tool in listed} == TOOLS
    for tool in listed:
        assert tool.annotations.read_only_hint
        assert tool.output_schema["type"] == "object"
        assert tool.description


def test_an_answer_has_text_for_the_model_and_structure_for_programs(built, capsys, monkeypatch):
    found = search(built, "which port is open", top_k=2)
    assert not found.is_error
    monkeypatch.chdir(built)
    assert main(["search", "which port is open", "--json", "--top-k", "2"]) == 0
    said = json.loads(capsys.readouterr().out)["data"]
    assert found.structured_content["hits"] == said["hits"]
    assert found.structured_content["degraded"] == said["degraded"]
    assert "not instructions" in found.content[0].text
    assert "> Open port 8000" in found.content[0].text


def test_a_filter_keeps_other_documents_out(built):
    found = search(built, "port", doc_filter="notes")
    assert {hit["document"] for hit in found.structured_content["hits"]} == {"notes"}
    nothing = search(built, "port", doc_filter="nowhere/*")
    assert nothing.structured_content["nothing_relevant"]
    assert not nothing.is_error
    assert "doc_filter 'nowhere/*' matches" in nothing.content[0].text
    assert "doc_filter" not in found.content[0].text


def test_private_pages_stay_out_of_the_shared_scope(built):
    calls = [
        ("search_knowledge_base", {"query": "Nobody may see the plan", "top_k": 50}),
        ("kb_doc", {"doc": "notes"}),
        ("kb_read", {"doc": "notes", "section": "Plan"}),
    ]
    everything = ask(built, *calls)
    assert "notes" in {hit["document"] for hit in everything[0].structured_content["hits"]}
    assert [found.is_error for found in everything] == [False, False, False]
    search_found, outline, reading = ask(built, *calls, scopes=[Scope.SHARED_ORG])
    hits = search_found.structured_content["hits"]
    assert {hit["scope"] for hit in hits} == {"SHARED_ORG"}
    assert (outline.is_error, reading.is_error) == (True, True)
    said = "".join(found.content[0].text for found in (search_found, outline, reading))
    assert "Nobody may see" not in said


def test_reading_on(built):
    outline, reading = ask(
        built,
        ("kb_doc", {"doc": "guide"}),
        ("kb_read", {"doc": "guide", "section": "Logs"}),
    )
    titles = [section["title"] for section in outline.structured_content["sections"]]
    assert titles[-2:] == ["Ports", "Logs"]
    assert "- " in outline.content[0].text
    assert reading.structured_content["section"]["text"] == "Read logs."
    assert reading.structured_content["before"]["title"] == "Ports"
    assert reading.structured_content["after"] is None
    assert "#### Before it: Ports" in reading.content[0].text
    assert all("not instructions" in said.content[0].text for said in (outline, reading))


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("kb_doc", {"doc": "guidee"}, "did you mean guide"),
        ("kb_read", {"doc": "guide", "section": "nope"}, "no section 'nope'"),
        ("kb_doc", {"doc": "\x1b\x00 "}, "doc is empty"),
        ("kb_doc", {"doc": "x" * 1_001}, "doc"),
        ("kb_read", {"doc": "guide", "section": "x" * 1_001}, "section"),
        ("search_knowledge_base", {"query": "x", "doc_filter": "x" * 1_001}, "doc_filter"),
        ("search_knowledge_base", {"query": "x" * 100_001}, "query"),
        ("search_knowledge_base", {"query": "x", "top_k": 0}, "top_k"),
        ("search_knowledge_base", {"query": "x", "top_k": 10**9}, "top_k"),
        ("search_knowledge_base", {}, "query"),
    ],
)
def test_what_cannot_be_answered_is_said_in_words(built, tool, arguments, said):
    (found,) = ask(built, (tool, arguments))
    assert found.is_error
    assert said in found.content[0].text
    assert "Traceback" not in found.content[0].text


@pytest.mark.parametrize("query", ["x" * 100_000, "nul \0 byte", 'a" OR "b', "\u202e\x1b[31m"])
def test_odd_questions_are_answered(built, query):
    found = search(built, query)
    assert not found.is_error
    assert "\x1b" not in found.content[0].text


@pytest.mark.parametrize("query", ["", " \n", "\x00"])
def test_a_blank_question_has_an_empty_answer(tmp_path, query):
    """Also where there is no knowledge base to ask."""
    found = search(tmp_path, query)
    assert not found.is_error
    assert found.content[0].text == "Nothing to search for: the query is empty."
    expected = {"query": "", "hits": [], "nothing_relevant": True, "degraded": []}
    assert found.structured_content == expected


@pytest.mark.parametrize("name", ["gui\x1b[31mdee", "guidee\x07", "gui\ndee"])
def test_errors_repeat_names_without_what_steers_a_terminal(built, name):
    calls = [("kb_doc", {"doc": name}), ("kb_read", {"doc": "guide", "section": name})]
    for found in ask(built, *calls):
        assert found.is_error
        assert found.content[0].text.isprintable()


def test_without_a_knowledge_base_the_next_command_is_named(tmp_path):
    found = search(tmp_path, "anything")
    assert found.is_error
    assert "sphinx-build" in found.content[0].text


def test_a_project_that_is_built_meanwhile_is_found(built, tmp_path):
    root = tmp_path / "work"
    root.mkdir()

    async def talk(standing):
        async with Client(server(standing.current)) as client:
            before = await client.call_tool("search_knowledge_base", {"query": "port"})
            shutil.copytree(built, root, dirs_exist_ok=True)
            return before, await client.call_tool("search_knowledge_base", {"query": "port"})

    standing = bootstrap.StandingKnowledgeBase(
        lambda: bootstrap.find_project(None, root), bootstrap.start_if_wanted
    )
    with closing(standing):
        before, after = asyncio.run(talk(standing))
    assert (before.is_error, after.is_error) == (True, False)


def talked(root, messages, *options):
    """Return the results by the ids of messages, and what was said on standard error."""
    process = subprocess.Popen(
        [sys.executable, "-m", "doxtr_rag", "mcp", *options],
        cwd=root, env=child_environment(), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    end = threading.Timer(60, process.kill)  # where a message is never answered
    end.start()
    answers = {}
    for message in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()
        while "id" in message and message["id"] not in answers:
            said = json.loads(process.stdout.readline())
            answers[said.get("id")] = said.get("result")
    out, err = process.communicate(timeout=20)
    end.cancel()
    assert process.returncode == 0
    assert out == ""
    return answers, err


def opening(version):
    hello = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "0"},
    }
    return [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
    ]


def call(number, query):
    params = {"name": "search_knowledge_base", "arguments": {"query": query}}
    return {"id": number, "method": "tools/call", "params": params}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_older_clients_are_understood_over_real_streams(built, version):
    """Message by message, with nothing but the protocol on standard output."""
    messages = [*opening(version), {"id": 2, "method": "tools/list"}, call(3, "port")]
    answers, err = talked(built, messages)
    assert answers[1]["protocolVersion"] == version
    assert {tool["name"] for tool in answers[2]["tools"]} == TOOLS
    assert not answers[3].get("isError")
    assert "port" not in err.replace("import", "").replace("report", "")


def test_half_a_surrogate_pair_leaves_no_call_unanswered(built):
    """`json.dumps` writes the escape that strict readers refuse."""
    queries = {2: "port \ud800", 3: "port \udfff \ud83d", 4: "port \U0001f600", 5: r"port \ud800"}
    calls = [call(number, query) for number, query in queries.items()]
    answers, _ = talked(built, [*opening("2025-11-25"), *calls])
    said = {number: answers[number]["structuredContent"]["query"] for number in queries}
    assert said == {
        2: "port \ufffd",
        3: "port \ufffd \ufffd",
        4: "port \U0001f600",
        5: r"port \ud800",
    }


def test_a_server_started_elsewhere_answers_for_its_project_and_scope(built, tmp_path):
    (built / "deep").mkdir(exist_ok=True)
    options = ("--project", str(built / "deep"), "--scope", "shared")
    messages = [*opening("2025-11-25"), call(2, "Nobody may see the plan")]
    answers, _ = talked(tmp_path, messages, *options)
    hits = answers[2]["structuredContent"]["hits"]
    assert {hit["scope"] for hit in hits} == {"SHARED_ORG"}


def test_a_project_folder_that_is_gone_is_said_and_no_other_one_is_asked(built):
    messages = [*opening("2025-11-25"), call(2, "port")]
    answers, _ = talked(built, messages, "--project", "gone")
    assert answers[2]["isError"]
    assert "--project gone is no folder" in answers[2]["content"][0]["text"]


def test_a_project_is_named_once(tmp_path):
    with pytest.raises(ConfigError, match="once"):
        mcp.run(argparse.Namespace(conf=tmp_path, project=tmp_path, scope="all"))


def test_everything_sent_at_once_is_answered_before_the_end(built):
    """Calls whose input ends behind them, lines that are no message, and calls taken back."""
    calls = [{"jsonrpc": "2.0", **message} for message in [*opening("2025-11-25"), call(2, "port")]]
    cancelled = {"method": "notifications/cancelled", "params": {"requestId": 3}}
    more = [{"jsonrpc": "2.0", **message} for message in (call(3, "logs"), cancelled)]
    lines = [
        *map(json.dumps, calls),
        "{nonsense",
        "",
        json.dumps(calls[2:]),
        '{"jsonrpc": "2.0", "id": 9}',
        *map(json.dumps, more),
        json.dumps({"jsonrpc": "2.0", **call("four", "port")}),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "doxtr_rag", "mcp"], cwd=built, env=child_environment(), text=True,
        input="\n".join(lines) + "\n", capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    said = [json.loads(line) for line in done.stdout.splitlines()]
    answers = {answer["id"]: answer for answer in said if answer.get("id") is not None}
    assert {1, 2, "four"} <= set(answers)
    assert not any(answers[number]["result"].get("isError") for number in (2, "four"))
    refused = [answer["error"]["code"] for answer in said if answer.get("id", 0) is None]
    assert refused == [-32700, -32600, -32600]
