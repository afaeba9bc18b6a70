"""The ledger as a reader sees it: who lives, what was asked, how long ago, with a clock of ours."""

import dataclasses
import os
import socket
from datetime import datetime, timedelta, timezone

import pytest

from doxtr_rag.bootstrap.monitoring import shown_time
from doxtr_rag.bootstrap.runs_seen import seen_ledger
from doxtr_rag.core.runs import Health, Request, RunProgress, RunState
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import RunRecord, RunRequests, StoreLock, open_store


def now():
    return datetime.now(timezone.utc)


def at_work(**changes):
    run = RunRecord(
        run_id="one",
        project="demo",
        origin="sphinx",
        started=shown_time(now()),
        pid=os.getpid(),
        host=socket.gethostname(),
    )
    return dataclasses.replace(run, **changes)


@pytest.fixture
def folder(project):
    return project.settings.store_path(Scope.LOCAL_PRIVATE)


@pytest.fixture
def held(folder):
    with StoreLock(folder).acquired(0, print):
        yield


@pytest.fixture
def write(folder):
    def write(run, **ended):
        with open_store(folder, Scope.LOCAL_PRIVATE, "private") as store:
            store.ledger.begin(run)
            if ended:
                store.ledger.end(dataclasses.replace(run, **ended))

    return write


def last(project, later_s=0.0):
    return seen_ledger(project, 1, now() + timedelta(seconds=later_s))[0][0]


def test_before_the_first_build_there_is_nothing(project):
    assert seen_ledger(project, 5) == ([], [])


def test_a_run_lives_as_long_as_its_lock_is_held(project, folder, write):
    with StoreLock(folder).acquired(0, print):
        write(at_work())
        assert (last(project).state, last(project).health) == (RunState.RUNNING, Health.STEADY)
    assert (last(project).state, last(project).health) == (RunState.INTERRUPTED, None)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda: at_work(pid=os.getppid()), id="another-process"),
        pytest.param(lambda: at_work(host="elsewhere"), id="another-machine"),
        pytest.param(
            lambda: at_work(started=shown_time(now() - timedelta(hours=1))),
            id="an-earlier-run-of-this-process",
        ),
        pytest.param(lambda: at_work(started="t0"), id="no-time"),
    ],
)
@pytest.mark.usefixtures("held")
def test_a_lock_that_somebody_else_holds_keeps_no_run_alive(project, write, run):
    write(run())
    assert last(project).state is RunState.INTERRUPTED


@pytest.mark.parametrize(
    ("later_s", "health", "state", "kind"),
    [
        (30, Health.STEADY, RunState.RUNNING, ""),
        (90, Health.DEGRADED, RunState.RUNNING, ""),
        (330, Health.STALLED, RunState.RUNNING, ""),
        (930, Health.STUCK, RunState.FAILED, "no_progress"),
    ],
)
@pytest.mark.usefixtures("held")
def test_a_quiet_run_is_reported(project, write, later_s, health, state, kind):
    write(at_work())
    run = last(project, later_s)
    assert (run.health, run.state, run.error_kind) == (health, state, kind)
    assert run.duration_s == pytest.approx(later_s, abs=5)


@pytest.mark.usefixtures("held")
def test_the_last_clock_is_a_variable(project, write):
    write(at_work())
    environment = dataclasses.replace(project.environment, index_no_progress_timeout_s=20.0)
    patient = dataclasses.replace(project, environment=environment)
    assert last(patient, 30).state is RunState.FAILED


@pytest.mark.usefixtures("held")
def test_a_paused_run_is_quiet_by_intention(project, folder, write):
    write(at_work())
    with open_store(folder, Scope.LOCAL_PRIVATE, "private") as store:
        store.ledger.advance("one", RunState.PAUSED, RunProgress())
    run = last(project, 2000)
    assert (run.state, run.health) == (RunState.PAUSED, Health.STEADY)


@pytest.mark.usefixtures("held")
def test_what_was_asked_of_a_run_shows(project, folder, write):
    write(at_work())
    for request, state in (
        (Request.PAUSE, RunState.PAUSING),
        (Request.CANCEL, RunState.CANCELING),
        (Request.RESUME, RunState.RUNNING),
    ):
        RunRequests(folder).ask("one", request)
        assert last(project).state is state
    RunRequests(folder).ask("another", Request.CANCEL)
    assert last(project).state is RunState.RUNNING


def test_a_run_that_ended_has_a_duration_and_an_age(project, write):
    started = now() - timedelta(seconds=100)
    ended = shown_time(started + timedelta(seconds=40))
    write(at_work(started=shown_time(started)), finished=ended, state=RunState.SUCCEEDED)
    run = last(project)
    assert (run.state, run.is_alive) == (RunState.SUCCEEDED, False)
    assert run.duration_s == pytest.approx(40, abs=0.1)
    assert run.age_s == pytest.approx(60, abs=5)


def test_a_run_that_died_has_lasted_until_it_last_moved(project, write):
    started = now() - timedelta(seconds=100)
    moved = RunProgress(moved=shown_time(started + timedelta(seconds=10)))
    write(at_work(started=shown_time(started), progress=moved))
    assert last(project).duration_s == pytest.approx(10, abs=0.1)
    assert last(project).age_s == pytest.approx(90, abs=5)


def test_failures_have_an_age_and_a_next_try(project, folder):
    since = shown_time(now() - timedelta(hours=2))
    with open_store(folder, Scope.LOCAL_PRIVATE, "private") as store:
        store.ledger.record_failures("demo", "sphinx", {"a": "unreadable"}, since)
        store.ledger.record_failures("demo", "sphinx2", {"b": "unreadable"}, "t0")
    known, odd = seen_ledger(project, 1)[1]
    assert known.age_s == pytest.approx(7200, abs=5)
    assert known.next_try == "the next sphinx-build"
    assert odd.age_s is None
