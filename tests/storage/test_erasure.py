import random

import pytest
from store_samples import DIMENSION, MODEL, PROJECT, chunk, fill, index, publish, vector

from doxtr_rag.core.errors import StoreLockedError
from doxtr_rag.storage import index_process, publication, rebuild
from doxtr_rag.storage.corpus import Erasure, read_state
from doxtr_rag.storage.schema import CORPUS_FILE

MARKER = "quizzacious"


def files_with(folder, needle):
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and needle.lower() in path.read_bytes().lower()
    )


def stems_of(marker):
    # The text index keeps stems, of which this is one.
    return marker[:9].encode()


def churned(store, source):
    """Publish and replace chunks of many sizes; return the ids that carry the marker."""
    live = {}
    for _ in range(12):
        fresh = {}
        for _ in range(25):
            words = [f"word{source.randrange(99)}" for _ in range(source.randrange(2, 120))]
            marked = [MARKER] if source.random() < 0.2 else []
            made = chunk(f"{source.randrange(300)}", " ".join(words + marked))
            fresh[made.chunk.chunk_id] = made
        deletes = source.sample(sorted(live.keys() - fresh), min(5, len(live.keys() - fresh)))
        publish(store, list(fresh.values()), deletes)
        live = {
            **{i: t for i, t in live.items() if i not in deletes},
            **{i: made.chunk.text for i, made in fresh.items()},
        }
    return [chunk_id for chunk_id, text in live.items() if MARKER in text]


@pytest.mark.parametrize("seed", range(5))
def test_withdrawn_text_is_nowhere_on_disk(store, folder, seed):
    marked = churned(store, random.Random(seed))  # noqa: S311 - a test's numbers
    store.seal(MODEL, DIMENSION)
    assert files_with(folder, stems_of(MARKER))
    store.withdraw(PROJECT, marked)
    assert files_with(folder, stems_of(MARKER)) == []
    assert not store.is_current()


def test_the_vector_and_the_anchor_of_withdrawn_text_leave_the_index_too(store, folder, reader):
    secret = chunk(MARKER, f"plans about {MARKER}")
    fill(store, [secret, *(chunk(str(n), f"text {n}") for n in range(40))])
    assert reader.dense(vector(secret.chunk.text), 1)[0].score > 0.99
    assert len(files_with(folder, vector(secret.chunk.text)[:24])) >= 1
    store.withdraw(PROJECT, [secret.chunk.chunk_id])
    assert reader.dense(vector(secret.chunk.text), 1)[0].score < 0.99
    assert [code.code for code in reader.degradations()] == ["index_dirty"]
    assert not any(path.is_dir() for path in (folder / "index").iterdir())
    index(store)
    for trace in (
        stems_of(MARKER),
        vector(secret.chunk.text)[:24],
        secret.chunk.text_hash.encode(),
    ):
        assert files_with(folder, trace) == []
    assert store.is_current()


def test_a_text_that_another_chunk_still_has_keeps_its_vector(store, reader):
    twins = [chunk("a", "same"), chunk("b", "same", document="intro")]
    texts = {s.chunk.text_hash for s in twins}
    fill(store, twins)
    store.withdraw(PROJECT, ["guide/intro#a"])
    index(store)
    assert not store.missing(MODEL, texts)
    assert [hit.chunk_id for hit in reader.dense(vector("same"), 5)] == ["guide/intro#b"]


def test_withdrawing_nothing_changes_nothing(store):
    fill(store, [chunk("a", "one")])
    store.withdraw(PROJECT, ["guide/intro#unknown"])
    store.withdraw(PROJECT, [])
    assert store.is_current()


def test_an_erasure_that_a_reader_blocks_is_said_and_finished_later(store, reader, folder):
    fill(store, [chunk("a", f"about {MARKER}"), chunk("b", "other")])
    store._database._connection.execute("PRAGMA busy_timeout = 50")
    with reader._database.reading() as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM chunks").fetchone()
        with pytest.raises(StoreLockedError, match="withdrawn text is still"):
            store.withdraw(PROJECT, ["guide/intro#a"])
        connection.execute("ROLLBACK")
    assert not store.is_current()
    assert not reader.lexical(MARKER, 5)
    index(store)
    assert store.is_current()
    assert files_with(folder, stems_of(MARKER)) == []


def test_an_erasure_that_was_interrupted_is_finished_without_chunks(store, folder):
    fill(store, [chunk("a", f"about {MARKER}"), chunk("b", "other")])
    store.withdraw(PROJECT, ["guide/intro#b"])
    publish(store, [], deletes=["guide/intro#a"])
    with store._database.writing() as connection:
        publication.call_for_erasure(connection, Erasure.PENDING)
    store.withdraw(PROJECT, [])
    assert files_with(folder, stems_of(MARKER)) == []


@pytest.mark.parametrize(
    "lose",
    [
        pytest.param(lambda store: publish(store, [], ["guide/intro#a"]), id="deleted"),
        pytest.param(lambda store: publish(store, [chunk("a", "harmless")]), id="replaced"),
    ],
)
def test_what_was_deleted_is_erased_when_asked(store, folder, lose):
    fill(store, [chunk("a", f"about {MARKER}"), *(chunk(f"n{n}", f"text {n}") for n in range(30))])
    lose(store)
    store.seal(MODEL, DIMENSION)
    index(store)
    assert store.is_current()
    assert files_with(folder, stems_of(MARKER))
    store.erase_deleted()
    assert files_with(folder, stems_of(MARKER)) == []
    assert store.is_current()


def test_erasing_where_nothing_was_lost_changes_nothing(store, folder):
    fill(store, [chunk("a", "one")])
    before = (folder / CORPUS_FILE).stat().st_mtime_ns
    store.erase_deleted()
    assert (folder / CORPUS_FILE).stat().st_mtime_ns == before


def test_an_index_that_was_under_way_during_a_withdrawal_is_built_again(store, folder):
    secret = chunk("secret", "a secret plan")
    publish(store, [secret, *(chunk(f"n{n}", f"text {n}") for n in range(30))])
    store.seal(MODEL, DIMENSION)
    state = read_state(store._database)
    with store._database.writing() as connection:
        publication.withdraw_chunks(connection, PROJECT, [secret.chunk.chunk_id])
        publication.renew_revision(connection, PROJECT)
    everything = {secret.chunk.text_hash}
    index_process._record_build(store._database, state, "0" * 16, "{}", everything)
    assert read_state(store._database).must_rebuild


def test_a_rebuild_erases_what_ordinary_deletions_left(store, folder):
    fill(store, [chunk("a", f"about {MARKER}"), *(chunk(str(n), f"text {n}") for n in range(30))])
    publish(store, [], deletes=["guide/intro#a"])
    store.seal(MODEL, DIMENSION)
    rebuild(store)
    assert files_with(folder, stems_of(MARKER)) == []
    assert store.is_current()
