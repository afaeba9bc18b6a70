"""Pi in two versions, a knowledge base of real pages with the real small model, and its server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from sandbox import BIN, Sandbox
from scripted_llm import ScriptedModel, calls

TOOL = "search_knowledge_base"
QUESTION = "how often is moon cheese handed out?"
SETUP = HERE.parent / "tools" / "pi_setup.py"

os.environ.setdefault("CI", "true")  # no build here leaves a server

PAGES = {
    "source/conf.py": (
        'project = "Station"\nextensions = ["doxtr_rag"]\n'
        'rag_embedding_provider = "minilm-offline"\nrag_serve = "auto"\n'
        "rag_shared_port = {port}\nrag_private_port = {port} + 1\nrag_embed_port = {port} + 2\n"
    ),
    "source/index.rst": (
        "Moon station\n============\n\n.. toctree::\n\n   food\n   air\n   noter/budget\n"
    ),
    "source/food.rst": (
        "Food\n====\n\nMoon cheese\n-----------\n\n"
        "Moon cheese is handed out on every second Monday, one wheel for each crew.\n\n"
        "Bread\n-----\n\nBread is baked in the morning.\n"
    ),
    "source/air.rst": (
        "Air\n===\n\nScrubbers\n---------\n\nThe scrubbers take carbon dioxide out of the air.\n"
    ),
    "source/noter/budget.rst": (
        "Budget\n======\n\nThe secret budget of the station is nine thousand credits.\n"
    ),
    "pyproject.toml": "",
}


@pytest.fixture(scope="session")
def installed():
    """Where both versions of Pi lie; they are installed when they are missing."""
    done = subprocess.run(
        [sys.executable, SETUP], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=["pi-1.6", "pi-0.73"])
def pi(request, installed):
    return installed[request.param]


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(BIN / words[0]), *words[1:]],
        cwd=cwd, text=True, capture_output=True, timeout=180, check=False,
    )  # fmt: skip


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A project whose documentation was built."""
    root = tmp_path_factory.mktemp("station")
    for name, text in PAGES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("{port}", "18787"))
    fetched = run("doxtr-rag", "fetch-weights", "--profile", "minilm-offline", cwd=root)
    assert fetched.returncode == 0, fetched.stderr
    done = run("sphinx-build", "-q", "-b", "html", "source", "build", cwd=root)
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture
def project(built, tmp_path):
    """A copy of the project; a server that a test leaves is stopped."""
    root = tmp_path / "station"
    shutil.copytree(built, root, symlinks=True)
    yield root
    run("doxtr-rag", "serve", "--stop", cwd=root)
    status = run("doxtr-rag", "serve", "--status", cwd=root)
    assert status.returncode == 3, "a server was left behind"


@pytest.fixture
def served(project):
    """The project with its server running."""
    done = run("doxtr-rag", "serve", "--detach", cwd=project)
    assert done.returncode == 0, done.stderr
    return project


@pytest.fixture
def model():
    """A model that searches once and repeats what it was told."""
    with ScriptedModel(calls(TOOL, {"query": QUESTION, "top_k": 2})) as running:
        yield running


@pytest.fixture
def sandbox(tmp_path, pi, project, model):
    """Pi with the extension as our installer puts it there."""
    made = Sandbox(tmp_path / "sandbox", pi, project, model.url)
    done = made.install()
    assert done.returncode == 0, done.stderr
    return made
