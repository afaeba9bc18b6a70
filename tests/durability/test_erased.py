"""What left a knowledge base is gone from its folders, read byte by byte."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from crash_cases import PRIVATE, REMOVED, SHARED, Story, pages
from store_checks import NEVER, TURNED
from watcher import FOLDERS, question

from doxtr_rag.core.ports import PoolRequest
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import generation, open_reader

pytestmark = [pytest.mark.slow, pytest.mark.durability]

PLAIN = pages(9)
BEFORE = {
    **PLAIN,
    "p1": (SHARED, 1, TURNED),
    "p2": (SHARED, 1, REMOVED),
    "p3": (PRIVATE, 1, REMOVED),
}
AFTER = {name: page for name, page in BEFORE.items() if REMOVED not in page}
STORY = Story("removal", BEFORE, AFTER)


@pytest.fixture
def root(laboratory, tmp_path):
    return shutil.copytree(laboratory.before(STORY), tmp_path / "work", symlinks=True)


def files_with(root, needles):
    """Return the files below every store that hold one of some bytes."""
    return {
        f"{folder}/{path.name}"
        for folder in FOLDERS.values()
        for path in (root / ".doxtr" / folder).rglob("*")
        if path.is_file() and any(needle in path.read_bytes().lower() for needle in needles)
    }


def starts_of_vectors(root, word):
    """Return the first bytes of the vectors of texts with a word, as `bytes.lower` leaves them."""
    found = []
    for folder in FOLDERS.values():
        with closing(sqlite3.connect(root / ".doxtr" / folder / "corpus.sqlite3")) as corpus:
            found += corpus.execute(
                "SELECT vector FROM chunks JOIN vectors USING (text_hash) WHERE text LIKE ?",
                (f"%{word}%",),
            ).fetchall()
    return [vector[:40].lower() for (vector,) in found]


def test_removed_text_and_its_vectors_are_gone_after_a_rebuild(laboratory, root):
    traces = [REMOVED.encode(), *starts_of_vectors(root, REMOVED)]
    assert len(traces) == 1 + 2 * STORY.sections
    assert len(files_with(root, traces[1:])) > 2, "in each corpus and in each index"
    assert laboratory.run(root, STORY.write(root, STORY.after)).returncode == 0
    done = laboratory.run(root, ["cli", "rebuild"], folder=root)
    assert done.returncode == 0, done.stdout
    assert files_with(root, traces) == set()


def test_what_turned_private_is_gone_without_a_rebuild(laboratory, root):
    shared = root / ".doxtr" / "shared"
    assert TURNED.encode() in (shared / "corpus.sqlite3").read_bytes()
    traces = [TURNED.encode(), *starts_of_vectors(root, TURNED)]
    turned = {**BEFORE, "p1": (PRIVATE, 1, TURNED)}
    assert laboratory.run(root, STORY.write(root, turned)).returncode == 0
    assert not [name for name in files_with(root, traces) if name.startswith("shared")]
    assert files_with(root, [NEVER.encode()]) == {"chroma/corpus.sqlite3"}


def test_an_old_generation_goes_although_a_reader_has_it(laboratory, root):
    folder = root / ".doxtr" / "shared"
    with open_reader(folder, Scope.SHARED_ORG, "shared") as reader:
        asked = PoolRequest("ports", question(), reader.fingerprint(), size=400, best=400)
        assert reader.pools(asked).rankings["dense"]
        old = generation.place(folder, generation.current(folder))
        assert any(str(old) in name for name in _open_files())
        assert laboratory.run(root, STORY.write(root, STORY.after)).returncode == 0
        assert not old.exists()
        found = reader.pools(asked)
        assert found.degraded == ()
        assert not [chunk for chunk in found.chunks.values() if REMOVED in chunk.text]
    remaining = {path.name for path in (folder / "index").iterdir()}
    assert remaining == {generation.current(folder), generation.WRITER_LOCK}


def _open_files():
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
    return [os.readlink(link) for link in links if Path(link).is_symlink()]  # noqa: PTH115
