"""One run in the ledger: when it is written, how it is stopped, with clocks that a test moves."""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

import pytest

from doxtr_rag.bootstrap.monitoring import PAUSE_LIMIT_S, RunMonitor, Timing
from doxtr_rag.core.errors import StoreUnavailableError, WeightsMissingError
from doxtr_rag.core.runs import PauseEndedError, Request, RunCanceledError, RunState
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import RunRequests, open_store
from doxtr_rag.testing import ProgressLog

START = datetime(2030, 1, 1, tzinfo=timezone.utc)


@dataclass
class World:
    """A private store, a monitor of one run in it, and a clock."""

    store: object
    requests: RunRequests
    seconds: float = 0.0
    said: list = field(default_factory=list)
    shown: ProgressLog = field(default_factory=ProgressLog)
    while_asleep: list = field(default_factory=list)

    def __post_init__(self):
        timing = Timing(self.now, lambda: self.seconds, self.sleep)
        ledger = self.store.ledger
        self.monitor = RunMonitor(ledger, self.requests, self.shown, self.said.append, timing)

    def now(self):
        return START + timedelta(seconds=self.seconds)

    def sleep(self, seconds):
        self.seconds += seconds
        if self.while_asleep:
            self.while_asleep.pop(0)()

    @property
    def run(self):
        return self.store.ledger.last_runs(1)[0]

    def ask(self, request):
        self.requests.ask(self.run.run_id, request)

    def pass_by(self, seconds=1.0):
        self.seconds += seconds


@pytest.fixture
def world(tmp_path):
    with open_store(tmp_path / "private", Scope.LOCAL_PRIVATE, "private") as store:
        yield World(store, RunRequests(store.folder))


def fail_in_a_run(world, error):
    with world.monitor.recorded("demo", "sphinx") as monitor:
        monitor.begin()
        raise error


def ask_in_a_run(world, request, settle=None):
    with world.monitor.recorded("demo", "sphinx") as monitor:
        monitor.begin()
        world.ask(request)
        world.pass_by()
        monitor.checkpoint(settle=settle)


def test_a_run_that_does_nothing_leaves_nothing(world):
    with world.monitor.recorded("demo", "sphinx") as monitor:
        monitor("chunking", 1, 1)
        world.pass_by(5)
        monitor.checkpoint()
    assert world.store.ledger.last_runs(1) == []


def test_a_run_is_written_when_it_begins_and_when_it_ends(world):
    with world.monitor.recorded("demo", "sphinx") as monitor:
        monitor.begin()
        run = world.run
        assert (run.state, run.finished, run.project, run.origin) == (
            RunState.RUNNING,
            "",
            "demo",
            "sphinx",
        )
        assert run.started == "2030-01-01T00:00:00.000+00:00"
        world.pass_by(2.5)
        monitor.finish({"embedded": 3}, is_complete=True)
    assert (world.run.state, world.run.error_kind) == (RunState.SUCCEEDED, "")
    assert world.run.finished == "2030-01-01T00:00:02.500+00:00"
    assert json.loads(world.run.report_json) == {"embedded": 3}


def test_a_run_with_failures_has_failed(world):
    with world.monitor.recorded("demo", "sphinx") as monitor:
        monitor.begin()
        monitor.finish({"failures": {"a": "unreadable"}}, is_complete=False)
    assert (world.run.state, world.run.error_kind) == (RunState.FAILED, "incomplete")


@pytest.mark.parametrize(
    ("error", "state", "kind"),
    [
        (WeightsMissingError("no model"), RunState.FAILED, "weights_missing"),
        (RuntimeError("a bug"), RunState.FAILED, "unforeseen"),
        (KeyboardInterrupt(), RunState.INTERRUPTED, ""),
        (SystemExit(1), RunState.FAILED, "unforeseen"),
    ],
)
def test_however_a_run_ends_it_is_written(world, error, state, kind):
    with pytest.raises(type(error)):
        fail_in_a_run(world, error)
    assert (world.run.state, world.run.error_kind) == (state, kind)
    assert world.run.finished


def test_a_run_that_failed_before_it_began_is_written(world):
    with pytest.raises(WeightsMissingError), world.monitor.recorded("demo", "sphinx"):
        raise WeightsMissingError("no model")
    assert world.run.error_kind == "weights_missing"


def test_progress_is_written_once_a_second(world):
    with world.monitor.recorded("demo", "sphinx") as monitor:
        monitor.begin()
        for done in range(1, 31):
            world.pass_by(0.1)
            monitor.count("embedded", 2)
            monitor("embedding", done, 30)
        monitor.finish({}, is_complete=True)
        assert len(world.shown.reports) == 30
    progress = world.run.progress
    assert (progress.phase, progress.done, progress.total) == ("embedding", 30, 30)
    assert (progress.embedded, progress.reused) == (60, 0)
    assert progress.rate == pytest.approx(10.0)
    assert progress.median_rate == pytest.approx(10.0)


def test_a_slow_second_shows_beside_the_median(world):
    with world.monitor.recorded("demo", "sphinx") as monitor:
        monitor.begin()
        for done in range(10, 60, 10):
            world.pass_by(1)
            monitor("embedding", done, 100)
        world.pass_by(10)
        monitor("embedding", 51, 100)
        assert world.run.progress.median_rate == pytest.approx(10.0)
        assert world.run.progress.rate == pytest.approx(0.1)
        monitor.finish({}, is_complete=True)


def test_a_cancelled_run_settles_and_ends(world):
    settled = []
    with pytest.raises(RunCanceledError, match="goes on from there") as raised:
        ask_in_a_run(world, Request.CANCEL, settle=lambda: settled.append(1))
    assert settled == [1]
    assert (raised.value.kind, raised.value.exit_code) == ("canceled", 1)
    assert world.run.state is RunState.CANCELED
    assert world.requests.asked(world.run.run_id) is None


def test_a_request_to_another_run_is_not_heeded(world):
    with world.monitor.recorded("demo", "sphinx") as monitor:
        monitor.begin()
        world.requests.ask("another", Request.CANCEL)
        world.pass_by()
        monitor.checkpoint()
        monitor.finish({}, is_complete=True)


def test_a_request_that_was_left_behind_goes_when_a_run_begins(world):
    world.requests.ask("earlier", Request.CANCEL)
    with world.monitor.recorded("demo", "sphinx") as monitor:
        monitor.begin()
        assert world.requests.asked("earlier") is None
        monitor.finish({}, is_complete=True)


def test_a_paused_run_settles_waits_and_goes_on(world):
    seen = []
    world.while_asleep = [
        lambda: seen.append(world.run.state),
        lambda: world.ask(Request.RESUME),
    ]
    with world.monitor.recorded("demo", "sphinx") as monitor:
        monitor.begin()
        monitor("embedding", 1, 9)
        world.ask(Request.PAUSE)
        world.pass_by()
        monitor.checkpoint(settle=lambda: seen.append("settled"))
        assert seen == ["settled", RunState.PAUSED]
        assert world.run.state is RunState.RUNNING
        assert world.run.progress.moved == world.now().isoformat(timespec="milliseconds")
        monitor.finish({}, is_complete=True)
    assert "is paused: doxtr-rag resume" in world.said[0]
    assert "goes on" in world.said[1]
    assert world.requests.asked(world.run.run_id) is None


def test_a_paused_run_can_be_cancelled(world):
    world.while_asleep = [lambda: world.ask(Request.CANCEL)]
    with pytest.raises(RunCanceledError):
        ask_in_a_run(world, Request.PAUSE)
    assert world.run.state is RunState.CANCELED


def test_a_pause_has_an_end(world):
    with pytest.raises(PauseEndedError, match="60 minutes") as raised:
        ask_in_a_run(world, Request.PAUSE)
    assert raised.value.kind == "paused"
    assert world.run.state is RunState.PAUSED
    assert PAUSE_LIMIT_S <= world.seconds <= PAUSE_LIMIT_S + 5


def test_requests_are_looked_for_seldom(world, monkeypatch):
    looks = []
    asked = world.requests.asked
    monkeypatch.setattr(RunRequests, "asked", lambda _, run: looks.append(run) or asked(run))
    with world.monitor.recorded("demo", "sphinx") as monitor:
        monitor.begin()
        for _ in range(1000):
            world.pass_by(0.001)
            monitor.checkpoint()
        monitor.finish({}, is_complete=True)
    assert len(looks) in {4, 5}


def test_a_ledger_that_cannot_be_written_does_not_end_a_run(world, monkeypatch):
    def full(*_):
        raise StoreUnavailableError("the disk is full")

    ledger = type(world.store.ledger)
    monkeypatch.setattr(ledger, "begin", full)
    monkeypatch.setattr(ledger, "advance", full)
    with world.monitor.recorded("demo", "sphinx") as monitor:
        monitor.begin()
        world.pass_by(2)
        monitor("embedding", 1, 2)
        monitor.finish({}, is_complete=True)
    assert world.run.state is RunState.SUCCEEDED
