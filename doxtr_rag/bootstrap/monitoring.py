"""One run as others see it: its row in the ledger, and what it is asked to do."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from doxtr_rag.bootstrap.locking import Say
from doxtr_rag.core.errors import DoxtrRagError, StoreError
from doxtr_rag.core.ports import Progress
from doxtr_rag.core.runs import (
    UNFORESEEN,
    Counted,
    PauseEndedError,
    Request,
    RunCanceledError,
    RunState,
    RunStoppedError,
)
from doxtr_rag.storage import RunLedger, RunRecord, RunRequests

WRITE_EVERY_S = 1.0
LOOK_EVERY_S = 0.2
PAUSE_LIMIT_S = 3600.0
"""How long a paused run keeps others from writing before it ends by itself."""

SAMPLES = 1000


def utc_now() -> datetime:
    """Return the time of day that ledgers are kept in."""
    return datetime.now(timezone.utc)


def shown_time(moment: datetime) -> str:
    """Return a moment as the ledger has it."""
    return moment.isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class Timing:
    """The clocks of a run: what is written down, what is measured, how it waits."""

    now: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


REAL_TIME = Timing()


class RunMonitor:
    """Satisfies `Progress` and `Control` for one run, whose store's lock the caller holds.

    Nothing is written for a run that never begins and ends well.
    """

    def __init__(
        self,
        ledger: RunLedger,
        requests: RunRequests,
        progress: Progress,
        say: Say,
        timing: Timing = REAL_TIME,
    ) -> None:
        self._ledger = ledger
        self._requests = requests
        self._forward = progress
        self._say = say
        self._timing = timing
        self._pace = _Pace(timing.monotonic)
        self._looked_at = self._written_at = timing.monotonic()
        self._is_begun = self._is_ended = False
        self._run = RunRecord(
            run_id=secrets.token_hex(4),
            project="",
            origin="",
            started=shown_time(timing.now()),
            pid=os.getpid(),
            host=socket.gethostname(),
        )

    @contextmanager
    def recorded(self, project: str, origin: str) -> Iterator[RunMonitor]:
        """Write how the run of a `with` block ends, whichever way that is."""
        self._run = replace(self._run, project=project, origin=origin)
        try:
            yield self
        except RunStoppedError as stopped:
            self._end(stopped.state, stopped.kind, _message(stopped))
            raise
        except DoxtrRagError as error:
            self._end(RunState.FAILED, error.kind, _message(error))
            raise
        except KeyboardInterrupt:
            self._end(RunState.INTERRUPTED, "", {"message": "interrupted from the keyboard"})
            raise
        finally:
            if self._is_begun and not self._is_ended:
                self._end(RunState.FAILED, UNFORESEEN, {"message": "an error nobody foresaw"})

    @property
    def is_begun(self) -> bool:
        """Say whether the run found something to do."""
        return self._is_begun

    def begin(self) -> None:
        """Write down that the run is at work."""
        self._is_begun = True
        with suppress(StoreError):  # what the ledger cannot take must not end the run
            self._requests.clear()
            self._ledger.begin(self._run)

    def finish(self, report: Mapping[str, object], *, is_complete: bool) -> None:
        """Write down what the run did.

        Raises:
            StoreError: the ledger cannot be written.
        """
        state = RunState.SUCCEEDED if is_complete else RunState.FAILED
        self._ledger.end(self._ended(state, "" if is_complete else "incomplete", report))
        self._is_ended = True

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Report progress, to the ledger once a second at most."""
        self._forward(phase, done, total)
        self._pace.note(phase, done)
        moved = shown_time(self._timing.now())
        progress = replace(self._run.progress, phase=phase, done=done, total=total, moved=moved)
        self._run = replace(self._run, progress=progress)
        now = self._timing.monotonic()
        if self._is_begun and now - self._written_at >= WRITE_EVERY_S:
            self._written_at = now
            rate, median = self._pace.sample()
            self._run = replace(
                self._run, progress=replace(progress, rate=rate, median_rate=median)
            )
            self._write_state(RunState.RUNNING)

    def count(self, kind: Counted, more: int) -> None:
        """Add to what the run has done so far."""
        progress = self._run.progress
        changed = {kind: getattr(progress, kind) + more}
        self._run = replace(self._run, progress=replace(progress, **changed))

    def checkpoint(self, settle: Callable[[], None] | None = None) -> None:
        """Do what somebody asked of this run, if anybody did.

        Raises:
            RunCanceledError: it was to end.
            PauseEndedError: it was to wait, and nobody let it go on.
        """
        now = self._timing.monotonic()
        if not self._is_begun or now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        request = self._requests.asked(self._run.run_id)
        if request is None:
            return
        if request is not Request.RESUME and settle is not None:
            settle()
        if request is Request.PAUSE:
            request = self._wait()
        self._clear()
        if request is Request.CANCEL:
            raise RunCanceledError(
                f"run {self._run.run_id} was cancelled: what it saved is kept, and the next "
                "sphinx-build goes on from there"
            )

    def _wait(self) -> Request | None:
        """Wait until something else is asked, and return that."""
        self._write_state(RunState.PAUSED)
        run_id = self._run.run_id
        self._say(f"doxtr_rag: run {run_id} is paused: doxtr-rag resume {run_id} lets it go on")
        deadline = self._timing.monotonic() + PAUSE_LIMIT_S
        while (request := self._requests.asked(run_id)) is Request.PAUSE:
            if self._timing.monotonic() >= deadline:
                self._clear()
                raise PauseEndedError(
                    f"run {run_id} was paused for {PAUSE_LIMIT_S / 60:.0f} minutes and has ended, "
                    "so that others can write: what it saved is kept, and the next sphinx-build "
                    "goes on from there"
                )
            self._timing.sleep(LOOK_EVERY_S)
        if request is not Request.CANCEL:
            self._say(f"doxtr_rag: run {run_id} goes on")
            self._pace.restart()
            moved = replace(self._run.progress, moved=shown_time(self._timing.now()))
            self._run = replace(self._run, progress=moved)
            self._write_state(RunState.RUNNING)
        return request

    def _clear(self) -> None:
        with suppress(StoreError):
            self._requests.clear()

    def _write_state(self, state: RunState) -> None:
        with suppress(StoreError):
            self._ledger.advance(self._run.run_id, state, self._run.progress)

    def _end(self, state: RunState, error_kind: str, report: Mapping[str, object]) -> None:
        self._is_ended = True
        with suppress(StoreError):  # the ledger may be what failed
            self._ledger.end(self._ended(state, error_kind, report))

    def _ended(self, state: RunState, error_kind: str, report: Mapping[str, object]) -> RunRecord:
        return replace(
            self._run,
            state=state,
            error_kind=error_kind,
            finished=shown_time(self._timing.now()),
            report_json=json.dumps(report),
        )


class _Pace:
    """The rate of the phase under way, and the median of its rates so far."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._phase = ""
        self._done = 0
        self._since: tuple[float, int] | None = None
        self._rates: list[float] = []

    def note(self, phase: str, done: int) -> None:
        """Take in how far a phase is."""
        if phase != self._phase:
            self._phase, self._rates, self._since = phase, [], None
        self._done = done
        if self._since is None:
            self._since = (self._monotonic(), done)

    def restart(self) -> None:
        """Leave out the time since the last sample."""
        self._since = None

    def sample(self) -> tuple[float, float]:
        """Return the rate since the last sample, and the median of all."""
        now = self._monotonic()
        began, done = self._since or (now, self._done)
        self._since = (now, self._done)
        if now > began:
            self._rates = [*self._rates[1 - SAMPLES :], (self._done - done) / (now - began)]
        if not self._rates:
            return 0.0, 0.0
        return self._rates[-1], sorted(self._rates)[len(self._rates) // 2]


def _message(error: DoxtrRagError) -> dict[str, object]:
    return {"error": error.kind, "message": str(error)}
