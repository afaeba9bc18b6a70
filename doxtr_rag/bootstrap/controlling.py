"""Asking a run that is at work to wait, to go on, or to end."""

from __future__ import annotations

import time
from collections.abc import Callable

from doxtr_rag.bootstrap.project import Project
from doxtr_rag.bootstrap.runs_seen import RunSeen, seen_ledger
from doxtr_rag.core.errors import DoxtrRagError
from doxtr_rag.core.runs import Request, RunState
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import RunRequests

RUNS_LOOKED_AT = 50
POLL_S = 0.1
_UNDER_WAY = {
    Request.PAUSE: {RunState.RUNNING, RunState.PAUSING},
    Request.RESUME: {RunState.PAUSED, RunState.PAUSING},
    Request.CANCEL: {RunState.RUNNING, RunState.PAUSED, RunState.PAUSING, RunState.CANCELING},
}
"""The states that a request is there to end."""


class RunNotFoundError(DoxtrRagError):
    """No run of that name is at work."""

    kind = "no_run"


def request(
    project: Project,
    wanted: Request,
    run_id: str | None,
    wait_s: float,
    sleep: Callable[[float], None] = time.sleep,
) -> RunSeen:
    """Ask a run, the one at work unless one is named; return what it is after so many seconds.

    A run heeds it at its next checkpoint. One that is cancelled already is not held up.

    Raises:
        RunNotFoundError: it is not at work.
        StoreError: the ledger cannot be read, or the request not be left.
    """
    run = _at_work(project, run_id)
    name = run.record.run_id
    if wanted is not Request.CANCEL and run.state is RunState.CANCELING:
        raise RunNotFoundError(
            f"run {name} is being cancelled: doxtr-rag status shows when it ends"
        )
    if run.state in _UNDER_WAY[wanted] or run.state is RunState.FAILED:
        RunRequests(project.settings.store_path(Scope.LOCAL_PRIVATE)).ask(name, wanted)
    deadline = time.monotonic() + wait_s
    while run.state in _UNDER_WAY[wanted] and time.monotonic() < deadline:
        sleep(POLL_S)
        run = _named(project, name)
    return _named(project, name)


def _at_work(project: Project, run_id: str | None) -> RunSeen:
    runs, _ = seen_ledger(project, RUNS_LOOKED_AT)
    if run_id is None:
        alive = [run for run in runs if run.is_alive]
        if not alive:
            raise RunNotFoundError("no run is at work: doxtr-rag status shows the last ones")
        return alive[0]
    run = _named(project, run_id)
    if not run.is_alive:
        raise RunNotFoundError(
            f"run {run_id} is {run.state.value} and has ended: sphinx-build starts another, which "
            "goes on where it stopped"
        )
    return run


def _named(project: Project, run_id: str) -> RunSeen:
    runs, _ = seen_ledger(project, RUNS_LOOKED_AT)
    found = [run for run in runs if run.record.run_id == run_id]
    if not found:
        raise RunNotFoundError(f"no run is called {run_id}: doxtr-rag status names the last ones")
    return found[0]
