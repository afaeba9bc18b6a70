"""What a machine remembers of a server: what it left there, and what it must still take away.

All of it can be had again from corpus and server, but the withdrawals.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from pathlib import Path

from doxtr_rag.storage.corpus import listed
from doxtr_rag.storage.database import Database
from doxtr_rag.storage.private_files import ensure_private, make_private_folder
from doxtr_rag.storage.remote.manifest import Pair
from doxtr_rag.storage.remote.records import States
from doxtr_rag.storage.sqlite_errors import foreseen_sqlite_errors

OUTBOX_FILE = "remote.sqlite3"

_TABLES = """
CREATE TABLE IF NOT EXISTS server (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS told (project TEXT, origin TEXT, PRIMARY KEY (project, origin));
CREATE TABLE IF NOT EXISTS digests (
    project TEXT, origin TEXT, revision TEXT NOT NULL, digest TEXT NOT NULL,
    PRIMARY KEY (project, origin)
);
CREATE TABLE IF NOT EXISTS left_there (
    project TEXT, origin TEXT, digest TEXT NOT NULL, PRIMARY KEY (project, origin)
);
CREATE TABLE IF NOT EXISTS records (
    id TEXT PRIMARY KEY, project TEXT NOT NULL, origin TEXT NOT NULL, state TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS records_by_pair ON records (project, origin);
CREATE TABLE IF NOT EXISTS withdrawn (id TEXT PRIMARY KEY, project TEXT NOT NULL);
"""
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
)


class Outbox:
    """One file beside a corpus; the caller holds the store's lock."""

    def __init__(self, folder: Path) -> None:
        make_private_folder(folder)
        path = folder / OUTBOX_FILE
        ensure_private(path)
        with foreseen_sqlite_errors(path):
            connection = sqlite3.connect(
                path, isolation_level=None, timeout=30, check_same_thread=False
            )
            try:
                for statement in _PRAGMAS:
                    connection.execute(statement)
                connection.executescript(_TABLES)
            except BaseException:
                connection.close()
                raise
        self._database = Database(path, connection)

    def address(self, address: str) -> str:
        """Note where the server is; after a move forget what was left at the old one.

        Returns the old one where withdrawals were left undone there, else "".
        """
        before = self._value("address")
        if before == address:
            return ""
        with self._database.writing() as connection:
            for table in ("server", "left_there", "records"):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - constants
            connection.execute("INSERT INTO server VALUES ('address', ?)", (address,))
            undone = connection.execute("SELECT count(*) FROM withdrawn").fetchone()[0]
        return before if undone else ""

    def ids(self) -> tuple[str, str]:
        """Return the ids of collection and manifests as last seen; "" for one never seen."""
        return self._value("collection"), self._value("manifests")

    def keep_ids(self, collection: str, manifests: str) -> None:
        """Remember ids, so that a run need not look them up."""
        if self.ids() != (collection, manifests):
            with self._database.writing() as connection:
                connection.executemany(
                    "INSERT OR REPLACE INTO server VALUES (?, ?)",
                    [("collection", collection), ("manifests", manifests)],
                )

    def _value(self, name: str) -> str:
        with self._database.reading() as connection:
            row = connection.execute("SELECT value FROM server WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def tell(self, pair: Pair) -> None:
        """Note that this machine speaks for a project and origin, with or without chunks."""
        if pair not in self.told():
            with self._database.writing() as connection:
                connection.execute("INSERT INTO told VALUES (?, ?)", pair)

    def told(self) -> set[Pair]:
        """Return the projects and origins that this machine speaks for."""
        with self._database.reading() as connection:
            return set(connection.execute("SELECT project, origin FROM told").fetchall())

    def digest(self, pair: Pair, revision: str) -> str:
        """Return the digest of a corpus at a revision; "" when it was not taken yet."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT digest FROM digests WHERE (project, origin, revision) = (?, ?, ?)",
                (*pair, revision),
            ).fetchone()
        return str(row[0]) if row else ""

    def keep_digest(self, pair: Pair, revision: str, digest: str) -> None:
        """Remember the digest of a corpus at a revision."""
        with self._database.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO digests VALUES (?, ?, ?, ?)", (*pair, revision, digest)
            )

    def left_digest(self, pair: Pair) -> str:
        """Return the digest of what was left on the server; "" when that is not known."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT digest FROM left_there WHERE (project, origin) = (?, ?)", pair
            ).fetchone()
        return str(row[0]) if row else ""

    def left_records(self, pair: Pair) -> States:
        """Return what was left on the server."""
        with self._database.reading() as connection:
            return dict(
                connection.execute(
                    "SELECT id, state FROM records WHERE (project, origin) = (?, ?)", pair
                ).fetchall()
            )

    def leave(self, pair: Pair, digest: str, states: States) -> None:
        """Note what was left on the server."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM records WHERE (project, origin) = (?, ?)", pair)
            connection.executemany(
                "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)",
                ((chunk_id, *pair, value) for chunk_id, value in states.items()),
            )
            connection.execute(
                "INSERT OR REPLACE INTO left_there VALUES (?, ?, ?)", (*pair, digest)
            )

    def withdraw(self, project: str, chunk_ids: Collection[str]) -> None:
        """Note chunks that have to leave the server before anything else happens there."""
        with self._database.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO withdrawn SELECT value, ? FROM json_each(?)",
                (project, listed(chunk_ids)),
            )
            connection.execute("DELETE FROM left_there WHERE project = ?", (project,))
            connection.execute("DELETE FROM records WHERE project = ?", (project,))

    def withdrawn(self) -> Mapping[str, list[str]]:
        """Return the chunks that have to leave the server, by project."""
        found: dict[str, list[str]] = {}
        with self._database.reading() as connection:
            rows = connection.execute("SELECT project, id FROM withdrawn ORDER BY id").fetchall()
        for project, chunk_id in rows:
            found.setdefault(project, []).append(chunk_id)
        return found

    def forget_withdrawn(self, chunk_ids: Collection[str]) -> None:
        """Note that chunks have left the server; their ids go, too."""
        with self._database.writing() as connection:
            connection.execute(
                "DELETE FROM withdrawn WHERE id IN (SELECT value FROM json_each(?))",
                (listed(chunk_ids),),
            )
        with self._database.reading() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()
