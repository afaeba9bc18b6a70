"""One connection to a corpus file, for reading or for writing."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from doxtr_rag.core.errors import IndexNotBuiltError, StoreUnavailableError
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage.private_files import ensure_private, make_private_folder
from doxtr_rag.storage.schema import CORPUS_FILE, migrate, require_readable
from doxtr_rag.storage.sqlite_errors import foreseen_sqlite_errors

BUSY_TIMEOUT_S = 30.0
NO_ROOM = ("disk I/O error", "disk is full")
"""What SQLite says of a file that it cannot make on a full disk."""

# FULL, since the build cache counts on a commit and must never outlive it. Temporary tables stay
# in memory, so that no text reaches a folder that is not ours.
_WRITER_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA secure_delete = ON",
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
)


class Database:
    """A corpus file; methods of one object may be called from any thread."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._lock = threading.RLock()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection; each statement sees the last commit of any process.

        Raises:
            StoreError: the file cannot be read.
        """
        with self._lock, foreseen_sqlite_errors(self.path):
            yield self._connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection inside one transaction, which any exception undoes.

        Raises:
            StoreError: the file cannot be written.
        """
        with self._lock, foreseen_sqlite_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.rollback()

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()


class FrozenDatabase(Database):
    """A corpus on a medium that we cannot write; opened again when somebody else wrote it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _connect(path, "immutable=1"))
        self._seen = _stamp(path)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection, after a look at whether the file is still the one opened."""
        with self._lock, foreseen_sqlite_errors(self.path):
            stamp = _stamp(self.path)
            if stamp != self._seen:
                self._connection.close()
                self._connection = _live_connection(self.path) or _connect(self.path, "immutable=1")
                self._seen = stamp
            yield self._connection


def open_for_writing(folder: Path, scope: Scope) -> Database:
    """Open a store's corpus, made and upgraded as needed.

    Raises:
        StoreError: damaged, of a newer schema, or in a place that cannot be written.
        ConfigError: the corpus belongs to the other scope.
    """
    make_private_folder(folder)
    path = folder / CORPUS_FILE
    # Before SQLite sees it: the journal files take their modes from this one.
    ensure_private(path)
    with foreseen_sqlite_errors(path):
        connection = _connect(path, "mode=rw")
        try:
            migrate(connection, path, scope)
            for pragma in _WRITER_PRAGMAS:
                connection.execute(pragma)
        except BaseException:
            connection.close()
            raise
    return Database(path, connection)


def open_existing(folder: Path, wait_s: float = BUSY_TIMEOUT_S) -> Database:
    """Open a corpus for writing, whatever its scope.

    Raises:
        StoreError: missing, damaged, of another schema, or in a place that cannot be written.
    """
    path = folder / CORPUS_FILE
    with foreseen_sqlite_errors(path):
        connection = _connect(path, "mode=rw", wait_s)
        try:
            require_readable(connection, path)
            for pragma in _WRITER_PRAGMAS:
                connection.execute(pragma)
        except BaseException:
            connection.close()
            raise
    return Database(path, connection)


def open_for_reading(folder: Path) -> Database:
    """Open a corpus without creating or upgrading it.

    Raises:
        IndexNotBuiltError: there is none.
        StoreError: damaged, or of another schema.
    """
    path = folder / CORPUS_FILE
    if not _is_there(path):
        raise IndexNotBuiltError(f"{path}: nothing was stored yet: run sphinx-build")
    with foreseen_sqlite_errors(path):
        database = _open_live_or_frozen(path)
        try:
            with database.reading() as connection:
                require_readable(connection, path)
        except BaseException:
            database.close()
            raise
    return database


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        raise StoreUnavailableError(
            f"{path}: cannot be read ({error.strerror}): give yourself access to {path.parent}"
        ) from error


def _open_live_or_frozen(path: Path) -> Database:
    connection = _live_connection(path)
    return FrozenDatabase(path) if connection is None else Database(path, connection)


def _live_connection(path: Path) -> sqlite3.Connection | None:
    """Return a connection that sees every commit; None where only a frozen file can be read.

    Raises:
        sqlite3.Error: the file cannot be read at all.
    """
    _undo_half_a_transaction(path)
    connection = _connect(path, "mode=ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError as error:
        connection.close()
        # A corpus in WAL mode has files beside it: without the right or the room for them it opens
        # only as immutable. A log would be ignored then, and with it the latest commits.
        has_no_room = any(said in str(error) for said in NO_ROOM)
        if (os.access(path.parent, os.W_OK) and not has_no_room) or _size(_log(path)):
            raise
        return None
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _undo_half_a_transaction(path: Path) -> None:
    """Finish what was killed while it made a corpus, before there was a log: SQLite undoes it.

    Raises:
        sqlite3.Error: the file cannot be read at all.
    """
    if path.with_name(path.name + "-journal").exists() and os.access(path.parent, os.W_OK):
        connection = _connect(path, "mode=rw")
        try:
            connection.execute("SELECT count(*) FROM sqlite_master")
        finally:
            connection.close()


def _connect(path: Path, options: str, wait_s: float = BUSY_TIMEOUT_S) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=wait_s,
        isolation_level=None,
        check_same_thread=False,
    )


def _stamp(path: Path) -> tuple[int, int, int, int]:
    status = path.stat()
    return (status.st_ino, status.st_mtime_ns, status.st_size, _size(_log(path)))


def _log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
