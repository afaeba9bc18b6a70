import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from store_samples import DIMENSION, MODEL, chunk, fill, ids, index, publish, vector

from doxtr_rag.core.errors import ParityError, StoreUnavailableError
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import open_reader, open_store, refresh_indexes, stats
from doxtr_rag.storage.generation import current
from doxtr_rag.storage.index_refresh import CHILD_MODULE


def many(count, start=0, **options):
    return [chunk(f"n{n:05}", f"text {n}", **options) for n in range(start, start + count)]


def codes(reader):
    return [degradation.code for degradation in reader.degradations()]


def generations(folder):
    return sorted(path.name for path in (folder / "index").iterdir() if path.is_dir())


def exact(folder, question, top_k):
    """The same question to a reader that has no index."""
    bare = folder.with_name("bare")
    shutil.rmtree(bare, ignore_errors=True)
    shutil.copytree(folder, bare, ignore=shutil.ignore_patterns("index", "CURRENT"))
    with open_reader(bare, Scope.SHARED_ORG, "shared") as reader:
        hits = reader.dense(question, top_k)
        assert codes(reader) == ["index_dirty"]
    return [(hit.chunk_id, round(hit.score, 5)) for hit in hits]


def asked(reader, question, top_k):
    return [(hit.chunk_id, round(hit.score, 5)) for hit in reader.dense(question, top_k)]


def test_the_index_and_the_exact_search_agree(store, reader, folder):
    fill(store, many(120))
    question = vector("text 7")
    assert asked(reader, question, 15) == exact(folder, question, 15)
    assert ids(reader.dense(question, 1)) == ["guide/intro#n00007"]
    assert codes(reader) == []


def test_more_neighbours_than_chunks(store, reader):
    fill(store, many(3))
    assert len(reader.dense(vector("text 1"), 50)) == 3
    assert reader.dense(vector("text 1"), 0) == []


def test_chunks_with_one_text_are_all_found(store, reader, folder):
    twins = [chunk(f"t{n:04}", "boilerplate") for n in range(300)]
    same = [s for s in twins if s.chunk.text_hash == twins[0].chunk.text_hash]
    assert len({s.chunk.text_hash for s in twins}) == 1 == len(same) - 299
    fill(store, [*twins, *many(30)])
    question = vector("boilerplate")
    assert len([h for h in reader.dense(question, 400) if round(h.score, 4) == 1]) == 300
    assert asked(reader, question, 10) == exact(folder, question, 10)


def test_a_question_of_another_dimension_is_refused(store, reader):
    fill(store, many(3))
    with pytest.raises(ParityError, match=f"9 dimensions, the store {DIMENSION}"):
        reader.dense(vector("text 1", DIMENSION + 1), 3)


def test_before_the_first_seal_nothing_is_near(store, reader):
    publish(store, many(3))
    assert reader.fingerprint() is None
    assert reader.dense(vector("text 1"), 3) == []
    assert not store.is_current()


def test_a_store_without_an_index_answers_exactly_and_says_so(store, reader):
    publish(store, many(30))
    store.seal(MODEL, DIMENSION)
    assert ids(reader.dense(vector("text 9"), 1)) == ["guide/intro#n00009"]
    assert codes(reader) == ["index_dirty"]


@pytest.mark.parametrize("lost", ["index", "CURRENT"])
def test_a_wiped_index_is_repaired_by_the_next_run(store, reader, folder, lost):
    fill(store, many(30))
    gone = folder / lost
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    assert ids(reader.dense(vector("text 9"), 1)) == ["guide/intro#n00009"]
    assert codes(reader) == ["index_dirty"]
    assert not store.is_current()
    index(store)
    assert store.is_current()
    assert ids(reader.dense(vector("text 9"), 1)) == ["guide/intro#n00009"]
    assert codes(reader) == []


@pytest.mark.parametrize(
    "damaged", ["chroma.sqlite3", "data_level0.bin", "index_metadata.pickle", "link_lists.bin"]
)
def test_a_damaged_index_never_gives_an_empty_answer(store, folder, damaged):
    fill(store, many(60))
    (victim,) = (folder / "index").rglob(damaged)
    if damaged == "link_lists.bin":
        os.truncate(victim, 1 << 33)
    else:
        victim.write_bytes(b"\xff" * victim.stat().st_size)
    with open_reader(folder, Scope.SHARED_ORG, "shared") as reader:
        assert ids(reader.dense(vector("text 9"), 1)) == ["guide/intro#n00009"]
        assert codes(reader) == ["index_corrupt"]
        assert not store.is_current()
        index(store)
        assert ids(reader.dense(vector("text 9"), 1)) == ["guide/intro#n00009"]
        assert codes(reader) == []


def test_a_small_change_copies_the_generation_and_equals_a_build(store, reader, folder):
    fill(store, many(100))
    before = generations(folder)
    fill(store, many(5, start=200), deletes=["guide/intro#n00001", "guide/intro#n00002"])
    (updated,) = generations(folder)
    assert [updated] != before
    assert current(folder) == updated
    questions = [vector(f"text {n}") for n in (1, 50, 203)]
    by_update = [asked(reader, question, 20) for question in questions]
    store.rebuild()
    assert generations(folder) != [updated]
    assert by_update == [asked(reader, question, 20) for question in questions]
    assert by_update == [exact(folder, question, 20) for question in questions]
    reader.verify()


def test_a_damaged_generation_is_not_copied_but_built_anew(store, reader, folder):
    fill(store, many(100))
    (victim,) = (folder / "index").rglob("data_level0.bin")
    victim.write_bytes(b"\xff" * victim.stat().st_size)
    fill(store, many(2, start=200))
    assert ids(reader.dense(vector("text 9"), 1)) == ["guide/intro#n00009"]
    reader.verify()


def test_a_change_that_leaves_the_texts_alone_keeps_the_generation(store, folder):
    fill(store, many(10))
    before = generations(folder)
    publish(store, many(10), origin="mount")
    store.seal(MODEL, DIMENSION)
    assert not store.is_current()
    index(store)
    assert store.is_current()
    assert generations(folder) == before


def test_much_churn_builds_anew(store, folder, reader):
    fill(store, many(60))
    for round_ in range(3):
        gone = [f"guide/intro#n{n:05}" for n in range(round_ * 6, round_ * 6 + 6)]
        fill(store, many(6, start=100 + round_ * 6), deletes=gone)
        assert len(generations(folder)) == 1
        reader.verify()
    assert stats(folder).chunks == 60


def test_the_last_chunk_takes_the_index_with_it(store, reader, folder):
    fill(store, many(3))
    publish(store, [], deletes=[f"guide/intro#n{n:05}" for n in range(3)])
    store.seal(MODEL, DIMENSION)
    index(store)
    assert store.is_current()
    assert generations(folder) == []
    assert reader.dense(vector("text 1"), 3) == []
    assert reader.fingerprint() is None
    fill(store, many(3))
    assert codes(reader) == []


def test_one_child_serves_several_stores(tmp_path):
    scopes = {Scope.SHARED_ORG: "shared", Scope.LOCAL_PRIVATE: "private"}
    stores = [open_store(tmp_path / name, scope, name) for scope, name in scopes.items()]
    for made in stores:
        publish(made, many(5, scope=made.scope))
        made.seal(MODEL, DIMENSION)
    refresh_indexes(stores, "sample_8")
    assert [made.is_current() for made in stores] == [True, True]
    for made in stores:
        made.close()


def test_a_child_that_fails_is_named_and_loses_nothing(store, folder):
    publish(store, many(5))
    store.seal(MODEL, DIMENSION)
    (folder / "index").write_text("in the way")
    with pytest.raises(StoreUnavailableError, match=r"exit 1: .*index"):
        store.refresh_index()
    (folder / "index").unlink()
    store.refresh_index()
    assert store.is_current()


def test_a_generation_named_outside_the_folder_is_ignored(store, folder):
    fill(store, many(3))
    (folder / "CURRENT").write_text("../../elsewhere\n")
    assert current(folder) == ""
    assert not store.is_current()


def start_child(folder):
    return subprocess.Popen([sys.executable, "-m", CHILD_MODULE, str(folder)], cwd="/")


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_killed_build_costs_nothing_but_time(store, reader, folder):
    fill(store, many(50))
    old = current(folder)
    publish(store, many(1500, start=100))
    store.seal(MODEL, DIMENSION)
    child = start_child(folder)
    wait_for(
        lambda: any((folder / "index").glob("*/*/data_level0.bin")) and len(generations(folder)) > 1
    )
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert current(folder) == old
    assert not store.is_current()
    assert ids(reader.dense(vector("text 777"), 1)) == ["guide/intro#n00777"]
    index(store)
    assert store.is_current()
    assert len(generations(folder)) == 1
    assert ids(reader.dense(vector("text 777"), 1)) == ["guide/intro#n00777"]
    reader.verify()


@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.06])
def test_a_killed_update_leaves_the_old_generation_whole(store, reader, folder, delay_s):
    fill(store, many(200))
    publish(store, many(20, start=500))
    store.seal(MODEL, DIMENSION)
    child = start_child(folder)
    wait_for(lambda: len(generations(folder)) > 1 or child.poll() is not None)
    time.sleep(delay_s)
    child.kill()
    child.wait()
    assert len(reader.dense(vector("text 510"), 250)) == 220
    index(store)
    assert len(generations(folder)) == 1
    reader.verify()


def test_a_reader_sees_each_commit_while_a_writer_writes(store, reader, folder):
    fill(store, many(20))
    for round_ in range(3):
        publish(store, many(1, start=100 + round_))
        store.seal(MODEL, DIMENSION)
        assert ids(reader.dense(vector(f"text {100 + round_}"), 1)) == [
            f"guide/intro#n{100 + round_:05}"
        ]
        assert codes(reader) == ["index_dirty"]
    index(store)
    assert ids(reader.dense(vector("text 101"), 1)) == ["guide/intro#n00101"]
    assert codes(reader) == []


def test_an_open_transaction_of_a_writer_does_not_hold_up_a_reader(store, reader):
    fill(store, many(5))

    def written_half(connection):
        connection.execute("DELETE FROM chunks")
        assert len(reader.dense(vector("text 1"), 9)) == 5
        assert len(reader.lexical("text", 9)) == 5
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), store._database.writing() as connection:
        written_half(connection)
    assert len(reader.dense(vector("text 1"), 9)) == 5


def test_a_store_moved_to_another_place_needs_no_rebuild(tmp_path):
    with open_store(tmp_path / "here", Scope.SHARED_ORG, "shared") as made:
        fill(made, many(20))
    (tmp_path / "here").rename(tmp_path / "there")
    with open_store(tmp_path / "there", Scope.SHARED_ORG, "shared") as moved:
        assert moved.is_current()
    with open_reader(tmp_path / "there", Scope.SHARED_ORG, "shared") as reader:
        assert ids(reader.dense(vector("text 3"), 1)) == ["guide/intro#n00003"]
        reader.verify()


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_readers_change_no_file_of_the_index(store, folder, tmp_path, count):
    fill(store, many(count))

    def graph_files(place):
        files = (path for path in (place / "index").glob("*/*/*") if path.is_file())
        return {path.relative_to(place): path.read_bytes() for path in files}

    before = graph_files(folder)
    for _ in range(2):
        with open_reader(folder, Scope.SHARED_ORG, "shared") as reader:
            assert len(reader.dense(vector("text 0"), count)) == count
            reader.verify()
    assert graph_files(folder) == before
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    with open_reader(moved, Scope.SHARED_ORG, "shared") as reader:
        reader.verify()
        assert codes(reader) == []


def test_a_sample_is_a_chunk_with_its_input_and_vector(store, reader):
    assert reader.sample() is None
    fill(store, many(3))
    chunk_id, text, stored = reader.sample()
    assert (chunk_id, text) == ("guide/intro#n00000", "text 0")
    assert stored == vector("text 0")
