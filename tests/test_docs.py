"""The documentation builds without a warning and leaves out no key, variable or command."""

from __future__ import annotations

import argparse
import html
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from doxtr_rag.cli.parser import build_parser
from doxtr_rag.config.environment import known_variables
from doxtr_rag.config.schema import keys
from doxtr_rag.sphinx_ext.warnings import RagWarning

REPOSITORY = Path(__file__).parent.parent
DOCS = REPOSITORY / "docs"
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
RECORDS = sorted((DOCS / "adr").glob("0*.md"))
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
MAKE_TARGET = re.compile(r"\bmake ([a-z][a-z0-9-]*)")
CODE = re.compile(r"```sh\n(.*?)```|`([^`\n]+)`", re.DOTALL)
MAX_README_LINES = 150
KINDS = "added|changed|fixed|removed|security"

sys.path.insert(0, str(REPOSITORY / "test_harness"))

from test_runner import build_environment  # noqa: E402 - found through the path above


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Build the pages as `make docs` does, on the tiny model."""
    base = tmp_path_factory.mktemp("documentation")
    ignore = shutil.ignore_patterns("_build", ".doxtr", "__pycache__")
    shutil.copytree(DOCS, base / "docs", ignore=ignore)
    strict = ["-n", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *strict, str(base / "docs"), str(base / "html")],
        env=build_environment() | {"DOCS_EMBEDDING_PROFILE": "tiny"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return base / "html"


def text_of(page):
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def commands():
    parser = build_parser()
    actions = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return [name for action in actions for name in action.choices]


def test_every_key_is_documented(pages):
    text = text_of(pages / "reference" / "configuration.html")
    assert not [key for key in keys() if key not in text]


def test_every_variable_is_documented(pages):
    text = text_of(pages / "reference" / "environment.html")
    assert not [name for name in known_variables() if name not in text]


def test_every_command_is_documented(pages):
    text = text_of(pages / "reference" / "commands.html")
    names = commands()
    assert {"search", "status", "doctor", "fetch-weights", "rebuild", "cache-info"} <= set(names)
    assert not [name for name in names if f"usage: doxtr-rag {name}" not in text]


def test_every_warning_is_documented(pages):
    text = text_of(pages / "reference" / "warnings.html")
    assert not [kind.value for kind in RagWarning if kind.value not in text]


def test_the_documentation_indexes_itself(pages):
    assert (pages.parent / "docs" / ".doxtr" / "shared" / "corpus.sqlite3").is_file()


def test_only_keys_that_exist_are_named():
    named = {
        name
        for path in [*DOCS.rglob("*.md"), REPOSITORY / "README.md"]
        for name in re.findall(r"\brag_[a-z_]+\b", path.read_text(encoding="utf-8"))
    }
    assert named <= set(keys())


def test_readme_fits_on_few_screens():
    assert len(README.splitlines()) <= MAX_README_LINES


def test_readme_links_lead_somewhere():
    links = LINK.findall(README)
    assert links
    assert not [link for link in links if not (REPOSITORY / link).exists()]


@pytest.mark.parametrize(
    "path", [REPOSITORY / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda p: p.name
)
def test_make_targets_that_are_named_exist(path):
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    code = "\n".join("".join(found) for found in CODE.findall(path.read_text("utf-8")))
    assert set(MAKE_TARGET.findall(code)) <= targets


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_record_has_context_decision_and_consequences(record):
    headings = re.findall(r"^## (.+)$", record.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == ["Context", "Decision", "Consequences"]


def test_change_notes_are_named_by_topic_and_kind():
    notes = [path.name for path in (REPOSITORY / "changelog.d").iterdir()]
    assert notes
    assert not [name for name in notes if not re.fullmatch(rf"[a-z0-9-]+\.({KINDS})\.md", name)]
