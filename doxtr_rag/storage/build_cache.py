"""What the last successful run stored, by document: a cache, replaced whenever it is doubtful."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypeVar

from doxtr_rag.core.errors import StoreUnavailableError
from doxtr_rag.core.ports import DocumentRecord, RunMark
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage.closing import Closing
from doxtr_rag.storage.private_files import ensure_private, foreseen_os_errors, make_private_folder
from doxtr_rag.storage.sqlite_errors import foreseen_sqlite_errors

logger = logging.getLogger(__name__)

CACHE_VERSION = 1
APPLICATION_ID = 0x44524243
BUSY_TIMEOUT_S = 30.0
Answer = TypeVar("Answer")

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE marks (
    project TEXT, origin TEXT, settings_hash TEXT NOT NULL, revisions TEXT NOT NULL,
    PRIMARY KEY (project, origin)
);
CREATE TABLE documents (
    project TEXT, origin TEXT, document TEXT, input_hash TEXT NOT NULL, scope TEXT NOT NULL,
    chunks INTEGER NOT NULL, source_file TEXT NOT NULL, signals TEXT NOT NULL,
    decided_by TEXT NOT NULL, PRIMARY KEY (project, origin, document)
);
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {CACHE_VERSION};
COMMIT;
"""


class BuildCache(Closing):
    """Remembers runs in one SQLite file of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def mark(self, project: str, origin: str) -> RunMark | None:
        """Return the mark of the last successful run, None when there was none."""

        def read(connection: sqlite3.Connection) -> RunMark | None:
            row = connection.execute(
                "SELECT settings_hash, revisions FROM marks WHERE project = ? AND origin = ?",
                (project, origin),
            ).fetchone()
            if row is None:
                return None
            revisions = json.loads(row[1])
            return RunMark(row[0], {Scope(scope): token for scope, token in revisions.items()})

        return self._ask(read)

    def documents(self, project: str, origin: str) -> dict[str, DocumentRecord]:
        """Return what the last successful run knew."""

        def read(connection: sqlite3.Connection) -> dict[str, DocumentRecord]:
            rows = connection.execute(
                "SELECT document, input_hash, scope, chunks, source_file, signals, decided_by "
                "FROM documents WHERE project = ? AND origin = ? ORDER BY document",
                (project, origin),
            )
            return {row[0]: _record(row[1:]) for row in rows}

        return self._ask(read)

    def record(
        self,
        project: str,
        origin: str,
        mark: RunMark,
        changed: Mapping[str, DocumentRecord],
        removed: Collection[str],
    ) -> None:
        """Write the outcome of one successful run in a single transaction."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "DELETE FROM documents WHERE project = ? AND origin = ? AND document = ?",
                [(project, origin, document) for document in removed],
            )
            connection.executemany(
                "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(project, origin, name, *_row(known)) for name, known in changed.items()],
            )
            tokens = {scope.value: token for scope, token in mark.revisions.items()}
            connection.execute(
                "INSERT OR REPLACE INTO marks VALUES (?, ?, ?, ?)",
                (project, origin, mark.settings_hash, json.dumps(tokens)),
            )
            connection.execute("COMMIT")

        self._ask(write)

    def forget(self, project: str, origin: str, documents: Collection[str]) -> None:
        """Have the next run look at documents again, whether they changed or not."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "UPDATE documents SET input_hash = '' "
                "WHERE project = ? AND origin = ? AND document = ?",
                [(project, origin, document) for document in documents],
            )
            connection.execute("COMMIT")

        self._ask(write)

    def get_value(self, key: str) -> str | None:
        """Return a small fact, None when it is not known."""

        def read(connection: sqlite3.Connection) -> str | None:
            row = connection.execute("SELECT value FROM facts WHERE key = ?", (key,)).fetchone()
            return None if row is None else str(row[0])

        return self._ask(read)

    def set_value(self, key: str, value: str) -> None:
        """Keep a small fact."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (key, value))

        self._ask(write)

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
        with foreseen_sqlite_errors(self._path):
            try:
                return self._answer(question)
            except (sqlite3.DatabaseError, ValueError, TypeError) as error:
                if not _is_damage(error):
                    raise
                self._replace(f"damaged ({error})")
                return self._answer(question)

    def _answer(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
        if self._connection is None:
            self._connection = self._opened()
        try:
            return question(self._connection)
        finally:
            if self._connection.in_transaction:
                self._connection.rollback()

    def _opened(self) -> sqlite3.Connection:
        connection = self._connected()
        version, owner, tables = _identity(connection)
        if tables and (owner, version) != (APPLICATION_ID, CACHE_VERSION):
            connection.close()
            self._replace(f"of another version ({version})", is_foreign=owner != APPLICATION_ID)
            connection = self._connected()
            tables = 0
        if not tables:
            connection.executescript(_SCHEMA)
        return connection

    def _connected(self) -> sqlite3.Connection:
        make_private_folder(self._path.parent)
        with foreseen_os_errors(self._path):
            is_folder = self._path.is_dir()
        if is_folder:
            raise StoreUnavailableError(f"{self._path}: a folder: set rag_cache_db to a file")
        ensure_private(self._path)
        return sqlite3.connect(
            self._path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )

    def _replace(self, reason: str, *, is_foreign: bool = False) -> None:
        self.close()
        logger.warning("%s: build cache is %s and starts empty", self._path, reason)
        with foreseen_os_errors(self._path):
            if is_foreign:
                # Perhaps somebody's data, named by mistake.
                self._path.replace(self._path.with_name(f"{self._path.name}.foreign"))
            for name in (self._path.name, f"{self._path.name}-journal"):
                self._path.with_name(name).unlink(missing_ok=True)


def _is_damage(error: Exception) -> bool:
    """Tell a file that is no use from a full disk or another writer, which leave it sound."""
    if isinstance(error, sqlite3.OperationalError):
        return "no such table" in str(error) or "no such column" in str(error)
    return not isinstance(error, sqlite3.ProgrammingError)


def _identity(connection: sqlite3.Connection) -> tuple[int, int, int]:
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except sqlite3.Error:
        connection.close()
        raise
    return (version, owner, tables)


def _row(known: DocumentRecord) -> tuple[str | int, ...]:
    return (
        known.input_hash,
        known.scope.value,
        known.chunks,
        known.source_file,
        json.dumps(known.signals),
        json.dumps(known.decided_by),
    )


def _record(row: tuple[str, str, int, str, str, str]) -> DocumentRecord:
    input_hash, scope, chunks, source_file, signals, decided_by = row
    origin, affirmed, reason = json.loads(decided_by)
    return DocumentRecord(
        input_hash=input_hash,
        scope=Scope(scope),
        chunks=chunks,
        source_file=source_file,
        signals=tuple((o, s, r) for o, s, r in json.loads(signals)),
        decided_by=(origin, affirmed, reason),
    )
