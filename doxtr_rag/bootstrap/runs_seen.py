"""The run ledger as a reader sees it: who still lives, how long it took, how it gets on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from doxtr_rag.bootstrap.monitoring import utc_now
from doxtr_rag.bootstrap.project import Project
from doxtr_rag.bootstrap.retrying import retrier
from doxtr_rag.core.errors import IndexNotBuiltError
from doxtr_rag.core.runs import (
    AT_WORK,
    NO_PROGRESS,
    Clocks,
    Health,
    RunState,
    health,
    state_seen,
)
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import (
    FailureRecord,
    LockHolder,
    RunRecord,
    RunRequests,
    lock_holder,
    read_ledger,
)


@dataclass(frozen=True, slots=True)
class RunSeen:
    """A run and what a reader knows beyond what it wrote.

    `health` is None unless the run is at work; `age_s` is the time since it ended, or 0.
    """

    record: RunRecord
    state: RunState
    error_kind: str
    health: Health | None
    duration_s: float | None
    age_s: float

    @property
    def is_alive(self) -> bool:
        """Say whether a process is at work on it."""
        return self.health is not None


@dataclass(frozen=True, slots=True)
class FailureSeen:
    """A document that failed, for how long, and when it is tried again."""

    record: FailureRecord
    age_s: float | None
    next_try: str


def seen_ledger(
    project: Project, runs: int, now: datetime | None = None
) -> tuple[list[RunSeen], list[FailureSeen]]:
    """Return the latest runs, the last one first, and what fails; nothing before the first build.

    Raises:
        StoreError: the ledger cannot be read.
    """
    moment = now or utc_now()
    try:
        records, failures = read_ledger(project.settings.store_path(Scope.LOCAL_PRIVATE), runs)
    except IndexNotBuiltError:
        return [], []
    seen = [run_seen(project, record, moment) for record in records]
    return seen, [
        FailureSeen(failure, _seconds(failure.since, moment), retrier(failure.origin).next_try)
        for failure in failures
    ]


def run_seen(project: Project, record: RunRecord, now: datetime) -> RunSeen:
    """Look at one run."""
    folder = project.settings.store_path(Scope.LOCAL_PRIVATE)
    is_alive = record.state in AT_WORK and _is_held_by(record, lock_holder(folder))
    request = RunRequests(folder).asked(record.run_id) if is_alive else None
    state = state_seen(record.state, is_alive=is_alive, request=request)
    condition = _health(project, record, now) if is_alive else None
    is_stuck = condition is Health.STUCK and record.state is RunState.RUNNING
    ended = record.finished or (record.progress.moved or record.started if not is_alive else "")
    return RunSeen(
        record=record,
        state=RunState.FAILED if is_stuck else state,
        error_kind=NO_PROGRESS if is_stuck else record.error_kind,
        health=condition,
        duration_s=_between(record.started, ended, now),
        age_s=_seconds(ended, now) or 0.0 if ended else 0.0,
    )


def _health(project: Project, record: RunRecord, now: datetime) -> Health:
    if record.state is RunState.PAUSED:
        return Health.STEADY
    clocks = Clocks(failed_s=project.environment.index_no_progress_timeout_s)
    return health(record.progress, datetime.fromisoformat(record.started), now, clocks)


def _is_held_by(record: RunRecord, holder: LockHolder | None) -> bool:
    """Say whether the process that wrote a run still holds the lock it wrote it under.

    A lock goes with its process, whatever ends it. Another one, or the same process in a later
    run, took it after this run began.
    """
    if holder is None or (holder.pid, holder.host) != (record.pid, record.host):
        return False
    taken, began = _moment(holder.started), _moment(record.started)
    return taken is not None and began is not None and taken <= began


def _between(start: str, end: str, now: datetime) -> float | None:
    began, ended = _moment(start), _moment(end) if end else now
    return None if began is None or ended is None else max(0.0, (ended - began).total_seconds())


def _seconds(since: str, now: datetime) -> float | None:
    return _between(since, "", now)


def _moment(text: str) -> datetime | None:
    """Return a time of the ledger; None for what another version may have written."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None
