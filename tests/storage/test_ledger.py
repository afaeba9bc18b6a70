"""The run ledger: how runs begin, go on and end, what an older schema wrote, what is asked."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from store_samples import MODEL, ORIGIN, PROJECT

from doxtr_rag.core.errors import StoreSchemaError, StoreUnavailableError
from doxtr_rag.core.runs import Request, RunProgress, RunState
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import open_reader, open_store, read_ledger
from doxtr_rag.storage.ledger import KEPT_RUNS, RunRecord
from doxtr_rag.storage.run_requests import REQUEST_FILE, RunRequests
from doxtr_rag.storage.schema import CORPUS_FILE, SCHEMA_VERSION

VERSION_1 = Path(__file__).with_name("corpus_version_1.sql")
RUN = RunRecord("one", PROJECT, ORIGIN, "t0", pid=7, host="here")
PROGRESS = RunProgress("embedding", 3, 9, embedded=3, reused=4, rate=1.5, moved="t1")


@pytest.fixture
def private(folder):
    with open_store(folder, Scope.LOCAL_PRIVATE, "private") as store:
        yield store


def test_a_run_is_there_from_its_beginning(private, folder):
    private.ledger.begin(RUN)
    assert read_ledger(folder, 1)[0] == [RUN]
    private.ledger.advance("one", RunState.PAUSED, PROGRESS)
    assert read_ledger(folder, 1)[0] == [replace(RUN, state=RunState.PAUSED, progress=PROGRESS)]


def test_a_run_ends_once(private):
    private.ledger.begin(RUN)
    ended = replace(
        RUN, finished="t2", state=RunState.FAILED, error_kind="store", progress=PROGRESS
    )
    private.ledger.end(ended)
    assert private.ledger.last_runs(5) == [ended]


def test_a_run_that_failed_before_it_began_is_kept_too(private):
    ended = replace(RUN, finished="t2", state=RunState.FAILED, error_kind="weights_missing")
    private.ledger.end(ended)
    assert private.ledger.last_runs(5) == [ended]


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.PAUSED])
@pytest.mark.parametrize(("progress", "seen"), [(RunProgress(), "t0"), (PROGRESS, "t1")])
def test_a_run_that_never_ended_was_interrupted_when_the_next_one_begins(
    private, state, progress, seen
):
    private.ledger.begin(RUN)
    private.ledger.advance("one", state, progress)
    private.ledger.begin(replace(RUN, run_id="two"))
    last, before = private.ledger.last_runs(5)
    assert (last.run_id, last.state) == ("two", RunState.RUNNING)
    assert (before.state, before.finished) == (RunState.INTERRUPTED, seen)


def test_old_runs_go(private):
    for number in range(KEPT_RUNS + 3):
        private.ledger.end(replace(RUN, run_id=str(number), finished="t1"))
    kept = [run.run_id for run in private.ledger.last_runs(KEPT_RUNS + 3)]
    assert kept == [str(number) for number in range(KEPT_RUNS + 2, 2, -1)]


def test_a_failure_that_stays_keeps_since_when(private):
    ledger = private.ledger
    ledger.record_failures(PROJECT, ORIGIN, {"a": "unreadable", "b": "too large"}, "t1")
    ledger.record_failures(PROJECT, ORIGIN, {"b": "still too large", "c": "empty"}, "t3")
    ledger.record_failures("other", ORIGIN, {"x": "odd"}, "t3")
    kept = [(f.document, f.reason, f.since) for f in ledger.failures()]
    assert kept == [("b", "still too large", "t1"), ("c", "empty", "t3"), ("x", "odd", "t3")]


@pytest.fixture
def version_1(folder):
    """A folder with a corpus that the first schema wrote."""
    folder.mkdir()
    with closing(sqlite3.connect(folder / CORPUS_FILE)) as connection:
        connection.executescript(VERSION_1.read_text(encoding="utf-8"))
    return folder


def test_a_corpus_of_the_first_schema_is_upgraded_by_the_next_writer(version_1):
    with pytest.raises(StoreSchemaError, match="run sphinx-build once"):
        open_reader(version_1, Scope.LOCAL_PRIVATE, "private")
    with open_store(version_1, Scope.LOCAL_PRIVATE, "private") as store:
        stored = store.hashes(PROJECT, ORIGIN)
        assert sorted(stored) == ["guide/intro#ports", "guide/intro#start"]
        assert not store.missing(MODEL, [known.text_hash for known in stored.values()])
        assert store.revision(PROJECT) == "aaaa"
    with open_reader(version_1, Scope.LOCAL_PRIVATE, "private") as reader:
        texts = {chunk.text for chunk in reader.document("intro").chunks}
    assert texts == {"How to begin.", "Which port is open."}


def test_runs_of_the_first_schema_are_told_in_the_words_of_this_one(version_1):
    with open_store(version_1, Scope.LOCAL_PRIVATE, "private") as store:
        told = [(run.state, run.error_kind, run.finished) for run in store.ledger.last_runs(5)]
        assert len({run.run_id for run in store.ledger.last_runs(5)}) == 3
        assert [f.document for f in store.ledger.failures()] == ["b"]
    assert told == [
        (RunState.FAILED, "incomplete", "t5"),
        (RunState.FAILED, "store_locked", "t3"),
        (RunState.SUCCEEDED, "", "t1"),
    ]


def test_an_upgraded_corpus_has_the_tables_of_a_fresh_one(version_1, tmp_path):
    def tables(folder):
        with closing(sqlite3.connect(folder / CORPUS_FILE)) as connection:
            names = connection.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall()
            columns = {
                name: connection.execute(f"PRAGMA table_info({name})").fetchall()
                for (name,) in names
            }
            return columns, connection.execute("SELECT schema_version FROM meta").fetchone()

    for folder in (version_1, tmp_path / "fresh"):
        open_store(folder, Scope.LOCAL_PRIVATE, "private").close()
    assert tables(version_1) == tables(tmp_path / "fresh")
    assert tables(version_1)[1] == (SCHEMA_VERSION,)


def test_an_upgrade_that_fails_leaves_the_corpus_as_it_was(version_1, monkeypatch):
    before = (version_1 / CORPUS_FILE).read_bytes()
    monkeypatch.setattr(
        "doxtr_rag.storage.schema.MIGRATIONS", ("", "CREATE TABLE half (one);", "no such thing;")
    )
    with pytest.raises(StoreUnavailableError, match="syntax error"):
        open_store(version_1, Scope.LOCAL_PRIVATE, "private")
    assert (version_1 / CORPUS_FILE).read_bytes() == before


def test_a_request_is_for_one_run(folder):
    folder.mkdir()
    requests = RunRequests(folder)
    assert requests.asked("one") is None
    requests.ask("one", Request.PAUSE)
    requests.ask("one", Request.CANCEL)
    assert requests.asked("one") is Request.CANCEL
    assert requests.asked("two") is None
    assert (folder / REQUEST_FILE).stat().st_mode & 0o777 == 0o600
    requests.clear()
    assert requests.asked("one") is None
    requests.clear()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"run": "one", "request": "explode"}'])
def test_a_request_that_says_nothing_counts_as_none(folder, text):
    folder.mkdir()
    (folder / REQUEST_FILE).write_text(text)
    assert RunRequests(folder).asked("one") is None


def test_a_request_that_cannot_be_left_is_an_error(folder):
    folder.mkdir()
    (folder / REQUEST_FILE).mkdir()
    with pytest.raises(StoreUnavailableError, match=REQUEST_FILE):
        RunRequests(folder).ask("one", Request.PAUSE)
