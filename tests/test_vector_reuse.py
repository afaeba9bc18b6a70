"""Nothing is embedded twice: not in another worktree, not from a folder that CI restored."""

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing

import counted_run
import pytest

from doxtr_rag.cli.main import main
from doxtr_rag.embedding.onnx import OnnxEmbedder
from doxtr_rag.storage.schema import CORPUS_FILE

pytestmark = [
    pytest.mark.usefixtures("tiny_model_dir"),
    pytest.mark.skipif(not shutil.which("git"), reason="git makes the worktrees"),
]
PAGES = {
    "guide": ["SHARED_ORG", [["a", "Ports", "Open port 8000."], ["b", "Logs", "Read the logs."]]],
    "notes": ["LOCAL_PRIVATE", [["a", "Plan", "Nobody may see the plan."]]],
}


@pytest.fixture
def embedded(monkeypatch):
    """The texts that were given to the model."""
    texts = []
    embed = OnnxEmbedder.embed
    monkeypatch.setattr(OnnxEmbedder, "embed", lambda self, t: texts.extend(t) or embed(self, t))
    return texts


@pytest.fixture
def build(capsys, embedded):
    """Build a folder; return the report, what was said, and what was embedded."""

    def build(root, pages=PAGES, **settings):
        del embedded[:]
        counted_run.ingest({"root": str(root), "pages": pages, "settings": settings})
        *said, report = capsys.readouterr().out.splitlines()
        return json.loads(report), said, list(embedded)

    return build


def worktree(main_folder, name):
    folder = main_folder.parent / name
    identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    git = ["git", "-C", str(main_folder), *identity]
    if not (main_folder / ".git").exists():
        main_folder.mkdir(exist_ok=True)
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture
def pair(tmp_path, build):
    """A repository that was built, and a worktree of it that was not."""
    first = tmp_path / "first"
    second = worktree(first, "second")
    build(first)
    return first, second


def vectors(root):
    found = {}
    for store in ("shared", "chroma"):
        with closing(sqlite3.connect(root / ".doxtr" / store / CORPUS_FILE)) as corpus:
            rows = corpus.execute("SELECT id, vector FROM chunks JOIN vectors USING (text_hash)")
            found[store] = dict(rows.fetchall())
    return found


def test_a_worktree_takes_what_another_one_has(pair, build):
    first, second = pair
    report, _, texts = build(second)
    assert texts == []
    assert report["reuse"]["from"] == {"sibling": 3}
    assert report["reuse"]["donors"] == [str(first)]
    assert report["reuse"]["seconds_saved"] > 0
    assert vectors(second) == vectors(first)


def test_only_what_no_worktree_has_is_embedded(pair, build):
    _, second = pair
    changed = {**PAGES, "new": ["SHARED_ORG", [["a", "New", "Only in this branch."]]]}
    report, _, texts = build(second, changed)
    [text] = texts
    assert "Only in this branch." in text
    assert (report["reuse"]["hits"], report["reuse"]["misses"]) == (3, 1)


def test_a_private_vector_goes_where_its_text_goes(pair, build):
    _, second = pair
    opened = {**PAGES, "notes": ["SHARED_ORG", PAGES["notes"][1]]}
    report, _, texts = build(second, opened)
    assert texts == []
    assert report["reuse"]["from"] == {"sibling": 3}
    found = vectors(second)
    assert (len(found["shared"]), len(found["chroma"])) == (3, 0)


@pytest.mark.parametrize(
    ("settings", "variable"), [({"rag_reuse_vectors": False}, None), ({}, "off")]
)
def test_reuse_from_siblings_can_be_turned_off(pair, build, monkeypatch, settings, variable):
    _, second = pair
    if variable:
        monkeypatch.setenv("DOXTR_RAG_INDEX_REUSE", variable)
    report, _, texts = build(second, **settings)
    assert len(texts) == report["embedded"] == 3
    assert report["reuse"]["donors"] == []


def test_a_damaged_sibling_costs_one_line(pair, build):
    first, second = pair
    path = first / ".doxtr" / "shared" / CORPUS_FILE
    path.write_bytes(b"no database" * 1000)
    report, said, texts = build(second)
    assert len(texts) == 2
    assert report["reuse"]["from"] == {"sibling": 1}
    [line] = said
    assert line.startswith(f"doxtr_rag: no vectors are taken from {first}")


def test_a_sibling_is_left_as_it_was(pair, build):
    first, second = pair
    stores = [first / ".doxtr" / store for store in ("shared", "chroma")]
    before = [(path / CORPUS_FILE).read_bytes() for path in stores]
    build(second)
    assert [(path / CORPUS_FILE).read_bytes() for path in stores] == before
    assert build(first)[2] == []


@pytest.mark.parametrize("lost", [[], ["cache.db", "chroma/CURRENT"]])
def test_a_folder_that_ci_restored_spares_every_text(tmp_path, build, lost):
    build(tmp_path / "runner-1")
    shutil.copytree(tmp_path / "runner-1" / ".doxtr", tmp_path / "runner-2" / ".doxtr")
    for name in lost:
        (tmp_path / "runner-2" / ".doxtr" / name).unlink()
    report, _, texts = build(tmp_path / "runner-2")
    assert texts == []
    assert report["embedded"] == 0
    assert vectors(tmp_path / "runner-2") == vectors(tmp_path / "runner-1")


def test_a_restored_folder_spares_what_did_not_change(tmp_path, build):
    build(tmp_path / "runner-1")
    shutil.copytree(tmp_path / "runner-1" / ".doxtr", tmp_path / "runner-2" / ".doxtr")
    changed = {**PAGES, "new": ["SHARED_ORG", [["a", "New", "Added since."]]]}
    assert len(build(tmp_path / "runner-2", changed)[2]) == 1


def test_a_run_that_died_is_seen_in_a_copy_too(tmp_path, build, monkeypatch, capsys):
    build(tmp_path / "runner")
    corpus = tmp_path / "runner" / ".doxtr" / "chroma" / CORPUS_FILE
    with closing(sqlite3.connect(corpus)) as connection, connection:
        connection.execute("UPDATE runs SET status = 'running', finished = ''")
    shutil.copytree(tmp_path / "runner", tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    assert main(["status"]) == 0
    assert "interrupted" in capsys.readouterr().out


def test_status_tells_what_was_saved(pair, build, monkeypatch, capsys):
    _, second = pair
    build(second)
    monkeypatch.chdir(second)
    assert main(["status", "--json"]) == 0
    run = json.loads(capsys.readouterr().out)["data"]["last_runs"][0]
    assert run["report"]["reuse"]["hits"] == 3
    assert run["progress"]["reused"] == 3
    assert main(["status"]) == 0
    assert "3 chunks reused" in capsys.readouterr().out
