"""A server beside builds: what it does for them, when it is started, and when its folder goes."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time

import knowledge_base
import pytest
from loopback import free_ports, port_settings
from running_server import is_running
from sphinx_project import Page, Project, build, child_environment

from doxtr_rag import bootstrap
from doxtr_rag.bootstrap.lending import LentEmbedder
from doxtr_rag.cli.main import main
from doxtr_rag.core.errors import EmbeddingError, ServerGoneError, StoreUnavailableError
from doxtr_rag.servers.endpoints import read_endpoints, read_token
from doxtr_rag.testing import HashEmbedder

pytestmark = [pytest.mark.usefixtures("tiny_model_dir"), pytest.mark.slow]

PAGES = {
    "index": Page("Demo", [("Intro", "Welcome here.")], children=["guide", "notes"]),
    "guide": Page("Guide", [("Ports", "Open port 8000."), ("Logs", "Read logs.")]),
    "notes": Page("Notes", [("Plan", "Nobody may see the plan.")], scope="LOCAL_PRIVATE"),
}


@pytest.fixture(autouse=True)
def _children_find_the_tiny_profile(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", child_environment()["PYTHONPATH"])


@pytest.fixture(scope="module")
def built(tmp_path_factory, tiny_model_dir):
    root = tmp_path_factory.mktemp("builds") / "work"
    Project(PAGES, port_settings(free_ports(3))).write(root)
    assert build(root).status == 0
    return root


@pytest.fixture(params=["work"])
def root(built, tmp_path, request):
    """A copy of the project, whose server is stopped in the end."""
    root = tmp_path / request.param
    shutil.copytree(built, root)
    yield root
    if (root / ".doxtr").is_dir():
        bootstrap.stop(project_of(root))
        assert bootstrap.server_status(project_of(root)) is None


def project_of(root):
    return bootstrap.find_project(None, root)


def start(root):
    return bootstrap.start_detached(project_of(root))


def wait_until(is_true, seconds=15.0):
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def settings_of(root):
    settings = project_of(root).settings
    return port_settings([settings.shared_port, settings.private_port, settings.embed_port])


def grow(root, pages):
    grown = {f"more{at}": Page(f"Page {at}", _sections(at)) for at in range(pages)}
    index = Page("Demo", [("Intro", "Welcome.")], children=["guide", "notes", *grown])
    Project(PAGES | grown | {"index": index}, settings_of(root)).write(root)


def _sections(page):
    return [
        (f"Part {at}", " ".join(f"word{page}x{at}x{word}" for word in range(40))) for at in range(8)
    ]


def sphinx_build(root, **environment):
    command = [sys.executable, "-m", "sphinx", "-b", "rag", "source", "out"]
    return subprocess.Popen(
        command,
        cwd=root,
        env=child_environment() | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def without_runtime(tmp_path):
    """Variables of a process that cannot load a model."""
    folder = tmp_path / "no-runtime"
    folder.mkdir()
    (folder / "onnxruntime.py").write_text("raise ImportError('no model is loaded here')\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), child_environment()["PYTHONPATH"]])}


def test_a_build_that_the_server_embeds_for_loads_no_model(root, without_runtime):
    grow(root, 2)
    alone = sphinx_build(root, **without_runtime)
    said, _ = alone.communicate(timeout=60)
    assert "no model is loaded here" in said
    start(root)
    helped = sphinx_build(root, **without_runtime)
    said, _ = helped.communicate(timeout=60)
    assert helped.returncode == 0, said
    assert "no model is loaded here" not in said
    found = knowledge_base.vectors(root, "SHARED_ORG")
    assert sum(key.startswith("demo/more") for key in found) >= 16
    assert all(found.values())


def test_a_build_ends_as_it_would_alone_when_its_server_is_killed(root, tmp_path):
    alone = tmp_path / "alone"
    shutil.copytree(root, alone)
    for place in (root, alone):
        grow(place, 40)
    assert build(alone).status == 0
    pid = start(root).pid
    wait_until(lambda: bootstrap.server_status(project_of(root)).health["status"] == "ready")
    idle = _cpu_ticks(pid)
    process = sphinx_build(root)
    wait_until(lambda: _cpu_ticks(pid) > idle + 10 or process.poll() is not None, 60)
    os.kill(pid, signal.SIGKILL)
    assert process.poll() is None, "the build ended before the server was killed"
    said, _ = process.communicate(timeout=90)
    assert process.returncode == 0, said
    assert knowledge_base.difference(root, alone) == []


def _cpu_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stream:  # noqa: PTH123 - no real file
        fields = stream.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize(
    ("wanted", "is_ci", "starts"),
    [
        ("auto", False, True),
        ("auto", True, False),
        ("on", False, True),
        ("on", True, True),
        ("off", False, False),
        ("off", True, False),
    ],
)
def test_a_build_starts_a_server_where_that_is_wanted(root, wanted, is_ci, starts):
    found = project_of(root)
    settings = dataclasses.replace(found.settings, serve=wanted)
    environment = dataclasses.replace(found.environment, is_ci=is_ci)
    project = dataclasses.replace(found, settings=settings, environment=environment)
    said = []
    bootstrap.serve_after_build(project, said.append)
    assert (bootstrap.server_status(project) is not None) is starts
    assert bool(said) is starts
    assert read_endpoints(root / ".doxtr") is not None


def test_a_server_whose_folder_goes_ends_and_leaves_its_successor_alone(root):
    first = start(root)
    shutil.rmtree(root / ".doxtr")
    assert build(root).status == 0
    second = start(root)
    wait_until(lambda: not is_running(first.pid))
    assert second.pid != first.pid
    found = bootstrap.server_status(project_of(root))
    assert (found.pid, found.endpoints) == (second.pid, second.endpoints)
    assert read_token(root / ".doxtr") is not None


@pytest.mark.parametrize("name", ["endpoints.json", "server.token"])
@pytest.mark.parametrize("kind", ["gone", "changed", "open", "link"])
def test_a_running_server_puts_back_what_it_published(root, tmp_path, name, kind):
    first = start(root)
    path = root / ".doxtr" / name
    published = path.read_text()
    if kind == "open":
        path.chmod(0o666)
    elif kind == "changed":
        path.write_text(published.replace("1", "2"))
    else:
        path.unlink()
        target = tmp_path / "target"
        target.write_text("theirs")
        if kind == "link":
            path.symlink_to(target)
    found = bootstrap.server_status(project_of(root))
    assert (found.pid, found.endpoints) == (first.pid, first.endpoints)
    assert path.read_text() == published
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "target").exists() or (tmp_path / "target").read_text() == "theirs"
    assert bootstrap.stop(project_of(root)) == first.pid


def test_a_server_that_hangs_is_said_and_can_be_ended(root, monkeypatch, capsys):
    first = start(root)
    monkeypatch.setattr("doxtr_rag.servers.client.PROOF_S", 0.5)
    monkeypatch.setattr("doxtr_rag.bootstrap.serving.PUBLISHED_AGAIN_S", 0.5)
    monkeypatch.setattr("doxtr_rag.bootstrap.serving.STOP_S", 0.5)
    os.kill(first.pid, signal.SIGSTOP)
    said = rf"process {first.pid} on .* does not answer .* end it with doxtr-rag serve --stop"
    for ask in (bootstrap.server_status, bootstrap.start_detached):
        with pytest.raises(ServerGoneError, match=said):
            ask(project_of(root))
    monkeypatch.chdir(root)
    assert main(["search", "port", "--json"]) == 0
    assert main(["serve", "--status"]) == 3
    assert "serve --stop" in capsys.readouterr().err
    assert bootstrap.stop(project_of(root)) == first.pid
    assert bootstrap.server_status(project_of(root)) is None
    assert start(root).pid != first.pid


@pytest.mark.parametrize("root", ["mit Leerzeichen & 'Übung' ☃"], indirect=True)
def test_a_project_may_lie_anywhere(root, monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("LC_ALL", "C")
    started = start(root)
    assert started.health["stores"]["shared"]["chunks"] == 3


def test_the_folder_may_be_a_link(root, tmp_path):
    (root / ".doxtr").rename(tmp_path / "state")
    (root / ".doxtr").symlink_to(tmp_path / "state")
    assert start(root).pid == start(root).pid


def test_a_folder_of_another_user_is_said(root, monkeypatch):
    """As after a build in a container."""

    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted", str(root / ".doxtr"))

    (root / ".doxtr").chmod(0o755)
    monkeypatch.setattr("pathlib.Path.chmod", refuse)
    with pytest.raises(StoreUnavailableError, match=r"\.doxtr cannot be used .*not permitted"):
        bootstrap.start_detached(project_of(root))


class Failing:
    """A model elsewhere that is of no use after the first text."""

    def __init__(self, own, error):
        self._own, self._error = own, error
        self.fingerprint, self.dimension = own.fingerprint, own.dimension

    @property
    def counts(self):
        return self._own.counts

    def embed(self, texts):
        yield [(0, self._own.embed_query(texts[0]))]
        raise self._error

    def embed_query(self, text):
        raise self._error


@pytest.mark.parametrize("error", [ServerGoneError("gone"), EmbeddingError("another model")])
def test_a_model_here_goes_on_where_the_lent_one_stopped(error):
    own = HashEmbedder(8)
    lent = LentEmbedder(Failing(HashEmbedder(8), error), lambda: own)
    texts = ["one", "two", "three"]
    found = dict(pair for batch in lent.embed(texts) for pair in batch)
    assert found == {at: own.embed_query(text) for at, text in enumerate(texts)}
    assert lent.embed_query("four") == own.embed_query("four")


def test_without_a_list_of_open_files_the_server_itself_says_which_process_it_is(
    root, tmp_path, monkeypatch
):
    """As on systems without /proc."""
    first = start(root)
    monkeypatch.setattr("doxtr_rag.bootstrap.serving.OPEN_FILES", tmp_path / "none")
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("socket.gethostname", lambda: "another")
        with pytest.raises(ServerGoneError, match="cannot end it"):
            bootstrap.stop(project_of(root))
    assert is_running(first.pid)
    assert bootstrap.stop(project_of(root)) == first.pid
