import os
from pathlib import Path

import pytest
from store_samples import DIMENSION, MODEL, chunk, fill, index, publish, vector

from doxtr_rag.core.errors import IndexNotBuiltError, StoreUnavailableError
from doxtr_rag.storage import chroma
from doxtr_rag.storage.database import open_existing
from doxtr_rag.storage.generation import current, manifest, place
from doxtr_rag.storage.index_check import compare, sample
from doxtr_rag.storage.index_recall import recall


def many(count, start=0):
    return [chunk(f"n{n:05}", f"text {n}") for n in range(start, start + count)]


@pytest.fixture
def filled(store, folder):
    fill(store, many(300))
    return folder


def tamper(folder, change):
    """Change the generation in use behind the corpus's back, and have the manifest agree."""
    name = current(folder)
    opened = chroma.open_generation(place(folder, name), chroma.DEFAULT_COLLECTION)
    opened.persist_after(1)
    opened.close()
    opened = chroma.open_generation(place(folder, name), chroma.DEFAULT_COLLECTION)
    change(opened)
    opened.close()
    database = open_existing(folder)
    with database.writing() as connection:
        connection.execute("UPDATE index_state SET manifest = ?", (manifest(folder, name),))
    database.close()


def text_hash(number):
    return many(1, number)[0].chunk.text_hash


def test_an_index_that_serves_its_corpus(filled):
    found = compare(filled)
    assert (found.records, found.sampled, found.is_equal) == (300, 300, True)
    assert found.unreachable == ()


def test_a_missing_record_is_named_by_its_chunk(filled):
    tamper(filled, lambda index: index.remove([text_hash(7)]))
    found = compare(filled)
    assert found.missing == ("guide/intro#n00007",)
    assert not found.is_equal
    assert (found.extra, found.differing) == ((), ())


def test_a_record_without_a_chunk_is_named_by_its_hash(filled):
    tamper(filled, lambda index: index.write([("f" * 64, vector("stranger"))]))
    found = compare(filled)
    assert found.extra == ("f" * 64,)
    assert not found.is_equal


def test_a_record_with_another_vector_is_named(filled):
    tamper(filled, lambda index: index.write([(text_hash(9), vector("another"))]))
    found = compare(filled)
    assert found.differing == ("guide/intro#n00009",)
    assert not found.is_equal


def test_a_rotten_file_is_named_before_chroma_sees_it(filled):
    (victim,) = (filled / "index").rglob("data_level0.bin")
    stamp = victim.stat()
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 255
    victim.write_bytes(content)
    os.utime(victim, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    found = compare(filled)
    assert [Path(file).name for file in found.files] == ["data_level0.bin"]
    assert not found.is_equal
    with pytest.raises(StoreUnavailableError, match="not the files"):
        recall(filled)


def test_an_index_that_is_behind_is_not_compared(filled, store):
    publish(store, many(1, 300))
    store.seal(MODEL, DIMENSION)
    for check in (compare, recall):
        with pytest.raises(StoreUnavailableError, match="behind the corpus: run sphinx-build"):
            check(filled)
    index(store)
    assert compare(filled).is_equal


def test_a_store_that_was_never_filled(tmp_path):
    with pytest.raises(IndexNotBuiltError):
        compare(tmp_path / "nothing")


def test_an_empty_store_has_an_empty_index(store, folder):
    store.seal(MODEL, DIMENSION)
    index(store)
    assert compare(folder).is_equal
    assert recall(folder).is_enough


def test_an_index_finds_what_exact_search_finds(filled):
    found = recall(filled, questions=40)
    assert (found.questions, found.share, found.is_enough) == (40, 1.0, True)


def test_an_index_with_wrong_vectors_has_no_recall(filled):
    swapped = [(text_hash(n), vector(f"text {n + 1}")) for n in range(300)]
    tamper(filled, lambda index: index.write(swapped))
    found = recall(filled)
    assert found.share < 0.2
    assert not found.is_enough


def test_fewer_records_than_neighbours(store, folder):
    fill(store, many(3))
    assert recall(folder).share == 1.0


def test_a_sample_is_the_same_for_the_same_seed():
    hashes = {f"{n:064}" for n in range(100)}
    assert sample(hashes, 10, seed=1) == sample(hashes, 10, seed=1)
    assert sample(hashes, 10, seed=1) != sample(hashes, 10, seed=2)
    assert sample(hashes, 200, seed=1) == sorted(hashes)


@pytest.fixture
def unlinked(monkeypatch):
    """A graph that leaves some records unreachable, as one of many equal vectors does."""

    def leave(count):
        whole = chroma.ChromaGeneration.reached

        def part(index, dimension, records):
            return set(sorted(whole(index, dimension, records))[count:])

        monkeypatch.setattr(chroma.ChromaGeneration, "reached", part)

    return leave


@pytest.mark.parametrize(("count", "is_equal"), [(3, True), (4, False)])
def test_a_few_unreachable_records_are_named_and_more_are_a_fault(
    filled, unlinked, count, is_equal
):
    unlinked(count)
    found = compare(filled)
    assert len(found.unreachable) == count
    assert all(name.startswith("guide/intro#n") for name in found.unreachable)
    assert found.is_equal is is_equal


def test_the_probe_of_a_reader_refuses_an_index_that_fell_apart(filled, reader, unlinked):
    reader.verify()
    unlinked(4)
    with pytest.raises(StoreUnavailableError, match="4 of 300 vectors cannot be reached"):
        reader.verify()


def test_a_commit_in_between_is_no_difference(filled, store, monkeypatch):
    """What was read before and after a build is compared again."""
    whole = chroma.ChromaGeneration.records
    waiting = [many(1, 300)]

    def records(opened):
        found = whole(opened)
        if waiting:
            publish(store, waiting.pop())
            store.seal(MODEL, DIMENSION)
            index(store)
        return found

    monkeypatch.setattr(chroma.ChromaGeneration, "records", records)
    found = compare(filled)
    assert not waiting
    assert (found.is_equal, found.records) == (True, 301)
