"""Runs that change a knowledge base: their states, how far they are, and who may stop them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Literal, Protocol

from doxtr_rag.core.errors import DoxtrRagError

Counted = Literal["embedded", "reused", "skipped", "failed"]

NO_PROGRESS = "no_progress"
"""The error kind of a run that has not moved for too long (retrieval R43)."""

UNFORESEEN = "unforeseen"
"""The error kind of a run that ended by an exception nobody expected."""


class RunState(Enum):
    """What has become of a run (retrieval R42)."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    CANCELING = "canceling"
    CANCELED = "canceled"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    SUPERSEDED = "superseded"


AT_WORK = frozenset({RunState.RUNNING, RunState.PAUSED})
"""States that a run writes down while its process lives."""


class Request(Enum):
    """What somebody may ask of a run."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


_ASKED = {
    (RunState.RUNNING, Request.PAUSE): RunState.PAUSING,
    (RunState.RUNNING, Request.CANCEL): RunState.CANCELING,
    (RunState.PAUSED, Request.CANCEL): RunState.CANCELING,
}


class Health(Enum):
    """How a run that is at work gets on (retrieval R43)."""

    STEADY = "steady"
    DEGRADED = "degraded"
    STALLED = "stalled"
    STUCK = "stuck"
    """It counts as failed, though its process lives."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is; `moved` is the ISO 8601 time of its last progress, rates are a second's."""

    phase: str = ""
    done: int = 0
    total: int = 0
    embedded: int = 0
    reused: int = 0
    skipped: int = 0
    failed: int = 0
    rate: float = 0.0
    median_rate: float = 0.0
    moved: str = ""


@dataclass(frozen=True, slots=True)
class Clocks:
    """After how many seconds without progress a run is called what."""

    degraded_s: float = 60.0
    stalled_s: float = 300.0
    failed_s: float = 900.0
    slow: float = 0.25
    """The share of its own median rate below which a run is degraded."""


def health(progress: RunProgress, started: datetime, now: datetime, clocks: Clocks) -> Health:
    """Judge a run by the time that has passed since it moved, and by its rate."""
    moved = datetime.fromisoformat(progress.moved) if progress.moved else started
    quiet_s = (now - moved).total_seconds()
    if quiet_s >= clocks.failed_s:
        return Health.STUCK
    if quiet_s >= clocks.stalled_s:
        return Health.STALLED
    is_slow = progress.rate < clocks.slow * progress.median_rate
    return Health.DEGRADED if quiet_s >= clocks.degraded_s or is_slow else Health.STEADY


def state_seen(recorded: RunState, *, is_alive: bool, request: Request | None) -> RunState:
    """Return the state of a run as a reader sees it, who knows more than what it wrote last."""
    if recorded not in AT_WORK:
        return recorded
    if not is_alive:
        return RunState.INTERRUPTED
    return recorded if request is None else _ASKED.get((recorded, request), recorded)


class RunStoppedError(DoxtrRagError):
    """A run was ended because somebody asked for it; `state` is how it ended."""

    state = RunState.CANCELED


class RunCanceledError(RunStoppedError):
    """A run was cancelled."""

    kind = "canceled"


class PauseEndedError(RunStoppedError):
    """A run was paused for longer than it may keep others from writing."""

    kind = "paused"
    state = RunState.PAUSED


class Control(Protocol):
    """Who may stop a run, and is told what it does; a run calls it where it can be left as it is.

    It is never called inside a transaction, nor before withdrawals that are due.
    """

    def begin(self) -> None:
        """Note that there is something to do: a run that changes nothing never calls this."""
        ...

    def checkpoint(self, settle: Callable[[], None] | None = None) -> None:
        """Return when the run may go on; `settle` is called before it waits or stops.

        Raises:
            RunStoppedError: it may not; what it saved so far is kept.
        """
        ...

    def count(self, kind: Counted, more: int) -> None:
        """Add to what the run has done so far."""
        ...


class Uncontrolled:
    """A control that never stops anything."""

    def begin(self) -> None:
        """Do nothing."""

    def checkpoint(self, settle: Callable[[], None] | None = None) -> None:
        """Return at once."""

    def count(self, kind: Counted, more: int) -> None:
        """Forget it."""
