import os
import sqlite3
import stat
import subprocess
import sys

import pytest
from store_samples import (
    DIMENSION,
    MODEL,
    ORIGIN,
    OTHER_MODEL,
    PROJECT,
    chunk,
    fill,
    index,
    publish,
    save,
    vector,
)

from doxtr_rag.core.errors import (
    ConfigError,
    IndexNotBuiltError,
    ParityError,
    StoreError,
    StoreSchemaError,
    StoreUnavailableError,
)
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import open_reader, open_store, stats
from doxtr_rag.storage.schema import CORPUS_FILE, SCHEMA_VERSION


def stored_ids(store):
    return set(store.hashes(PROJECT, ORIGIN))


def test_a_published_chunk_comes_back_as_it_was_stored(store, reader):
    scoped = chunk("start", "How to begin.\n\nWith \0 and é.")
    publish(store, [scoped])
    (found,) = reader.fetch([scoped.chunk.chunk_id, "guide/intro#unknown"]).values()
    for field in ("chunk_id", "project", "document", "anchor", "text", "breadcrumb", "url"):
        assert getattr(found, field) == getattr(scoped.chunk, field)
    for field in ("source_file", "locator", "links", "metadata", "text_hash"):
        assert getattr(found, field) == getattr(scoped.chunk, field)
    assert (found.scope, found.content_hash) == (Scope.SHARED_ORG, scoped.content_hash)


def test_fetch_keeps_the_order_asked_for(store, reader):
    publish(store, [chunk(anchor, anchor) for anchor in "abc"])
    wanted = ["guide/intro#c", "guide/intro#a", "guide/intro#b"]
    assert list(reader.fetch(wanted)) == wanted


def test_a_chunk_published_again_replaces_the_old_one(store, reader):
    publish(store, [chunk("start", "old words")])
    publish(store, [chunk("start", "fresh words")])
    assert reader.fetch(["guide/intro#start"])["guide/intro#start"].text == "fresh words"
    assert not reader.lexical("old", 5)
    assert [hit.chunk_id for hit in reader.lexical("fresh", 5)] == ["guide/intro#start"]


def test_one_publication_inserts_and_deletes(store):
    publish(store, [chunk("a", "one"), chunk("b", "two")])
    publish(store, [chunk("c", "three")], deletes=["guide/intro#a", "guide/intro#unknown"])
    assert stored_ids(store) == {"guide/intro#b", "guide/intro#c"}


def test_hashes_of_some_documents_only(store):
    publish(store, [chunk("a", "one"), chunk("b", "two", document="usage")])
    assert set(store.hashes(PROJECT, ORIGIN, ["usage"])) == {"guide/usage#b"}
    assert store.hashes(PROJECT, ORIGIN, []) == {}
    assert store.hashes(PROJECT, "another-origin") == {}


def test_chunks_without_saved_vectors_are_refused(store):
    with pytest.raises(StoreError, match=r"guide/intro#a: published before its vector"):
        store.publish(PROJECT, ORIGIN, MODEL, [chunk("a", "one")], [])
    assert not stored_ids(store)


def test_a_chunk_of_another_project_cannot_be_replaced_or_deleted(store):
    publish(store, [chunk("a", "one", project="other")], project="other")
    foreign = chunk("a", "stolen", project="other")
    save(store, [foreign])
    with pytest.raises(StoreError, match="another project"):
        store.publish(PROJECT, ORIGIN, MODEL, [foreign], [])
    publish(store, [], deletes=["other/intro#a"])
    assert set(store.hashes("other", ORIGIN)) == {"other/intro#a"}


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\0" * 7, id="not-a-multiple-of-four-bytes"),
        pytest.param(b"\0\0\xc0\x7f" * DIMENSION, id="not-a-number"),
        pytest.param(b"\0\0\x80\x7f" * DIMENSION, id="infinite"),
    ],
)
def test_malformed_vectors_are_refused(store, bad):
    with pytest.raises(StoreError, match="not finite"):
        store.save_vectors(MODEL, {"0" * 64: bad})
    assert store.missing(MODEL, ["0" * 64]) == {"0" * 64}


def test_vectors_are_kept_by_text_and_model(store):
    many = {f"{number:064x}": vector(str(number)) for number in range(1500)}
    store.save_vectors(MODEL, many)
    assert store.vectors(MODEL, many) == many
    assert store.vectors(OTHER_MODEL, many) == {}
    assert store.missing(MODEL, [*many, "unknown"]) == {"unknown"}


def test_the_revision_token_changes_with_the_chunks_of_its_project_alone(store):
    seen = [store.revision(PROJECT)]
    publish(store, [chunk("a", "one")])
    seen.append(store.revision(PROJECT))
    publish(store, [chunk("a", "one", project="other")], project="other")
    assert store.revision(PROJECT) == seen[-1]
    publish(store, [], deletes=["guide/intro#unknown"])
    assert store.revision(PROJECT) == seen[-1]
    publish(store, [chunk("b", "two")])
    seen.append(store.revision(PROJECT))
    store.withdraw(PROJECT, ["guide/intro#a"])
    seen.append(store.revision(PROJECT))
    assert len(set(seen)) == 4
    assert store.projects() == {PROJECT, "other"}
    publish(store, [], deletes=["guide/intro#b"])
    assert store.revision(PROJECT) == "" == seen[0]
    assert store.projects() == {"other"}


def test_a_failed_publication_changes_nothing(store):
    publish(store, [chunk("a", "one")])
    token = store.revision(PROJECT)
    with pytest.raises(StoreError):
        store.publish(PROJECT, ORIGIN, MODEL, [chunk("b", "no vector")], ["guide/intro#a"])
    assert stored_ids(store) == {"guide/intro#a"}
    assert store.revision(PROJECT) == token


def test_sealing_drops_vectors_that_nothing_refers_to(store):
    publish(store, [chunk("a", "one")])
    kept = chunk("a", "one").chunk.text_hash
    store.save_vectors(MODEL, {"orphan": vector("orphan")})
    store.save_vectors(OTHER_MODEL, {kept: vector("one", model=OTHER_MODEL)})
    store.seal(MODEL, DIMENSION)
    assert store.fingerprint() == MODEL
    assert set(store.vectors(MODEL, [kept, "orphan"])) == {kept}
    assert store.missing(OTHER_MODEL, [kept]) == {kept}


def test_withdrawing_keeps_vectors_that_await_their_publication(store):
    publish(store, [chunk("a", "one")])
    store.save_vectors(MODEL, {"waiting": vector("waiting")})
    store.withdraw(PROJECT, ["guide/intro#a"])
    assert not store.missing(MODEL, ["waiting"])
    assert store.missing(MODEL, [chunk("a", "one").chunk.text_hash])


def test_two_projects_need_one_model(store):
    fill(store, [chunk("a", "one", project="other")], project="other")
    with pytest.raises(ParityError, match=r"fff.*other.*eee.*rag_embedding_provider"):
        store.check_identity(PROJECT, OTHER_MODEL)
    store.check_identity(PROJECT, MODEL)
    store.check_identity("other", OTHER_MODEL)
    publish(store, [chunk("a", "two")], model=OTHER_MODEL)
    with pytest.raises(ParityError, match="rag_embedding_provider"):
        store.seal(OTHER_MODEL, DIMENSION)
    assert store.fingerprint() == MODEL


def test_sealing_with_another_dimension_is_refused(store):
    publish(store, [chunk("a", "one")])
    with pytest.raises(ParityError, match="do not have 9 dimensions"):
        store.seal(MODEL, DIMENSION + 1)


def test_a_project_that_changes_its_model_is_searched_with_it_after_the_seal(store, reader):
    fill(store, [chunk("a", "one")])
    publish(store, [chunk("a", "one")], model=OTHER_MODEL)
    assert reader.fingerprint() == MODEL
    store.seal(OTHER_MODEL, DIMENSION)
    index(store)
    (hit,) = reader.dense(vector("one", model=OTHER_MODEL), 1)
    assert (hit.chunk_id, round(hit.score, 5)) == ("guide/intro#a", 1.0)
    assert reader.degradations() == []


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777], ids=lambda mask: f"umask-{mask:03o}")
def test_files_are_for_their_owner_alone(tmp_path, umask):
    before = os.umask(umask)
    try:
        with open_store(tmp_path / "deep" / "store", Scope.SHARED_ORG, "shared") as made:
            fill(made, [chunk("a", "one")])
            made.rebuild()
            modes = {
                path.relative_to(tmp_path): stat.S_IMODE(path.stat().st_mode)
                for path in tmp_path.rglob("*")
            }
            kinds = {path.relative_to(tmp_path): path.is_dir() for path in tmp_path.rglob("*")}
    finally:
        os.umask(before)
    assert {mode for path, mode in modes.items() if kinds[path]} == {0o700}
    assert {mode for path, mode in modes.items() if not kinds[path]} == {0o600}


def test_opening_a_store_for_the_other_scope_is_refused(store, folder):
    publish(store, [chunk("a", "one")])
    for opener in (open_store, open_reader):
        with pytest.raises(ConfigError, match="SHARED_ORG"):
            opener(folder, Scope.LOCAL_PRIVATE, "private")


def test_reading_where_nothing_was_stored_says_how_to_begin(tmp_path):
    with pytest.raises(IndexNotBuiltError, match="sphinx-build") as caught:
        open_reader(tmp_path / "absent", Scope.SHARED_ORG, "shared")
    assert caught.value.exit_code == 3
    assert not list(tmp_path.iterdir())


def test_an_empty_corpus_file_counts_as_not_built_and_is_filled_by_a_writer(folder):
    folder.mkdir()
    (folder / CORPUS_FILE).touch()
    with pytest.raises(IndexNotBuiltError):
        open_reader(folder, Scope.SHARED_ORG, "shared")
    open_store(folder, Scope.SHARED_ORG, "shared").close()
    assert stats(folder).chunks == 0


def test_a_newer_schema_is_left_alone(folder):
    open_store(folder, Scope.SHARED_ORG, "shared").close()
    path = folder / CORPUS_FILE
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    for opener in (open_store, open_reader):
        with pytest.raises(StoreSchemaError, match=rf"{SCHEMA_VERSION + 1}.*{SCHEMA_VERSION}.*new"):
            opener(folder, Scope.SHARED_ORG, "shared")
    assert path.read_bytes() == before


@pytest.mark.parametrize("opener", [open_store, open_reader], ids=["writer", "reader"])
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"not a database at all" * 100, id="not-a-database"),
        pytest.param(b"SQLite format 3\0" + b"\xff" * 5000, id="damaged-header"),
    ],
)
def test_a_damaged_corpus_names_itself_and_the_way_out(folder, opener, content):
    folder.mkdir()
    (folder / CORPUS_FILE).write_bytes(content)
    with pytest.raises(StoreUnavailableError, match=r"corpus\.sqlite3.*run sphinx-build"):
        opener(folder, Scope.SHARED_ORG, "shared")
    assert (folder / CORPUS_FILE).read_bytes() == content


@pytest.mark.parametrize("opener", [open_store, open_reader], ids=["writer", "reader"])
def test_a_corpus_that_lost_its_identity_is_refused(folder, opener):
    open_store(folder, Scope.SHARED_ORG, "shared").close()
    connection = sqlite3.connect(folder / CORPUS_FILE)
    connection.execute("DELETE FROM meta")
    connection.commit()
    connection.close()
    with pytest.raises(StoreUnavailableError, match=r"damaged.*run sphinx-build"):
        opener(folder, Scope.SHARED_ORG, "shared")


def test_a_database_of_another_program_is_left_alone(folder):
    folder.mkdir()
    connection = sqlite3.connect(folder / CORPUS_FILE)
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.commit()
    connection.close()
    with pytest.raises(StoreUnavailableError, match="another program"):
        open_store(folder, Scope.SHARED_ORG, "shared")


def test_stats_count_what_is_there(store, folder):
    publish(store, [chunk("a", "one"), chunk("b", "two"), chunk("c", "three", document="usage")])
    figures = stats(folder)
    assert (figures.documents, figures.chunks, figures.projects) == (2, 3, (PROJECT,))
    assert (figures.scope, figures.revision, figures.index) == ("SHARED_ORG", 1, "index_dirty")
    store.seal(MODEL, DIMENSION)
    index(store)
    figures = stats(folder)
    assert (figures.fingerprint, figures.dimension, figures.index) == (MODEL, DIMENSION, "ready")
    assert figures.bytes_on_disk > 50_000
    assert figures.is_writable


def test_an_unchanged_store_is_judged_without_heavy_imports(store, folder):
    fill(store, [chunk("a", "one")])
    script = (
        "import sys; from pathlib import Path; from doxtr_rag.core.scope import Scope\n"
        "from doxtr_rag.storage import open_store\n"
        f"with open_store(Path({str(folder)!r}), Scope.SHARED_ORG, 'shared') as store:\n"
        "    assert store.is_current(); store.refresh_index()\n"
        "assert not {'chromadb', 'numpy', 'httpx'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)
