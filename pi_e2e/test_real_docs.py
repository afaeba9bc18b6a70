"""Pages of Sphinx's own documentation, public and private, asked through the real agent."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import sphinx_docs
from processes import end_servers
from sandbox import Sandbox, run
from scripted_llm import ScriptedModel, calls
from station import TOOL, write_conf

PUBLIC = ("tutorial", "man")
PRIVATE = ("release-process", "organization")
PUBLIC_WORDS = b"Turn warnings into errors"
PRIVATE_WORDS = b"2 MAJOR releases at least"
INDEX = "Sphinx\n======\n\n.. toctree::\n   :glob:\n\n   tutorial/index\n   man/index\n   noter/*\n"
SOURCE = re.compile(r"^Source: file://(?P<path>[^#\n]+)(?:#(?P<anchor>\S+))?$", re.MULTILINE)
HIT = re.compile(r"^Scope: (\w+), store: \w+, document: (\S+)$", re.MULTILINE)
QUESTIONS = [
    pytest.param(
        "How do I make the build fail when there is a warning?",
        "man/sphinx-build", "SHARED_ORG", id="public-page",
    ),
    pytest.param(
        "How long is a deprecated interface kept before it is removed?",
        "noter/release-process", "LOCAL_PRIVATE", id="private-page",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def manual(tmp_path_factory):
    """The built pages, with their server running."""
    root, pages = tmp_path_factory.mktemp("manual") / "sphinx", sphinx_docs.source()
    write_conf(root, "Sphinx")
    for folder in PUBLIC:
        shutil.copytree(pages / folder, root / "source" / folder)
    (root / "source" / "noter").mkdir()
    for name in PRIVATE:
        shutil.copy(pages / "internals" / f"{name}.rst", root / "source" / "noter")
    (root / "source" / "index.rst").write_text(INDEX)
    built = run("sphinx-build", "-q", "-b", "html", "source", "build", cwd=root)
    assert built.returncode == 0, built.stderr
    started = run("doxtr-rag", "serve", "--detach", cwd=root)
    assert started.returncode == 0, started.stderr
    yield root
    assert not end_servers(root)


@pytest.mark.parametrize(("question", "page", "scope"), QUESTIONS)
def test_a_question_finds_its_page_and_names_its_scope(
    sandbox_folder, pi, manual, question, page, scope
):
    with ScriptedModel(calls(TOOL, {"query": question, "top_k": 3})) as model:
        sandbox = Sandbox(sandbox_folder, pi, manual, model.url)
        assert sandbox.install().returncode == 0
        done = sandbox.ask(question)
    assert done.returncode == 0, done.stderr
    hits = HIT.findall(model.tool_result)
    assert len(hits) == 3
    assert (scope, page) in hits
    for named, document in hits:
        assert named == ("LOCAL_PRIVATE" if document.startswith("noter/") else "SHARED_ORG")
    sources = list(SOURCE.finditer(model.tool_result))
    assert len(sources) == len(hits)
    for cited in sources:
        built = Path(cited["path"]).read_text(encoding="utf-8")
        assert cited["anchor"] is None or f'id="{cited["anchor"]}"' in built


def test_no_file_of_a_store_has_words_of_the_other(manual):
    def has(store, words):
        files = [path for path in (manual / ".doxtr" / store).rglob("*") if path.is_file()]
        return any(words in path.read_bytes() for path in files)

    assert has("shared", PUBLIC_WORDS)
    assert has("chroma", PRIVATE_WORDS)
    assert not has("shared", PRIVATE_WORDS)
    assert not has("chroma", PUBLIC_WORDS)
