"""What a reader gets while a writer changes everything under it."""

import shutil

import pytest
from store_samples import DIMENSION, MODEL, chunk, fill, index, publish, vector

from doxtr_rag.core.ports import PoolRequest
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import exact, generation, open_reader, open_store
from doxtr_rag.storage.database import FrozenDatabase
from doxtr_rag.storage.store import refresh_indexes

ASKED = PoolRequest("text", vector("text"), MODEL, size=10, best=10)
FOLDERS = {Scope.SHARED_ORG: "shared", Scope.LOCAL_PRIVATE: "chroma"}


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "shared", Scope.SHARED_ORG, "shared") as opened:
        yield opened


def chunks(revision):
    return [chunk(f"n{n}", f"text {n} of revision {revision}") for n in range(5)]


def test_a_commit_in_the_middle_of_an_answer_does_not_tear_it(store, monkeypatch):
    publish(store, chunks(1))
    store.seal(MODEL, DIMENSION)
    nearest, commits = exact.nearest, iter([chunks(2)])

    def interrupted(blocks, asked, top_k):
        found = nearest(blocks, asked, top_k)
        for changed in commits:
            publish(store, changed)
        return found

    monkeypatch.setattr(exact, "nearest", interrupted)
    with open_reader(store.folder, Scope.SHARED_ORG, "shared") as reader:
        found = reader.pools(ASKED)
    assert len(found.rankings["dense"]) == len(found.rankings["lexical"]) == 5
    assert all("revision 2" in seen.text for seen in found.chunks.values())


def test_a_writer_that_never_rests_is_answered_too(store, monkeypatch):
    publish(store, chunks(1))
    store.seal(MODEL, DIMENSION)
    nearest, tries = exact.nearest, []

    def interrupted(blocks, asked, top_k):
        tries.append(asked)
        publish(store, [chunk("other", f"other {len(tries)}")])
        return nearest(blocks, asked, top_k)

    monkeypatch.setattr(exact, "nearest", interrupted)
    with open_reader(store.folder, Scope.SHARED_ORG, "shared") as reader:
        assert reader.pools(ASKED).rankings["dense"]
    assert 1 < len(tries) < 10


def test_a_frozen_corpus_is_read_live_once_somebody_writes_it(store, tmp_path):
    fill(store, chunks(1))
    store.close()
    frozen = FrozenDatabase(store.folder / "corpus.sqlite3")
    with open_store(store.folder, Scope.SHARED_ORG, "shared") as writer:
        publish(writer, chunks(2))
        # Still in the log, which a frozen file has not.
        with frozen.reading() as connection:
            texts = {text for (text,) in connection.execute("SELECT text FROM chunks")}
    frozen.close()
    assert texts == {made.chunk.text for made in chunks(2)}


def test_what_sqlite_laid_aside_and_was_killed_before_deleting_goes(store):
    fill(store, chunks(1))
    laid_aside = store.folder / "index" / "etilqs_5f2d"
    laid_aside.write_text("vectors")
    fill(store, chunks(2))
    assert not laid_aside.exists()
    assert {path.name for path in (store.folder / "index").iterdir()} == {
        generation.WRITER_LOCK,
        generation.current(store.folder),
    }


def test_the_private_index_comes_first(tmp_path, monkeypatch):
    """Temporary files lie beside the first index, and may be of both."""
    asked = []
    stores = [open_store(tmp_path / name, scope, name) for scope, name in FOLDERS.items()]
    for opened in stores:
        publish(opened, [chunk("a", "one", scope=opened.scope)])
        opened.seal(MODEL, DIMENSION)

    def built(folders):
        asked.extend(folder.name for folder in folders)
        for opened in stores:
            index(opened)

    monkeypatch.setattr("doxtr_rag.storage.store.refresh_folders", built)
    for given in (stores, stores[::-1]):
        refresh_indexes(given)
        for opened in stores:
            shutil.rmtree(opened.folder / "index")
    for opened in stores:
        opened.close()
    assert asked == ["chroma", "shared"] * 2
