"""Pi in two versions, a knowledge base of real pages with the real small model, and its server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from processes import end_servers, servers_below
from sandbox import Sandbox, fetch_environment, run
from scripted_llm import ScriptedModel, calls
from station import QUESTION, TOOL, write_pages

SETUP = HERE.parent / "tools" / "pi_setup.py"
RELEASES = ("pi-1.6", "pi-0.73")
VERSIONS = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter, config):
    for line in config.stash.get(VERSIONS, []):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def installed(pytestconfig):
    """Where both versions of Pi lie; they are installed when they are missing."""
    done = subprocess.run(
        [sys.executable, SETUP], env=fetch_environment(), capture_output=True, text=True,
        timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    pytestconfig.stash[VERSIONS] = [
        f"Pi {found[name]['version']} on Node {found[name]['node_version']}" for name in RELEASES
    ]
    return found


@pytest.fixture(params=RELEASES)
def pi(request, installed):
    return installed[request.param]


@pytest.fixture(scope="session", autouse=True)
def _no_server_is_left(tmp_path_factory):
    """No test leaves a server; the first fixture of all, so that it ends last."""
    folder = tmp_path_factory.getbasetemp()
    yield
    left = servers_below(folder)
    end_servers(folder)
    assert not left, f"servers were left behind: {left}"


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A project whose documentation was built; nobody serves or changes it."""
    root = tmp_path_factory.mktemp("built") / "station"
    write_pages(root)
    fetch = ("doxtr-rag", "fetch-weights", "--profile", "minilm-offline")
    fetched = run(*fetch, cwd=root, environment=fetch_environment())
    assert fetched.returncode == 0, fetched.stderr
    done = run("sphinx-build", "-q", "-b", "html", "source", "build", cwd=root)
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture(scope="session")
def served(built, tmp_path_factory):
    """A copy of the project with its server running, for all tests that only ask."""
    root = tmp_path_factory.mktemp("served") / "station"
    shutil.copytree(built, root, symlinks=True)
    started = run("doxtr-rag", "serve", "--detach", cwd=root)
    assert started.returncode == 0, started.stderr
    yield root
    stopped = run("doxtr-rag", "serve", "--stop", cwd=root)
    assert stopped.returncode == 0, stopped.stderr
    assert not end_servers(root)


@pytest.fixture
def project(built, tmp_path):
    """A copy of the project for one test; the servers that it leaves are ended."""
    root = tmp_path / "station"
    shutil.copytree(built, root, symlinks=True)
    yield root
    killed = end_servers(root)
    assert not killed, f"servers did not end when they were asked to: {killed}"


@pytest.fixture
def own_server(project):
    """The test's own project with its server running."""
    done = run("doxtr-rag", "serve", "--detach", cwd=project)
    assert done.returncode == 0, done.stderr
    return project


@pytest.fixture
def model():
    """A model that searches once and repeats what it was told."""
    with ScriptedModel(calls(TOOL, {"query": QUESTION, "top_k": 2})) as running:
        yield running


@pytest.fixture
def sandbox_folder(tmp_path_factory):
    """An empty folder, at the same place for every test: Pi keeps what it translated by path."""
    folder = tmp_path_factory.getbasetemp() / "pi" / "sandbox"
    shutil.rmtree(folder, ignore_errors=True)
    return folder


@pytest.fixture
def sandbox(sandbox_folder, pi, served, model):
    """Pi in the project of all, with the extension as our installer puts it there."""
    return _with_extension(Sandbox(sandbox_folder, pi, served, model.url))


@pytest.fixture
def own_sandbox(sandbox_folder, pi, project, model):
    """Pi in the test's own project."""
    return _with_extension(Sandbox(sandbox_folder, pi, project, model.url))


def _with_extension(sandbox):
    done = sandbox.install()
    assert done.returncode == 0, done.stderr
    return sandbox
