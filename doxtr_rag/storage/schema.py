"""The tables of a corpus and their version."""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path

from doxtr_rag.core.errors import (
    ConfigError,
    IndexNotBuiltError,
    StoreSchemaError,
    StoreUnavailableError,
)
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage.sqlite_errors import unusable

SCHEMA_VERSION = 3
APPLICATION_ID = 0x44525843
CORPUS_FILE = "corpus.sqlite3"

_TABLES = """
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    schema_version INTEGER NOT NULL,
    store_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    fingerprint TEXT NOT NULL DEFAULT '',
    dimension INTEGER NOT NULL DEFAULT 0,
    collection TEXT NOT NULL DEFAULT '',
    revision INTEGER NOT NULL DEFAULT 0,
    erase_pending INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE chunks (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    project TEXT NOT NULL,
    origin TEXT NOT NULL,
    document TEXT NOT NULL,
    anchor TEXT NOT NULL,
    text TEXT NOT NULL,
    header TEXT NOT NULL,
    title TEXT NOT NULL,
    breadcrumb TEXT NOT NULL,
    url TEXT NOT NULL,
    source_file TEXT NOT NULL,
    locator TEXT,
    links TEXT NOT NULL,
    metadata TEXT NOT NULL,
    scope TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    tokens INTEGER NOT NULL
);
CREATE INDEX chunks_by_document ON chunks (project, origin, document);
CREATE INDEX chunks_by_text ON chunks (text_hash);
CREATE TRIGGER chunks_of_this_scope_only BEFORE INSERT ON chunks
WHEN NEW.scope IS NOT (SELECT scope FROM meta) BEGIN
    SELECT RAISE(ABORT, 'chunk of another scope');
END;
CREATE TABLE vectors (
    text_hash TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (text_hash, fingerprint)
);
CREATE TABLE projects (project TEXT PRIMARY KEY, revision TEXT NOT NULL);
CREATE TABLE index_state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    generation TEXT NOT NULL DEFAULT '',
    fingerprint TEXT NOT NULL DEFAULT '',
    revision INTEGER NOT NULL DEFAULT 0,
    dirty INTEGER NOT NULL DEFAULT 0,
    must_rebuild INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0,
    manifest TEXT NOT NULL DEFAULT '{}'
);
INSERT INTO index_state (one) VALUES (1);
CREATE TABLE indexed (text_hash TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE runs (
    seq INTEGER PRIMARY KEY,
    project TEXT NOT NULL,
    origin TEXT NOT NULL,
    started TEXT NOT NULL,
    finished TEXT NOT NULL,
    status TEXT NOT NULL,
    report TEXT NOT NULL
);
CREATE TABLE failures (
    project TEXT NOT NULL,
    origin TEXT NOT NULL,
    document TEXT NOT NULL,
    reason TEXT NOT NULL,
    since TEXT NOT NULL,
    PRIMARY KEY (project, origin, document)
);
"""

# An external-content table keeps no copy of the text; the triggers keep it in step.
_TEXT_INDEX = """
CREATE VIRTUAL TABLE chunks_fts USING fts5 (
    title, breadcrumb, text,
    content = 'chunks', content_rowid = 'seq', tokenize = 'porter unicode61'
);
CREATE TRIGGER chunks_fts_insert AFTER INSERT ON chunks BEGIN
    INSERT INTO chunks_fts (rowid, title, breadcrumb, text)
    VALUES (NEW.seq, NEW.title, NEW.breadcrumb, NEW.text);
END;
CREATE TRIGGER chunks_fts_delete AFTER DELETE ON chunks BEGIN
    INSERT INTO chunks_fts (chunks_fts, rowid, title, breadcrumb, text)
    VALUES ('delete', OLD.seq, OLD.title, OLD.breadcrumb, OLD.text);
END;
CREATE TRIGGER chunks_fts_update AFTER UPDATE OF title, breadcrumb, text ON chunks
WHEN OLD.title IS NOT NEW.title OR OLD.breadcrumb IS NOT NEW.breadcrumb
    OR OLD.text IS NOT NEW.text BEGIN
    INSERT INTO chunks_fts (chunks_fts, rowid, title, breadcrumb, text)
    VALUES ('delete', OLD.seq, OLD.title, OLD.breadcrumb, OLD.text);
    INSERT INTO chunks_fts (rowid, title, breadcrumb, text)
    VALUES (NEW.seq, NEW.title, NEW.breadcrumb, NEW.text);
END;
"""

_READING_ORDER = """
ALTER TABLE chunks ADD COLUMN position INTEGER NOT NULL DEFAULT 0;
"""

_RUNS_AT_WORK = """
ALTER TABLE runs ADD COLUMN run_id TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN error_kind TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN pid INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN host TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN progress TEXT NOT NULL DEFAULT '{}';
UPDATE runs SET run_id = 'r' || seq;
UPDATE runs SET error_kind = CASE WHEN status = 'incomplete' THEN status
    ELSE coalesce(json_extract(CASE WHEN json_valid(report) THEN report END, '$.error'), 'failed')
    END WHERE status IN ('incomplete', 'failed');
UPDATE runs SET status = 'failed' WHERE status = 'incomplete';
CREATE UNIQUE INDEX runs_by_id ON runs (run_id);
"""

MIGRATIONS = (_TABLES + _TEXT_INDEX, _READING_ORDER, _RUNS_AT_WORK)
"""The script that leads from version N to N + 1, by N."""


def version_of(connection: sqlite3.Connection, path: Path) -> int:
    """Return a corpus's schema version, 0 for a file without tables.

    Raises:
        StoreSchemaError: a newer version of this package wrote it.
        StoreUnavailableError: another program wrote it.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if not tables and not owner:
        return 0
    if owner != APPLICATION_ID:
        raise StoreUnavailableError(
            f"{path}: a database of another program: move it away and run sphinx-build"
        )
    if version > SCHEMA_VERSION:
        raise StoreSchemaError(
            f"{path}: written with schema {version}, this doxtr-rag reads schema "
            f"{SCHEMA_VERSION}: install a newer doxtr-rag; nothing was changed"
        )
    return version


def require_readable(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a corpus that a reader cannot use as it is.

    Raises:
        StoreError: empty, foreign, or of another schema.
    """
    version = version_of(connection, path)
    if not version:
        raise IndexNotBuiltError(f"{path}: nothing was stored yet: run sphinx-build")
    if version < SCHEMA_VERSION:
        raise StoreSchemaError(
            f"{path}: written with schema {version}, this doxtr-rag reads schema "
            f"{SCHEMA_VERSION}: run sphinx-build once, which upgrades it"
        )


def migrate(connection: sqlite3.Connection, path: Path, scope: Scope) -> None:
    """Bring a corpus to this schema, step by step in one transaction.

    Raises:
        StoreSchemaError: a newer version of this package wrote it.
        StoreUnavailableError: it is damaged, or another program wrote it.
        ConfigError: the corpus belongs to the other scope.
    """
    version = version_of(connection, path)
    if version < SCHEMA_VERSION:
        _upgrade(connection, version, scope)
    stored = connection.execute("SELECT scope FROM meta").fetchone()
    if stored is None:
        raise StoreUnavailableError(unusable(path, "damaged, it does not say what it holds"))
    if stored[0] != scope.value:
        raise ConfigError(
            f"{path}: this store holds {stored[0]} chunks and was opened for {scope.value}: "
            "give each scope a folder of its own"
        )


def _upgrade(connection: sqlite3.Connection, version: int, scope: Scope) -> None:
    try:
        connection.executescript(f"BEGIN IMMEDIATE;{''.join(MIGRATIONS[version:])}")
        if version == 0:
            connection.execute(
                "INSERT INTO meta (one, schema_version, store_id, scope) VALUES (1, ?, ?, ?)",
                (SCHEMA_VERSION, secrets.token_hex(16), scope.value),
            )
        connection.execute("UPDATE meta SET schema_version = ?", (SCHEMA_VERSION,))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except sqlite3.Error:
        connection.rollback()
        raise
