"""Builds, questions and our own server where stores lie on Chroma servers."""

import json
import shutil

import pytest
from chroma_server import Fault, chroma_server, faulty_proxy
from loopback import free_ports, port_settings
from sphinx_project import Page, Project, build, child_environment

from doxtr_rag import bootstrap
from doxtr_rag.cli.main import main
from doxtr_rag.servers.endpoints import read_endpoints

pytestmark = [pytest.mark.usefixtures("tiny_model_dir"), pytest.mark.slow]

PAGES = {
    "index": Page("Demo", [("Intro", "Welcome.")], children=["guide", "notes"]),
    "guide": Page("Guide", [("Ports", "Open port 8000 for the server."), ("Logs", "Read logs.")]),
    "notes": Page("Notes", [("Plan", "Nobody may see the plan.")], scope="LOCAL_PRIVATE"),
}


@pytest.fixture(autouse=True)
def _children_find_the_tiny_profile(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", child_environment()["PYTHONPATH"])


@pytest.fixture
def server(tmp_path):
    with chroma_server(tmp_path / "server") as server:
        yield server


@pytest.fixture
def root(tmp_path, server):
    root = tmp_path / "work"
    write(root, server)
    done = build(root)
    assert (done.status, done.warnings) == (0, "")
    yield root
    bootstrap.stop(bootstrap.find_project(None, root))


PORTS = port_settings(free_ports(3))


def write(root, server, pages=PAGES, **settings):
    shared = {"rag_shared_store_mode": "http", "rag_shared_store_uri": server.uri}
    Project(pages, shared | PORTS | {"rag_serve": "off"} | settings).write(root)


def hits(root, question, capsys, monkeypatch):
    monkeypatch.chdir(root)
    assert main(["search", question, "--json", "--top-k", "9"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    return [(hit["store"], hit["text"]) for hit in data["hits"]], data["degraded"]


def test_the_shared_store_is_there_and_the_private_one_here(root, server, capsys, monkeypatch):
    found, degraded = hits(root, "which port is open", capsys, monkeypatch)
    assert ("shared", "Open port 8000 for the server.") in found
    assert ("private", "Nobody may see the plan.") in found
    assert degraded == []
    on_the_server = b"".join(p.read_bytes() for p in server.folder.rglob("*") if p.is_file())
    assert b"Open port 8000" in on_the_server
    assert b"the plan" not in on_the_server
    again = build(root)
    assert (again.status, "embedded" in again.output) == (0, False)


def test_a_server_that_is_away_makes_the_run_incomplete_until_it_is_back(
    root, server, capsys, monkeypatch
):
    server.stop()
    new = Page("Guide", [("Ports", "Open port 9000 instead.")])
    notes = Page("Notes", [("Plan", "A newer plan.")], scope="LOCAL_PRIVATE")
    write(root, server, PAGES | {"guide": new, "notes": notes})
    away = build(root)
    assert away.status != 0
    assert server.uri in away.warnings
    found, degraded = hits(root, "newer plan", capsys, monkeypatch)
    assert ("private", "A newer plan.") in found
    assert [entry["code"] for entry in degraded] == ["unreachable"]
    server.start()
    back = build(root)
    assert (back.status, back.warnings) == (0, "")
    assert " 0 texts embedded" in back.output or "embedded" not in back.output
    assert ("shared", "Open port 9000 instead.") in hits(root, "port", capsys, monkeypatch)[0]


def test_our_server_leads_to_the_chroma_server(root, server, capsys, monkeypatch):
    """Without a path through it: it serves what lies here, and says where the rest is."""
    alone = hits(root, "which port is open", capsys, monkeypatch)
    started = bootstrap.start_detached(bootstrap.find_project(None, root))
    shared = read_endpoints(root / ".doxtr").stores["shared"]
    assert (shared.mode, shared.host, shared.port) == ("http", "127.0.0.1", server.port)
    assert set(started.health["stores"]) == {"private"}
    assert hits(root, "which port is open", capsys, monkeypatch) == alone
    assert main(["serve", "--status"]) == 0
    assert "a Chroma server" in capsys.readouterr().out


def test_what_turns_private_is_gone_from_the_server(root, server, capsys, monkeypatch):
    private = Page("Guide", PAGES["guide"].sections, scope="LOCAL_PRIVATE")
    write(root, server, PAGES | {"guide": private})
    assert build(root).status == 0
    found, _ = hits(root, "which port is open", capsys, monkeypatch)
    assert ("private", "Open port 8000 for the server.") in found
    assert not [text for store, text in found if store == "shared" and "8000" in text]


def test_what_could_not_be_withdrawn_before_a_move_is_told_with_the_old_address(
    root, server, tmp_path
):
    server.stop()
    private = Page("Guide", PAGES["guide"].sections, scope="LOCAL_PRIVATE")
    write(root, server, PAGES | {"guide": private})
    assert build(root).status != 0
    with chroma_server(tmp_path / "other") as other:
        write(root, other, PAGES | {"guide": private})
        moved = build(root)
    assert moved.status == 0
    assert f"may still be at {server.uri} (" in moved.warnings


def test_a_server_that_refuses_writes_is_only_searched(root, server, capsys, monkeypatch):
    with faulty_proxy(server) as proxy:
        proxy.judge = lambda seen: Fault(405) if is_change(seen) else None
        write(root, proxy, PAGES | {"guide": Page("Guide", [("Ports", "Open port 9000.")])})
        done = build(root)
        assert (done.status, done.warnings) == (0, "")
        assert done.output.count("is read-only: shared ingestion is skipped") == 1
        found, degraded = hits(root, "which port is open", capsys, monkeypatch)
        assert ("shared", "Open port 8000 for the server.") in found
        assert degraded == []
        private = Page("Guide", PAGES["guide"].sections, scope="LOCAL_PRIVATE")
        write(root, proxy, PAGES | {"guide": private})
        left = build(root)
        assert left.status != 0
        assert "private by now (guide)" in left.warnings


def is_change(seen):
    return seen.method != "GET" and seen.name not in ("POST get", "POST query")


def test_a_fresh_machine_embeds_nothing_that_the_server_has(root):
    shutil.rmtree(root / ".doxtr")
    shutil.rmtree(root / "_build")
    done = build(root)
    assert done.status == 0
    assert "1 texts embedded" in done.output  # the private one


def test_both_stores_on_one_server_work_and_are_warned_about(root, server, capsys, monkeypatch):
    write(root, server, rag_local_store_mode="http", rag_local_server_uri=server.uri)
    done = build(root)
    assert done.status == 0
    assert "one Chroma server, which keeps no database from the other" in done.warnings
    found, _ = hits(root, "plan", capsys, monkeypatch)
    assert ("private", "Nobody may see the plan.") in found
    monkeypatch.chdir(root)
    main(["doctor"])
    assert "one Chroma server" in capsys.readouterr().out


def test_status_tells_of_a_store_on_a_server(root, server, capsys, monkeypatch):
    monkeypatch.chdir(root)
    assert main(["status", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert data["stores"]["shared"]["index"] == "ready"
    assert main(["doctor"]) == 0
    server.stop()
    assert main(["doctor"]) != 0
    assert server.uri in capsys.readouterr().out


def test_a_wrong_token_is_said_with_the_variable(root, server):
    with faulty_proxy(server) as proxy:
        proxy.judge = lambda _: Fault(401)
        write(root, proxy)
        done = build(root)
    assert done.status != 0
    assert "DOXTR_RAG_SHARED_STORE_HEADERS" in done.warnings
