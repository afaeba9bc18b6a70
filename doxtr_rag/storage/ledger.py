"""What runs do and did, and which documents failed; kept in the private corpus."""

from __future__ import annotations

import dataclasses as dc
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from doxtr_rag.core.runs import AT_WORK, RunProgress, RunState
from doxtr_rag.storage.database import Database, open_for_reading

KEPT_RUNS = 200
NOT_MOVED = RunProgress()
_COLUMNS = (
    "run_id, project, origin, started, finished, status, error_kind, pid, host, progress, report"
)
_UNFINISHED = ", ".join(f"'{state.value}'" for state in AT_WORK)


@dc.dataclass(frozen=True, slots=True)
class RunRecord:
    """One run; times are ISO 8601, `finished` is "" while it is at work, the report is JSON."""

    run_id: str
    project: str
    origin: str
    started: str
    finished: str = ""
    state: RunState = RunState.RUNNING
    error_kind: str = ""
    pid: int = 0
    host: str = ""
    progress: RunProgress = NOT_MOVED
    report_json: str = "{}"


@dc.dataclass(frozen=True, slots=True)
class FailureRecord:
    """A document that could not be read, and since when."""

    project: str
    origin: str
    document: str
    reason: str
    since: str


class RunLedger:
    """The runs and failures of one corpus; who writes holds the lock of its store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, run: RunRecord) -> None:
        """Add a run that is at work; the oldest beyond `KEPT_RUNS` go.

        Whatever else says that it is at work was interrupted, since the lock is ours.
        """
        with self._database.writing() as connection:
            connection.execute(
                f"UPDATE runs SET status = ?, finished = coalesce(nullif(CASE WHEN "  # noqa: S608 - constants
                "json_valid(progress) THEN json_extract(progress, '$.moved') END, ''), started) "
                f"WHERE status IN ({_UNFINISHED})",
                (RunState.INTERRUPTED.value,),
            )
            _write(connection, run)

    def advance(self, run_id: str, state: RunState, progress: RunProgress) -> None:
        """Note how far a run is."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE runs SET status = ?, progress = ? WHERE run_id = ?",
                (state.value, json.dumps(dc.asdict(progress)), run_id),
            )

    def end(self, run: RunRecord) -> None:
        """Write how a run ended, whether its beginning was written or not."""
        with self._database.writing() as connection:
            _write(connection, run)

    def last_runs(self, count: int) -> list[RunRecord]:
        """Return the latest runs, the last one first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM runs ORDER BY seq DESC LIMIT ?",  # noqa: S608 - constants
                (count,),
            ).fetchall()
        return [_record(*row) for row in rows]

    def known_pace(self) -> float | None:
        """Return the seconds that a text took the model in the latest run that embedded some."""
        for run in self.last_runs(KEPT_RUNS):
            try:
                reuse = json.loads(run.report_json)["reuse"]
                texts, seconds = int(reuse["misses"]), float(reuse["embedding_seconds"])
            except (ValueError, KeyError, TypeError):
                continue
            if texts > 0 and seconds > 0:
                return seconds / texts
        return None

    def record_failures(
        self, project: str, origin: str, reasons: Mapping[str, str], now: str | None = None
    ) -> None:
        """Replace the failures of a project and origin; one that stays keeps its `since`."""
        seen = now or datetime.now(timezone.utc).isoformat(timespec="seconds")
        with self._database.writing() as connection:
            since = dict(
                connection.execute(
                    "SELECT document, since FROM failures WHERE project = ? AND origin = ?",
                    (project, origin),
                ).fetchall()
            )
            connection.execute(
                "DELETE FROM failures WHERE project = ? AND origin = ?", (project, origin)
            )
            connection.executemany(
                "INSERT INTO failures (project, origin, document, reason, since) "
                "VALUES (?, ?, ?, ?, ?)",
                (
                    (project, origin, document, reason, since.get(document, seen))
                    for document, reason in reasons.items()
                ),
            )

    def failures(self) -> list[FailureRecord]:
        """Return what fails, by project, origin and document."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT project, origin, document, reason, since FROM failures "
                "ORDER BY project, origin, document"
            ).fetchall()
        return [FailureRecord(*row) for row in rows]


def read_ledger(folder: Path, runs: int) -> tuple[list[RunRecord], list[FailureRecord]]:
    """Return the latest runs and the failures of a store that is not open.

    Raises:
        IndexNotBuiltError: nothing was ever stored there.
        StoreError: the corpus cannot be read.
    """
    with closing(open_for_reading(folder)) as database:
        ledger = RunLedger(database)
        return ledger.last_runs(runs), ledger.failures()


def _write(connection: sqlite3.Connection, run: RunRecord) -> None:
    connection.execute(
        f"INSERT INTO runs ({_COLUMNS}) VALUES ({', '.join('?' * 11)}) "  # noqa: S608 - constants
        "ON CONFLICT (run_id) DO UPDATE SET finished = excluded.finished, "
        "status = excluded.status, error_kind = excluded.error_kind, "
        "progress = excluded.progress, report = excluded.report",
        (
            run.run_id,
            run.project,
            run.origin,
            run.started,
            run.finished,
            run.state.value,
            run.error_kind,
            run.pid,
            run.host,
            json.dumps(dc.asdict(run.progress)),
            run.report_json,
        ),
    )
    connection.execute(
        "DELETE FROM runs WHERE seq <= (SELECT max(seq) FROM runs) - ?", (KEPT_RUNS,)
    )


def _record(*row: Any) -> RunRecord:
    run_id, project, origin, started, finished, status, kind, pid, host, progress, report = row
    return RunRecord(
        run_id=run_id,
        project=project,
        origin=origin,
        started=started,
        finished=finished,
        state=RunState(status),
        error_kind=kind,
        pid=pid,
        host=host,
        progress=RunProgress(**json.loads(progress)),
        report_json=report,
    )
