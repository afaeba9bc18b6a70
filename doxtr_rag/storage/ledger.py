"""What runs did and which documents failed; kept in the private corpus."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from doxtr_rag.storage.database import Database, open_for_reading

KEPT_RUNS = 200


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One finished run; times are ISO 8601, the report is JSON."""

    project: str
    origin: str
    started: str
    finished: str
    status: str
    report_json: str


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """A document that could not be read, and since when."""

    project: str
    origin: str
    document: str
    reason: str
    since: str


class RunLedger:
    """The runs and failures of one corpus."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record_run(self, run: RunRecord) -> None:
        """Add a run; the oldest beyond `KEPT_RUNS` go."""
        with self._database.writing() as connection:
            connection.execute(
                "INSERT INTO runs (project, origin, started, finished, status, report) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (run.project, run.origin, run.started, run.finished, run.status, run.report_json),
            )
            connection.execute(
                "DELETE FROM runs WHERE seq <= (SELECT max(seq) FROM runs) - ?", (KEPT_RUNS,)
            )

    def last_runs(self, count: int) -> list[RunRecord]:
        """Return the latest runs, the last one first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT project, origin, started, finished, status, report FROM runs "
                "ORDER BY seq DESC LIMIT ?",
                (count,),
            ).fetchall()
        return [RunRecord(*row) for row in rows]

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
