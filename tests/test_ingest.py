"""Whole builds that are attacked: what may not be shared is nowhere in the shared store's files."""

import shutil
import signal
import subprocess
import sys

import knowledge_base
import pytest
from sphinx_project import Page, Project, build, child_environment

from doxtr_rag.storage.schema import CORPUS_FILE

pytestmark = [pytest.mark.sphinx_side, pytest.mark.usefixtures("tiny_model_dir")]

MARKER = "quizzaciously"
STEM = "quizzac"
"""The text index keeps stems."""

TITLE = "Takeover"


def pages():
    return {
        "index": Page("Demo", [("Intro", "Welcome here.")], children=["secret", "open"]),
        "secret": Page(TITLE, [("Plan", f"We {MARKER} plan.")], children=["below"]),
        "below": Page("Below", [("Text", "Text that everybody may read.")]),
        "open": Page("Open", [("Ports", "Open port 8000.")], refers_to=["below"]),
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory, tiny_model_dir):
    """A project that was built while everything was shared."""
    root = tmp_path_factory.mktemp("built")
    Project(pages()).write(root)
    assert build(root).status == 0
    return root


@pytest.fixture
def root(built, tmp_path):
    return shutil.copytree(built, tmp_path / "work", symlinks=True)


@pytest.fixture
def project():
    return Project(pages())


def shared_traces(root, *words):
    """Return the files of the shared store that hold one of the words."""
    found = []
    for path in sorted((root / ".doxtr" / "shared").rglob("*")):
        content = path.read_bytes().lower() if path.is_file() else b""
        found += [f"{path.name}: {word}" for word in words if word.lower().encode() in content]
    return found


def private_texts(root):
    return " ".join(
        str(row["text"]) for row in knowledge_base.chunks(root, "LOCAL_PRIVATE").values()
    )


def is_like_from_scratch(project, root, folder):
    """Say whether a knowledge base is what a build of the same project from nothing gives."""
    shutil.copytree(root, folder, ignore=shutil.ignore_patterns("_build", ".doxtr"), symlinks=True)
    assert build(folder).status == 0
    return knowledge_base.difference(root, folder) == []


def say_so_on_the_page(project, root):
    project.pages["secret"].scope = "LOCAL_PRIVATE"


def move_into_a_private_folder(project, root):
    project.pages["noter/secret"] = project.pages.pop("secret")
    project.pages["index"].children = ["noter/secret", "open"]


def move_and_rename(project, root):
    project.pages["noter/plans"] = project.pages.pop("secret")
    project.pages["index"].children = ["noter/plans", "open"]


def move_the_section_to_a_private_page(project, root):
    section = project.pages["secret"].sections.pop()
    project.pages["secret"].title = "Harmless"
    project.pages["notes"] = Page(TITLE, [section], scope="LOCAL_PRIVATE")
    project.pages["index"].children.append("notes")


def list_its_name(project, root):
    project.settings["rag_private_paths"] = ["noter", "secret"]


def share_nothing(project, root):
    project.settings["rag_source_roots"] = []


def link_into_a_private_folder(project, root):
    (root / "NDA").mkdir()
    (root / "source" / "secret.rst").rename(root / "NDA" / "secret.rst")
    (root / "source" / "secret.rst").symlink_to("../NDA/secret.rst")


def include_a_private_file(project, root):
    (root / "NDA").mkdir()
    (root / "NDA" / "plan.txt").write_text(f"We {MARKER} plan.\n")
    project.pages["secret"].sections = [("Plan", ".. include:: ../NDA/plan.txt")]


def compare_with_a_private_file(project, root):
    include_a_private_file(project, root)
    (root / "source" / "plan.txt").write_text("We plan.\n")
    compared = ".. literalinclude:: plan.txt\n   :diff: ../NDA/plan.txt"
    project.pages["secret"].sections = [("Plan", compared)]


TURNS = [
    say_so_on_the_page,
    move_into_a_private_folder,
    move_the_section_to_a_private_page,
    list_its_name,
    share_nothing,
    link_into_a_private_folder,
    include_a_private_file,
    compare_with_a_private_file,
]


@pytest.mark.parametrize("turn", TURNS, ids=lambda turn: turn.__name__.replace("_", "-"))
def test_what_turns_private_leaves_no_trace_in_the_shared_store(project, root, turn):
    assert shared_traces(root, STEM, TITLE)
    turn(project, root)
    project.write(root)
    outcome = build(root)
    assert outcome.status == 0, outcome.warnings
    assert shared_traces(root, STEM, TITLE) == []
    assert MARKER in private_texts(root)
    assert "up to date" in build(root).output


def test_a_shared_page_names_no_private_page(project, root):
    project.pages["secret"].scope = "LOCAL_PRIVATE"
    project.pages["open"].preamble = "Read :doc:`that page </secret>` and :doc:`/below`."
    project.write(root)
    assert build(root).status == 0
    shared = knowledge_base.chunks(root, "SHARED_ORG")
    assert shared["demo/below#text"]["breadcrumb"] == '["Below", "Text"]'
    links = " ".join(str(row["links"]) for row in shared.values())
    assert "below#" in links
    assert shared_traces(root, "secret", TITLE) == []
    private = knowledge_base.chunks(root, "LOCAL_PRIVATE")
    assert private["demo/secret#plan"]["breadcrumb"] == f'["{TITLE}", "Plan"]'
    project.pages["secret"].scope = None
    project.write(root)
    assert build(root).status == 0
    shared = knowledge_base.chunks(root, "SHARED_ORG")
    assert shared["demo/below#text"]["breadcrumb"] == f'["{TITLE}", "Below", "Text"]'
    assert "secret#" in " ".join(str(row["links"]) for row in shared.values())


def lose_the_weights(project, root):
    project.settings["rag_embedding_provider"] = "minilm-offline"


def damage_the_private_store(project, root):
    (root / ".doxtr" / "chroma" / CORPUS_FILE).write_text("no database " * 99)


def put_a_folder_in_the_place_of_the_cache(project, root):
    (root / ".doxtr" / "cache.db").unlink()
    (root / ".doxtr" / "cache.db").mkdir()


def put_a_folder_in_the_place_of_the_settings(project, root):
    (root / ".doxtr" / "settings.json").unlink()
    (root / ".doxtr" / "settings.json").mkdir()


def put_a_file_in_the_place_of_the_spool(project, root):
    shutil.rmtree(root / "_build")
    (root / "_build" / "doctrees").mkdir(parents=True)
    (root / "_build" / "doctrees" / "doxtr_rag").touch()


TROUBLES = [
    lose_the_weights,
    damage_the_private_store,
    put_a_folder_in_the_place_of_the_cache,
    put_a_folder_in_the_place_of_the_settings,
    put_a_file_in_the_place_of_the_spool,
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda t: t.__name__.replace("_", "-"))
def test_withdrawal_does_not_wait_for_anything_else(project, root, tmp_path, monkeypatch, trouble):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    say_so_on_the_page(project, root)
    trouble(project, root)
    project.pages["open"].sections.append(("More", "This must be embedded."))
    project.write(root)
    outcome = build(root)
    assert outcome.status == 1
    assert "doxtr_rag: " in outcome.warnings
    assert shared_traces(root, STEM) == []


@pytest.mark.parametrize("turn", [move_and_rename, move_into_a_private_folder])
def test_a_moved_page_is_withdrawn_without_a_model_too(project, root, tmp_path, monkeypatch, turn):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    turn(project, root)
    lose_the_weights(project, root)
    project.write(root)
    assert build(root).status == 1
    assert shared_traces(root, STEM, TITLE) == []


KILLED = """
import os, signal, sqlite3, sys
from sphinx.cmd.build import main

word, arguments = sys.argv[1], sys.argv[2:]
connect = sqlite3.connect


def watched(*args, **options):
    connection = connect(*args, **options)
    connection.set_trace_callback(kill)
    return connection


def kill(statement):
    if word in statement:
        os.kill(os.getpid(), signal.SIGKILL)


sqlite3.connect = watched
sys.exit(main(arguments))
"""
MOMENTS = {
    "before-the-withdrawal": "DELETE FROM chunks",
    "before-the-erasure": "'rebuild'",
    "inside-the-erasure": "VACUUM",
    "after-the-erasure": "erase_pending = 0",
    "while-vectors-are-saved": "INSERT OR IGNORE INTO vectors",
    "while-chunks-are-stored": "INSERT INTO chunks (",
    "before-the-seal": "DELETE FROM vectors WHERE fingerprint",
    "while-the-run-is-remembered": "INSERT OR REPLACE INTO marks",
}


@pytest.mark.parametrize("statement", MOMENTS.values(), ids=MOMENTS.keys())
def test_a_build_killed_while_a_page_turns_private(project, root, tmp_path, statement):
    project.pages["secret"].scope = "LOCAL_PRIVATE"
    project.pages["open"].sections.append(("More", "A text to be embedded."))
    project.write(root)
    places = ["-d", str(root / "_build" / "doctrees"), str(root / "source"), str(root / "_build")]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, statement, *places],
        env=child_environment(),
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    outcome = build(root)
    assert outcome.status == 0, outcome.warnings
    # The page itself never: its vector goes with it. Its child loses a title, `open` gained a text.
    embedded = int(outcome.output.partition(" texts embedded")[0].rpartition(" ")[2])
    assert embedded <= 2
    assert shared_traces(root, STEM, TITLE) == []
    assert is_like_from_scratch(project, root, tmp_path / "scratch")


def test_an_erasure_left_undone_comes_first_in_the_next_build(project, root, tmp_path):
    project.pages["secret"].scope = "LOCAL_PRIVATE"
    project.write(root)
    places = ["-d", str(root / "_build" / "doctrees"), str(root / "source"), str(root / "_build")]
    command = [sys.executable, "-c", KILLED, "VACUUM", *places]
    subprocess.run(command, env=child_environment(), capture_output=True, check=False)
    assert shared_traces(root, STEM)
    lose_the_weights(project, root)
    project.pages["open"].sections.append(("More", "This must be embedded."))
    project.write(root)
    environment = child_environment() | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    failed = subprocess.run(
        [sys.executable, "-m", "sphinx", *places], env=environment, capture_output=True, check=False
    )
    assert failed.returncode == 1
    assert shared_traces(root, STEM) == []
