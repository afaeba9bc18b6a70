"""Corpora of siblings as donors: what is taken, what is refused, what is left as it was."""

import os
import sqlite3
from contextlib import closing

import pytest
from store_samples import DIMENSION, MODEL, OTHER_MODEL, chunk, publish, vector

from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import Sibling, SiblingCorpora, StoreLock, open_store
from doxtr_rag.storage.donors import MOST_INSPECTED, MOST_USED
from doxtr_rag.storage.ledger import RunRecord
from doxtr_rag.storage.schema import CORPUS_FILE


def fill(folder, texts, *, model=MODEL, scope=Scope.SHARED_ORG):
    with open_store(folder, scope, "shared") as store:
        chunks = [chunk(f"s{n}", text, scope=scope) for n, text in enumerate(texts)]
        publish(store, chunks, model=model)
        store.seal(model, DIMENSION)
    return {scoped.chunk.text_hash: scoped.chunk.text for scoped in chunks}


@pytest.fixture
def said():
    return []


@pytest.fixture
def ask(said):
    def ask(*folders, hashes, model=MODEL):
        found = [Sibling(folder.name, (folder,)) for folder in folders]
        with closing(SiblingCorpora(lambda: found, said.append)) as donor:
            return donor.vectors(model, hashes), donor.used

    return ask


def test_a_sibling_gives_what_it_has(tmp_path, ask, said):
    texts = fill(tmp_path / "one", ["a", "b"])
    gifts, used = ask(tmp_path / "one", hashes=[*texts, "unknown"])
    assert gifts == {key: vector(text) for key, text in texts.items()}
    assert (used, said) == (("one",), [])


def test_both_stores_of_a_sibling_are_asked(tmp_path):
    texts = fill(tmp_path / "shared", ["a"])
    texts |= fill(tmp_path / "private", ["b"], scope=Scope.LOCAL_PRIVATE)
    sibling = Sibling("near", (tmp_path / "shared", tmp_path / "private"))
    with closing(SiblingCorpora(lambda: [sibling], print)) as donor:
        assert donor.vectors(MODEL, texts).keys() == texts.keys()
        assert donor.used == ("near",)


def test_a_sibling_of_another_model_gives_nothing(tmp_path, ask, said):
    texts = fill(tmp_path / "one", ["a"], model=OTHER_MODEL)
    assert ask(tmp_path / "one", hashes=texts) == ({}, ())
    assert said == []


def test_a_sibling_that_must_still_erase_gives_nothing(tmp_path, ask):
    texts = fill(tmp_path / "one", ["a"])
    with closing(sqlite3.connect(tmp_path / "one" / CORPUS_FILE)) as connection, connection:
        connection.execute("UPDATE meta SET erase_pending = 1")
    assert ask(tmp_path / "one", hashes=texts) == ({}, ())


def damage_header(path):
    path.write_bytes(b"no database at all" * 1000)


def damage_pages(path):
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)


def of_a_newer_schema(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")


def of_an_older_schema(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 1")


@pytest.mark.parametrize(
    "spoil", [damage_header, damage_pages, of_a_newer_schema, of_an_older_schema]
)
def test_a_sibling_that_is_no_use_is_told_in_one_line_and_left_out(tmp_path, ask, said, spoil):
    texts = fill(tmp_path / "bad", ["a"])
    fill(tmp_path / "good", ["a"])
    path = tmp_path / "bad" / CORPUS_FILE
    spoil(path)
    before = path.read_bytes()
    gifts, used = ask(tmp_path / "bad", tmp_path / "good", hashes=texts)
    assert gifts == {key: vector(text) for key, text in texts.items()}
    assert used == ("good",)
    [line] = said
    assert line.startswith("doxtr_rag: no vectors are taken from bad")
    assert path.read_bytes() == before


def test_a_sibling_that_was_never_filled_is_not_worth_a_line(tmp_path, ask, said):
    assert ask(tmp_path / "nothing", hashes=["x"]) == ({}, ())
    assert said == []


def test_a_sibling_that_is_at_work_is_asked_without_its_lock(tmp_path, ask):
    texts = fill(tmp_path / "one", ["a"])
    before = (tmp_path / "one" / CORPUS_FILE).read_bytes()
    with (
        StoreLock(tmp_path / "one").acquired(0, print),
        open_store(tmp_path / "one", Scope.SHARED_ORG, "shared") as store,
    ):
        publish(store, [chunk("more", "not yet sealed")])
        gifts, _ = ask(tmp_path / "one", hashes=texts)
        assert gifts
    assert len((tmp_path / "one" / CORPUS_FILE).read_bytes()) >= len(before)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path, ask, monkeypatch):
    texts = fill(tmp_path / "one", ["a"])
    monkeypatch.setattr("doxtr_rag.storage.donors.os.getuid", lambda: os.geteuid() + 1)
    assert ask(tmp_path / "one", hashes=texts) == ({}, ())


def test_few_siblings_are_looked_at_the_latest_first(tmp_path, ask):
    folders = [tmp_path / f"n{number}" for number in range(MOST_INSPECTED + 2)]
    texts = {}
    for number, folder in enumerate(folders):
        own = fill(folder, [f"text {number}"])
        texts |= own
        os.utime(folder / CORPUS_FILE, (number, number))
    gifts, used = ask(*folders, hashes=texts)
    assert used == tuple(f"n{number}" for number in range(7, 7 - MOST_USED, -1))
    assert len(gifts) == MOST_USED
    for folder in folders[2:]:
        fill(folder, ["other model"], model=OTHER_MODEL)
        os.utime(folder / CORPUS_FILE, (100, 100))
    assert ask(*folders, hashes=texts) == ({}, ())


def test_the_pace_of_a_sibling_is_known(tmp_path):
    fill(tmp_path / "one", ["a"])
    with open_store(tmp_path / "one", Scope.SHARED_ORG, "shared") as store:
        report = '{"reuse": {"misses": 4, "embedding_seconds": 2.0}}'
        store.ledger.end(RunRecord("r", "p", "o", "t0", "t1", report_json=report))
        store.ledger.end(RunRecord("s", "p", "o", "t0", "t1", report_json="{}"))
        assert store.ledger.known_pace() == 0.5
    sibling = Sibling("one", (tmp_path / "one",))
    with closing(SiblingCorpora(lambda: [sibling], print)) as donor:
        assert donor.known_pace() is None
        donor.vectors(MODEL, ["x"])
        assert donor.known_pace() == 0.5
