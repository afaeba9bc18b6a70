"""What a reader makes of a run: its state by who lives and what was asked, its health by clocks."""

from datetime import datetime, timedelta, timezone

import pytest

from doxtr_rag.core.runs import (
    AT_WORK,
    Clocks,
    Health,
    Request,
    RunProgress,
    RunState,
    health,
    state_seen,
)

START = datetime(2030, 1, 1, tzinfo=timezone.utc)


def at(seconds):
    return START + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("quiet_s", "expected"),
    [
        (59, Health.STEADY),
        (60, Health.DEGRADED),
        (299, Health.DEGRADED),
        (300, Health.STALLED),
        (899, Health.STALLED),
        (900, Health.STUCK),
    ],
)
def test_a_run_is_judged_by_how_long_it_has_not_moved(quiet_s, expected):
    moved = RunProgress(moved=at(1000).isoformat())
    assert health(moved, START, at(1000 + quiet_s), Clocks()) is expected
    assert health(RunProgress(), START, at(quiet_s), Clocks()) is expected


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(2.4, Health.DEGRADED), (2.5, Health.STEADY), (40.0, Health.STEADY)],
)
def test_a_run_is_slow_below_a_quarter_of_its_own_rate(rate, expected):
    progress = RunProgress(rate=rate, median_rate=10.0, moved=START.isoformat())
    assert health(progress, START, at(1), Clocks()) is expected


def test_the_last_clock_can_be_set():
    assert health(RunProgress(), START, at(31), Clocks(failed_s=30)) is Health.STUCK


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.PAUSED])
@pytest.mark.parametrize("request_", [None, *Request])
def test_a_run_whose_process_is_gone_was_interrupted(state, request_):
    assert state_seen(state, is_alive=False, request=request_) is RunState.INTERRUPTED


@pytest.mark.parametrize("state", sorted(set(RunState) - AT_WORK, key=lambda state: state.value))
def test_a_run_that_ended_stays_what_it_was(state):
    assert state_seen(state, is_alive=False, request=Request.CANCEL) is state


@pytest.mark.parametrize(
    ("recorded", "request_", "expected"),
    [
        (RunState.RUNNING, None, RunState.RUNNING),
        (RunState.RUNNING, Request.PAUSE, RunState.PAUSING),
        (RunState.RUNNING, Request.RESUME, RunState.RUNNING),
        (RunState.RUNNING, Request.CANCEL, RunState.CANCELING),
        (RunState.PAUSED, Request.PAUSE, RunState.PAUSED),
        (RunState.PAUSED, Request.CANCEL, RunState.CANCELING),
    ],
)
def test_what_was_asked_shows_before_it_is_done(recorded, request_, expected):
    assert state_seen(recorded, is_alive=True, request=request_) is expected
