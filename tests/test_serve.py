"""The server as a process: found, shared, replaced, killed; and what builds and questions use."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone

import pytest
from loopback import free_ports, port_settings
from running_server import is_running
from sphinx_project import Page, Project, build, child_environment
from tiny_profile import FOLDER_VARIABLE

from doxtr_rag import bootstrap
from doxtr_rag.bootstrap.addresses import LOCK_FILE
from doxtr_rag.bootstrap.lending import connect, lent_model
from doxtr_rag.bootstrap.project import model
from doxtr_rag.cli import embed_server
from doxtr_rag.cli.main import main
from doxtr_rag.core.errors import ServerGoneError, StoreUnavailableError
from doxtr_rag.core.scope import Scope
from doxtr_rag.servers.endpoints import read_endpoints, read_token
from doxtr_rag.servers.lifecycle import PortTakenError
from doxtr_rag.storage import lock_holder

pytestmark = [pytest.mark.usefixtures("tiny_model_dir"), pytest.mark.slow]

PAGES = {
    "index": Page("Demo", [("Intro", "Welcome here.")], children=["guide", "notes"]),
    "guide": Page("Guide", [("Ports", "Open port 8000 for the server."), ("Logs", "Read logs.")]),
    "notes": Page("Notes", [("Plan", "Nobody may see the plan.")], scope="LOCAL_PRIVATE"),
}
QUESTIONS = ["which port is open", "plan", "logs of the server", "welcome"]


@pytest.fixture(autouse=True)
def _children_find_the_tiny_profile(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", child_environment()["PYTHONPATH"])


@pytest.fixture(scope="module")
def built(tmp_path_factory, tiny_model_dir):
    root = tmp_path_factory.mktemp("serve") / "work"
    Project(PAGES, port_settings(free_ports(3))).write(root)
    assert build(root).status == 0
    return root


@pytest.fixture
def copied(built, tmp_path):
    """Return a copy of the project; servers of the copies are stopped in the end."""
    roots = []

    def copy(name="work"):
        root = tmp_path / name
        shutil.copytree(built, root)
        roots.append(root)
        return root

    yield copy
    for root in roots:
        project = bootstrap.find_project(None, root)
        bootstrap.stop(project)
        assert bootstrap.server_status(project) is None


@pytest.fixture
def root(copied):
    return copied()


def project_of(root):
    return bootstrap.find_project(None, root)


def pid_of(root):
    return bootstrap.server_status(project_of(root)).pid


def wait_until(is_true, seconds=15.0):
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture
def foreign_endpoints(copied, monkeypatch):
    """DOXTR_RAG_ENDPOINTS leads to another project's server, as a sourced file of it would."""
    other = copied("other")
    yield bootstrap.start_detached(project_of(other))
    monkeypatch.delenv("DOXTR_RAG_ENDPOINTS")


@pytest.mark.parametrize("other_runs", [True, False])
def test_a_server_is_looked_at_and_ended_where_it_belongs(
    root, foreign_endpoints, monkeypatch, other_runs
):
    other = root.with_name("other")
    if not other_runs:
        bootstrap.stop(project_of(other))
    monkeypatch.setenv("DOXTR_RAG_ENDPOINTS", str(other / ".doxtr" / "endpoints.json"))
    assert bootstrap.server_status(project_of(root)) is None
    own = bootstrap.start_detached(project_of(root))
    assert own.health["pid"] == own.pid != foreign_endpoints.pid
    assert own.health["kb_id"] == own.endpoints.kb_id != foreign_endpoints.endpoints.kb_id
    assert bootstrap.stop(project_of(root)) == own.pid
    found = bootstrap.server_status(project_of(other))
    assert (found is not None) is other_runs


def test_a_start_repairs_at_once_what_a_killed_server_left(root, monkeypatch):
    """Its ports lead nobody to whoever has them meanwhile, also when the next start fails."""
    started = bootstrap.start_detached(project_of(root))
    os.kill(started.pid, signal.SIGKILL)
    wait_until(lambda: lock_holder(root / ".doxtr", LOCK_FILE) is None)
    assert read_token(root / ".doxtr") is not None
    monkeypatch.setattr("doxtr_rag.bootstrap.hosting.bind", _no_port)
    with pytest.raises(PortTakenError):
        bootstrap.serve(project_of(root), None, lambda _: None)
    assert read_token(root / ".doxtr") is None
    assert read_endpoints(root / ".doxtr") == started.endpoints.stopped()


def _no_port(*_):
    raise PortTakenError("no free port")


@pytest.mark.parametrize("kind", ["link", "second name", "folder"])
def test_a_log_that_is_another_file_is_not_written(root, tmp_path, kind):
    log, precious = root / ".doxtr" / "server.log", tmp_path / "precious"
    precious.write_text("precious")
    log.unlink(missing_ok=True)
    if kind == "link":
        log.symlink_to(precious)
    elif kind == "second name":
        log.hardlink_to(precious)
    else:
        log.mkdir()
    with pytest.raises(StoreUnavailableError, match="remove it, then run doxtr-rag serve"):
        bootstrap.start_detached(project_of(root))
    assert precious.read_text() == "precious"


def test_a_log_is_for_its_owner_alone_and_quotes_no_stranger(root):
    log = root / ".doxtr" / "server.log"
    log.write_text("of the last run")
    log.chmod(0o644)
    started = bootstrap.start_detached(project_of(root))
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    for said in (
        f"GET /STRANGER HTTP/1.1\r\nHost: 127.0.0.1\r\n{upgrade}\r\n",
        "STRANGER no HTTP\r\n\r\n",
        "POST /embed HTTP/1.1\r\nHost: STRANGER\r\nContent-Length: 9\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", started.endpoints.api_port), 5) as stranger:
            stranger.sendall(said.encode())
            assert stranger.recv(100).split()[1] in {b"400", b"401", b"403"}
    assert log.stat().st_mode & 0o777 == 0o600
    text = log.read_text()
    assert "STRANGER" not in text
    assert "Traceback" not in text
    assert "of the last run" not in text


def test_a_server_says_when_its_stores_were_written(root):
    stores = bootstrap.start_detached(project_of(root)).health["stores"]
    for store in stores.values():
        age = datetime.now(timezone.utc) - datetime.fromisoformat(store["updated"])
        assert timedelta(0) <= age < timedelta(hours=1)


def test_a_second_start_finds_the_first_server(root):
    first = bootstrap.start_detached(project_of(root))
    again = bootstrap.start_detached(project_of(root))
    assert (first.pid, first.endpoints) == (again.pid, again.endpoints)
    assert first.health["stores"]["shared"]["chunks"] > 0
    log = (root / ".doxtr" / "server.log").read_text()
    assert read_token(root / ".doxtr") not in log


def test_starts_at_the_same_time_give_one_server(root):
    command = [sys.executable, "-m", "doxtr_rag", "serve", "--detach", "--json"]
    starts = [
        subprocess.Popen(command, cwd=root, env=child_environment(), stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    answers = [json.loads(start.communicate(timeout=90)[0]) for start in starts]
    assert all(answer["ok"] for answer in answers)
    assert len({answer["data"]["pid"] for answer in answers}) == 1


def test_a_stopped_server_leaves_its_ports_and_takes_its_token(root):
    state = root / ".doxtr"
    started = bootstrap.start_detached(project_of(root))
    token = read_token(state)
    assert bootstrap.stop(project_of(root)) == started.pid
    assert bootstrap.stop(project_of(root)) is None
    assert read_token(state) is None
    assert read_endpoints(state) == started.endpoints.stopped()
    restarted = bootstrap.start_detached(project_of(root))
    assert restarted.endpoints == started.endpoints
    assert read_token(state) != token


def test_a_killed_server_is_no_server_and_is_replaced(root):
    started = bootstrap.start_detached(project_of(root))
    os.kill(started.pid, signal.SIGKILL)
    wait_until(lambda: bootstrap.server_status(project_of(root)) is None)
    assert connect(project_of(root)) is None
    restarted = bootstrap.start_detached(project_of(root))
    assert restarted.endpoints == started.endpoints
    assert restarted.pid != started.pid


def test_a_terminated_server_ends_with_zero(root):
    command = [sys.executable, "-m", "doxtr_rag", "serve"]
    process = subprocess.Popen(
        command, cwd=root, env=child_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_until(lambda: bootstrap.server_status(project_of(root)) is not None)
    process.terminate()
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert b"has ended" in out


def test_a_server_that_nobody_asks_ends_by_itself(root):
    bootstrap.start_detached(project_of(root), 1.0)
    wait_until(lambda: bootstrap.server_status(project_of(root)) is None or time.sleep(1.5))


def test_two_projects_that_want_the_same_ports_never_mix(copied):
    one, two = copied("one"), copied("two")
    first, second = (bootstrap.start_detached(project_of(root)) for root in (one, two))
    ports = [
        {t.port for t in s.endpoints.stores.values()} | {s.endpoints.api_port}
        for s in (first, second)
    ]
    assert not ports[0] & ports[1]
    assert first.endpoints.kb_id != second.endpoints.kb_id
    # What leads to the other server, as a copied folder or a hostile file would.
    shutil.copy(two / ".doxtr" / "endpoints.json", one / ".doxtr" / "endpoints.json")
    assert connect(project_of(one)) is None
    os.kill(first.pid, signal.SIGTERM)
    wait_until(lambda: lock_holder(one / ".doxtr", LOCK_FILE) is None)


def test_whoever_has_the_port_gets_nothing(root):
    wanted = project_of(root).settings.embed_port
    heard = []
    with socket.create_server(("127.0.0.1", wanted)) as squatter:

        def listen():
            connection, _ = squatter.accept()
            heard.append(connection.recv(100))
            connection.close()

        threading.Thread(target=listen, daemon=True).start()
        started = bootstrap.start_detached(project_of(root))
        assert started.endpoints.api_port != wanted
        assert heard == []


def test_a_squatter_of_a_dead_server_never_sees_the_token(root, monkeypatch):
    """Not even where the lock of the server is not looked at."""
    started = bootstrap.start_detached(project_of(root))
    token = read_token(root / ".doxtr")
    os.kill(started.pid, signal.SIGKILL)
    heard = []
    wait_until(lambda: bootstrap.server_status(project_of(root)) is None)
    with socket.create_server(("127.0.0.1", started.endpoints.api_port)) as squatter:

        def listen():
            connection, _ = squatter.accept()
            heard.append(connection.recv(65536))
            body = b'{"kb_id":"x","version":"0","proof":"00"}'
            head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
            connection.sendall(head + body)
            connection.close()

        threading.Thread(target=listen, daemon=True).start()
        assert connect(project_of(root)) is None
        assert heard == []
        monkeypatch.setenv("DOXTR_RAG_ENDPOINTS", str(root / ".doxtr" / "endpoints.json"))
        assert connect(project_of(root)) is None
    monkeypatch.delenv("DOXTR_RAG_ENDPOINTS")
    assert b"/identity?nonce=" in heard[0]
    assert token.encode() not in heard[0]
    assert b"uthorization" not in heard[0]


def test_a_copy_of_a_served_folder_does_not_ask_the_server_of_the_first(
    root, tmp_path, monkeypatch
):
    bootstrap.start_detached(project_of(root))
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    client = connect(project_of(root))
    assert client is not None
    client.close()
    assert connect(project_of(copy)) is None
    monkeypatch.setenv("DOXTR_RAG_ENDPOINTS", str(copy / ".doxtr" / "endpoints.json"))
    assert connect(project_of(copy)) is None
    monkeypatch.delenv("DOXTR_RAG_ENDPOINTS")


def test_a_build_after_a_change_of_model_replaces_the_server(root, tiny_model_dir, tmp_path):
    before = bootstrap.start_detached(project_of(root))
    other = tmp_path / "other-model"
    shutil.copytree(tiny_model_dir, other)
    weights = other / "onnx" / "model.onnx_data"
    changed = bytearray(weights.read_bytes())
    changed[100] ^= 1
    weights.write_bytes(changed)
    environment = child_environment() | {FOLDER_VARIABLE: str(other)}
    command = [sys.executable, "-m", "sphinx", "-b", "rag", "source", "out"]
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert bootstrap.server_status(project_of(root)) is None
    assert not is_running(before.pid)


def hits(root, question, capsys):
    os.chdir(root)
    assert main(["search", question, "--json", "--top-k", "4"]) == 0
    return json.loads(capsys.readouterr().out)["data"]


def test_a_question_gets_the_same_answer_with_and_without_a_server(root, capsys, monkeypatch):
    monkeypatch.chdir(root)
    alone = [hits(root, question, capsys) for question in QUESTIONS]
    bootstrap.start_detached(project_of(root))
    assert [hits(root, question, capsys) for question in QUESTIONS] == alone


def test_what_a_build_adds_is_found_at_once(root, capsys, monkeypatch):
    monkeypatch.chdir(root)
    bootstrap.start_detached(project_of(root))
    hits(root, "zebra", capsys)
    grown = PAGES | {"zoo": Page("Zoo", [("Zebra", "A zebra has stripes.")])}
    grown["index"] = Page("Demo", [("Intro", "Welcome.")], children=["guide", "notes", "zoo"])
    Project(grown, port_settings(list(ports_of(root)))).write(root)
    assert build(root).status == 0
    found = hits(root, "zebra", capsys)
    assert found["hits"][0]["document"] == "zoo"
    assert found["degraded"] == []


def ports_of(root):
    known = project_of(root).settings
    return known.shared_port, known.private_port, known.embed_port


def test_a_build_has_the_server_embed(root):
    project = project_of(root)
    bootstrap.start_detached(project)
    texts = ["one text", "another text", "one text"]
    with ExitStack() as stack:
        lent = lent_model(project, stack).embedder()
        there = dict(pair for batch in lent.embed(texts) for pair in batch)
    here = dict(pair for batch in model(project).embedder().embed(texts) for pair in batch)
    assert there == here


def test_a_build_goes_on_alone_when_the_server_is_killed(root):
    project = project_of(root)
    pid = bootstrap.start_detached(project).pid
    stack = ExitStack()
    embedder = lent_model(project, stack).embedder()
    texts = [f"text number {at} of many" for at in range(200)]
    batches = embedder.embed(texts)
    done = dict(next(batches))
    os.kill(pid, signal.SIGKILL)
    for batch in batches:
        done.update(batch)
    assert set(done) == set(range(200))
    assert embedder.counts.texts >= 200
    stack.close()


def test_many_questions_at_once_lose_none(root):
    bootstrap.start_detached(project_of(root))
    with bootstrap.knowledge_base(project_of(root), list(Scope)) as base:
        assert base.client is not None
        found = []

        def ask(question):
            found.append(base.retriever.retrieve(question, top_k=2).passages)

        threads = [threading.Thread(target=ask, args=(QUESTIONS[at % 4],)) for at in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(found) == 32
    assert all(found)


@pytest.mark.parametrize("kind", ["open", "link", "broken", "folder"])
def test_endpoints_that_are_not_ours_are_replaced_and_never_used(root, tmp_path, kind):
    path = root / ".doxtr" / "endpoints.json"
    if kind == "open":
        path.chmod(0o666)
    elif kind == "broken":
        path.write_text('{"version": 1')
    else:
        path.unlink()
        target = tmp_path / "target.json"
        target.write_text("{}")
        path.symlink_to(target) if kind == "link" else path.mkdir()
    if kind == "folder":
        with pytest.raises(ServerGoneError, match=r"endpoints cannot be written"):
            bootstrap.start_detached(project_of(root))
        path.rmdir()
        return
    assert bootstrap.server_status(project_of(root)) is None
    assert bootstrap.start_detached(project_of(root)).endpoints.api_port
    assert path.stat().st_mode & 0o777 == 0o600
    assert not path.is_symlink()
    if kind == "link":
        assert target.read_text() == "{}"


def test_a_server_that_cannot_start_says_why(root, monkeypatch):
    monkeypatch.setattr("doxtr_rag.bootstrap.serving.LOG_LINES_SHOWN", 3)
    (root / ".doxtr" / "settings.json").rename(root / "settings.json")
    project = bootstrap.find_project(root / "source")
    with pytest.raises(ServerGoneError, match=r"did not start: .*run sphinx-build"):
        bootstrap.start_detached(project)
    (root / "settings.json").rename(root / ".doxtr" / "settings.json")


def test_without_a_server_the_commands_say_so(root, capsys, monkeypatch):
    monkeypatch.chdir(root)
    assert main(["serve", "--status", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"] == "store_server_down"
    assert main(["serve", "--stop"]) == 0
    assert "no server was running" in capsys.readouterr().out


def test_a_build_leaves_a_server_where_that_is_wanted(root):
    """In a process of its own, since the server has to outlive it."""
    environment = child_environment() | {"CI": "false"}
    command = [sys.executable, "-m", "sphinx", "-b", "rag", "source", "out"]
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "the server of the knowledge base runs at" in done.stdout
    assert bootstrap.server_status(project_of(root)).health["idle_exit_s"] == 1800.0


def test_endpoints_elsewhere_lead_to_the_server(root, tmp_path, monkeypatch):
    bootstrap.start_detached(project_of(root))
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    shutil.copy2(root / ".doxtr" / "endpoints.json", moved / "kb.json")
    shutil.copy2(root / ".doxtr" / "server.token", moved / "server.token")
    monkeypatch.setenv("DOXTR_RAG_ENDPOINTS", str(moved / "kb.json"))
    client = connect(project_of(root))
    assert client is not None
    client.close()
    (moved / "kb.json").chmod(0o644)
    assert connect(project_of(root)) is None
    monkeypatch.delenv("DOXTR_RAG_ENDPOINTS")


def test_a_search_starts_the_server_where_the_project_says_on(root, capsys, monkeypatch):
    path = root / ".doxtr" / "settings.json"
    path.write_text(path.read_text().replace('"serve": "auto"', '"serve": "on"'))
    monkeypatch.chdir(root)
    assert hits(root, "which port is open", capsys)["hits"]
    assert bootstrap.server_status(project_of(root)) is not None


def test_a_model_alone_is_served_on_its_own_port(root, monkeypatch):
    (port,) = free_ports(1)
    command = [sys.executable, "-c", "import doxtr_rag.cli.embed_server as s; s.main()"]
    options = ["--profile", "tiny", "--port", str(port)]
    process = subprocess.Popen(
        [*command, *options], env=child_environment(), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr.readline().startswith("tiny at http://127.0.0.1:")
    project = project_of(root)
    monkeypatch.setenv("DOXTR_RAG_EMBED_URL", f"http://127.0.0.1:{port}/embed")
    with ExitStack() as stack:
        lent = lent_model(project_of(root), stack).embedder()
        there = lent.embed_query("a question")
    assert there == model(project).embedder().embed_query("a question")
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0", "--profile", "tiny"], "--token-file"),  # noqa: S104 - refused
        (["--profile", "nothing"], "nothing"),
        (["--token-file", "missing", "--profile", "tiny"], "missing"),
    ],
)
def test_a_model_server_refuses_what_is_unsafe_or_unknown(options, said, capsys):
    assert embed_server.main(options) == 2
    assert said in capsys.readouterr().err
