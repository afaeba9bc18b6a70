"""`retry`, `rebuild` and what `status` says of runs, over a real build on the tiny model."""

import json
import shutil

import pytest
from sphinx_project import Page, Project, build

from doxtr_rag.bootstrap import monitoring
from doxtr_rag.cli.durations import shown_duration
from doxtr_rag.cli.main import main
from doxtr_rag.core.runs import Request, RunState
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import RunRecord, RunRequests, StoreLock, open_store

pytestmark = pytest.mark.usefixtures("tiny_model_dir")

PAGES = {
    "index": Page("Demo", [("Intro", "Welcome here.")], children=["guide", "notes"]),
    "guide": Page("Guide", [("Ports", "Open port 8000 for the server.")]),
    "notes": Page("Notes", [("Plan", "Nobody may see the plan.")], scope="LOCAL_PRIVATE"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory, tiny_model_dir):
    root = tmp_path_factory.mktemp("runs") / "work"
    Project(PAGES).write(root)
    assert build(root).status == 0
    return root


@pytest.fixture
def root(built, tmp_path, monkeypatch):
    copy = tmp_path / "work"
    shutil.copytree(built, copy)
    monkeypatch.chdir(copy)
    return copy


@pytest.fixture
def answer(capsys):
    def ask(*arguments):
        code = main([*arguments, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return ask


@pytest.fixture
def ledger(root):
    with open_store(root / ".doxtr" / "chroma", Scope.LOCAL_PRIVATE, "private") as store:
        yield store.ledger


def test_nothing_is_retried_where_nothing_failed(root, answer, capsys):
    code, envelope = answer("retry")
    assert (code, envelope["data"]["waiting"]) == (0, [])
    assert main(["retry"]) == 0
    assert "nothing has failed" in capsys.readouterr().out


def test_documents_of_sphinx_wait_for_the_next_build_which_reads_them(root, ledger, answer, capsys):
    ledger.record_failures("demo", "sphinx", {"guide": "unreadable"})
    ledger.record_failures("other", "sphinx", {"alien": "not of this project"})
    code, envelope = answer("retry")
    assert (code, envelope["ok"], envelope["error"]) == (1, False, "incomplete")
    [waiting] = envelope["data"]["waiting"]
    assert waiting["document"] == "guide"
    assert waiting["next"].startswith(f"sphinx-build {root / 'source'} ")
    assert main(["retry"]) == 1
    assert "run: sphinx-build" in capsys.readouterr().out
    ended = build(root)
    assert ended.status == 0
    assert "3 documents: 1 changed" in ended.output
    assert "0 texts embedded" in ended.output
    assert [f.document for f in ledger.failures()] == ["alien"]


def test_a_dry_run_marks_nothing(root, ledger, answer):
    ledger.record_failures("demo", "sphinx", {"guide": "unreadable"})
    code, envelope = answer("retry", "--dry-run")
    assert (code, envelope["data"]["dry_run"]) == (1, True)
    assert "up to date" in build(root).output


def test_retry_waits_for_a_run_that_is_at_work(root, ledger, answer):
    ledger.record_failures("demo", "sphinx", {"guide": "unreadable"})
    with StoreLock(root / ".doxtr" / "chroma").acquired(0, print):
        code, envelope = answer("retry", "--wait", "0")
    assert (code, envelope["error"]) == (1, "store_locked")


def generation(root, store):
    return (root / ".doxtr" / store / "CURRENT").read_text()


@pytest.mark.parametrize(("scope", "rebuilt"), [("shared", ["shared"]), ("private", ["chroma"])])
def test_rebuild_touches_the_named_scope_only(root, answer, scope, rebuilt):
    before = {store: generation(root, store) for store in ("shared", "chroma")}
    code, envelope = answer("rebuild", "--scope", scope)
    assert (code, list(envelope["data"]["stores"])) == (0, [scope])
    after = {store: generation(root, store) for store in ("shared", "chroma")}
    assert [store for store in after if after[store] != before[store]] == rebuilt


def test_a_dry_rebuild_takes_no_lock_and_writes_nothing(root, answer, capsys):
    before = {store: generation(root, store) for store in ("shared", "chroma")}
    with StoreLock(root / ".doxtr" / "chroma").acquired(0, print):
        code, envelope = answer("rebuild", "--dry-run", "--reharvest")
        assert main(["rebuild", "--dry-run"]) == 0
    assert "would rebuild" in capsys.readouterr().out
    assert code == 0
    assert envelope["data"]["stores"] == {"shared": 2, "private": 1}
    assert envelope["data"]["reharvest"]["documents"] == 3
    assert before == {store: generation(root, store) for store in ("shared", "chroma")}
    assert "up to date" in build(root).output


@pytest.mark.parametrize(("scope", "count"), [("all", 3), ("shared", 2), ("private", 1)])
def test_reharvest_has_the_next_build_look_again_and_embed_nothing(root, answer, scope, count):
    code, envelope = answer("rebuild", "--scope", scope, "--reharvest")
    told = envelope["data"]["reharvest"]
    assert (code, told["documents"]) == (0, count)
    assert told["next"].startswith("sphinx-build -E ")
    if scope == "all":  # as -E does
        (root / "_build" / "doctrees" / "environment.pickle").unlink()
    output = build(root).output
    assert f"3 documents: {count} changed" in output
    assert "0 texts embedded" in output


@pytest.mark.parametrize("word", ["-1", "soon", "nan", "1e12"])
def test_a_wait_is_a_number_of_seconds(root, answer, word):
    code, envelope = answer("rebuild", "--wait", word)
    assert (code, envelope["error"]) == (2, "usage")
    assert "seconds" in envelope["message"]


def test_status_tells_every_kind_of_run(root, ledger, answer, capsys):
    run = RunRecord("a1", "demo", "sphinx", "2030-01-01T00:00:00+00:00")
    ledger.begin(run)
    code, envelope = answer("status")
    interrupted, first = envelope["data"]["last_runs"]
    assert (code, interrupted["status"], first["status"]) == (0, "interrupted", "succeeded")
    assert first["duration_seconds"] > 0
    ledger.end(
        RunRecord(
            "a2",
            "demo",
            "sphinx",
            "2020-01-01T00:00:00+00:00",
            "2020-01-01T00:02:00+00:00",
            RunState.FAILED,
            "weights_missing",
            report_json='{"message": "no model: fetch it"}',
        )
    )
    ledger.record_failures("demo", "sphinx", {"guide": "unreadable"}, "2020-01-01T00:00:00+00:00")
    assert main(["status"]) == 0
    shown = capsys.readouterr().out
    assert "run a2: failed (weights_missing)" in shown
    assert "took 2 min" in shown
    assert "no model: fetch it" in shown
    assert "run a1: interrupted" in shown
    assert "its process is gone" in shown
    assert "guide: unreadable" in shown
    assert "tried again by the next sphinx-build" in shown
    failure = answer("status")[1]["data"]["failures"][0]
    assert failure["age_seconds"] > 10**7
    assert failure["next_try"] == "the next sphinx-build"


def test_a_cancelled_build_is_red_and_the_next_one_is_what_it_would_have_been(
    root, answer, monkeypatch
):
    changed = {**PAGES, "more": Page("More", [(f"Part {n}", f"text {n}") for n in range(9)])}
    changed["index"] = Page("Demo", [("Intro", "Hello.")], children=["guide", "notes", "more"])
    Project(changed).write(root)
    with monkeypatch.context() as stopping:
        stopping.setattr(RunRequests, "asked", lambda *_: Request.CANCEL)
        stopping.setattr(monitoring, "LOOK_EVERY_S", 0.0)
        ended = build(root)
    assert ended.status == 1
    assert "was cancelled: what it saved is kept" in ended.warnings
    assert answer("status")[1]["data"]["last_runs"][0]["status"] == "canceled"
    ended = build(root)
    assert ended.status == 0
    assert answer("status")[1]["data"]["stores"]["shared"]["documents"] == 3


def test_a_damaged_report_does_not_hide_the_others(root, ledger, answer):
    ledger.end(RunRecord("a1", "demo", "sphinx", "t0", "t1", RunState.SUCCEEDED, report_json="?"))
    code, envelope = answer("status")
    assert (code, envelope["data"]["last_runs"][0]["report"]) == (0, {})
    assert main(["status"]) == 0


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "an unknown time"),
        (0.04, "0.0 s"),
        (59.9, "59.9 s"),
        (60, "1 min"),
        (3600, "1 h"),
        (200_000, "2 d"),
    ],
)
def test_durations_are_shown_in_their_largest_unit(seconds, shown):
    assert shown_duration(seconds) == shown
