"""Endpoints that lead elsewhere, strangers on the server's port, and servers that hang or die."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from urllib.parse import urlsplit

import pytest
from processes import servers_below, wait_until_ended
from sandbox import run
from station import QUESTION, SENTENCE
from stranger import Stranger

ELSEWHERE = "127.0.0.2"  # this machine as well, so that what is sent there is heard
FETCH = "await fetch(process.argv[1], { method: 'POST', body: '{}' })"
FIELDS = {
    "embed_url": lambda stranger: {"embedding": {"embed_url": f"{stranger.origin}/embed"}},
    "search_url": lambda stranger: {"search_url": f"{stranger.origin}/search"},
    "host": lambda stranger: {"private": {"host": ELSEWHERE, "port": stranger.port}},
}


def process_id(project):
    said = run("doxtr-rag", "serve", "--status", "--json", cwd=project).stdout
    return json.loads(said)["data"]["pid"]


def kill_server(project):
    """Kill the project's server; what it published stays. Returns the port that it asked on."""
    said = json.loads((project / ".doxtr" / "endpoints.json").read_text())
    process = process_id(project)
    os.kill(process, signal.SIGKILL)
    assert wait_until_ended(process)
    assert not servers_below(project)
    return urlsplit(said["search_url"]).port


@contextlib.contextmanager
def hanging(project):
    """The project's server keeps its ports and answers nothing."""
    process = process_id(project)
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def test_endpoints_on_another_host_are_refused_unheard(own_server, own_sandbox):
    kill_server(own_server)  # its token stays, and nobody writes the endpoints again
    path = own_server / ".doxtr" / "endpoints.json"
    sound = json.loads(path.read_text())
    with Stranger(ELSEWHERE) as stranger:
        with own_sandbox.rpc() as rpc:
            for field, change in FIELDS.items():
                changed = change(stranger)
                for name, value in changed.items():
                    changed[name] = sound[name] | value if isinstance(value, dict) else value
                path.write_text(json.dumps(sound | changed))
                rpc.send(id=field, type="prompt", message=QUESTION)
                end = rpc.wait(lambda m: m["type"] == "tool_execution_end")
                said = end["result"]["content"][0]["text"]
                assert end["isError"] is True, said
                assert f"{field}: expected" in said
                assert "doxtr-rag serve --detach" in said
                rpc.wait(lambda m: m["type"] == "agent_end")
        assert not stranger.heard
        node = (own_sandbox.node, "--input-type=module", "-e", FETCH)
        assert own_sandbox.command(*node, f"{stranger.origin}/search").returncode == 0
        assert [heard.partition("\n")[0] for heard in stranger.heard] == ["POST /search HTTP/1.1"]


def test_a_stranger_on_the_port_is_asked_for_a_proof_and_nothing_else(
    own_server, own_sandbox, model
):
    token = (own_server / ".doxtr" / "server.token").read_text().strip()
    with Stranger("127.0.0.1", kill_server(own_server)) as stranger:
        own_sandbox.ask(QUESTION)
        assert stranger.heard
        assert all(heard.startswith("GET /identity?nonce=") for heard in stranger.heard)
        secrets = (token, "cheese", "uthorization")
        assert not [heard for heard in stranger.heard if any(word in heard for word in secrets)]
    assert SENTENCE in model.tool_result


def test_a_killed_server_is_replaced(own_server, own_sandbox, model):
    kill_server(own_server)
    own_sandbox.ask(QUESTION)
    assert SENTENCE in model.tool_result
    assert servers_below(own_server) == [process_id(own_server)]


def test_an_abort_is_prompt_while_the_server_hangs(own_server, own_sandbox):
    with hanging(own_server), own_sandbox.rpc() as rpc:
        rpc.send(id="1", type="prompt", message=QUESTION)
        rpc.wait(lambda m: m["type"] == "tool_execution_update")
        started = time.monotonic()
        rpc.send(id="2", type="abort")
        end = rpc.wait(lambda m: m["type"] == "tool_execution_end", 5)
        assert time.monotonic() - started < 2
        assert end["isError"] is True
        assert "abort" in json.dumps(end["result"]).lower()


def test_a_server_that_hangs_is_named_with_the_command_that_ends_it(own_server, own_sandbox, model):
    with hanging(own_server):
        own_sandbox.ask(QUESTION)
        assert "does not answer" in model.tool_result
        assert "doxtr-rag serve --stop" in model.tool_result
        assert len(servers_below(own_server)) == 1


def test_endpoints_removed_under_a_running_server_come_back(own_server, own_sandbox, model):
    process = process_id(own_server)
    (own_server / ".doxtr" / "endpoints.json").unlink()
    (own_server / ".doxtr" / "server.token").write_text("")
    assert process_id(own_server) == process
    own_sandbox.ask(QUESTION)
    assert SENTENCE in model.tool_result
    assert process_id(own_server) == process


def test_two_agents_at_once_start_one_server(own_sandbox, project):
    with own_sandbox.rpc() as one, own_sandbox.rpc() as other:
        for rpc in (one, other):
            rpc.send(id="1", type="prompt", message=QUESTION)
        ends = [rpc.wait(lambda m: m["type"] == "tool_execution_end") for rpc in (one, other)]
    assert [end["isError"] for end in ends] == [False, False], ends
    for _ in range(100):  # the one that came second is seen until it ends
        if len(servers_below(project)) == 1:
            break
        time.sleep(0.05)
    assert servers_below(project) == [process_id(project)]


@pytest.mark.parametrize("command", ["status", "search moon cheese"])
def test_outside_a_project_a_sentence_says_so(sandbox, tmp_path, model, command):
    sandbox.project = tmp_path / "elsewhere"
    sandbox.project.mkdir()
    done = sandbox.ask(f"/kb {command}")
    assert "No knowledge base was found" in done.stderr
    assert "    at " not in done.stderr
    assert model.requests == []
