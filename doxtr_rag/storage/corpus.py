"""Reading a corpus: what it is, what it holds, and chunks by id."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from doxtr_rag.core.documents import StoredChunk, StoredHash, Vector
from doxtr_rag.core.errors import StoreUnavailableError
from doxtr_rag.storage import generation
from doxtr_rag.storage.codec import STORED_COLUMNS, stored_chunk
from doxtr_rag.storage.database import Database
from doxtr_rag.storage.sqlite_errors import unusable

VECTOR_PAGE = 2000

SEARCHED = (
    "FROM vectors v WHERE fingerprint = ? AND EXISTS "
    "(SELECT 1 FROM chunks c WHERE c.text_hash = v.text_hash)"
)
"""The vectors of one fingerprint that a chunk refers to: what an index of it holds."""

IN_DOCUMENTS = (
    "(:documents IS NULL OR project || '/' || document IN "
    "(SELECT value FROM json_each(:documents)))"
)
_STORED_BY_ID = (
    f"SELECT {STORED_COLUMNS} FROM chunks "  # noqa: S608 - constants
    "WHERE id IN (SELECT value FROM json_each(?))"
)
_STORED_BY_DOCUMENT = (
    f"SELECT {STORED_COLUMNS} FROM chunks WHERE (project, document) = "  # noqa: S608 - constants
    "(SELECT project, document FROM chunks "
    "WHERE ?1 IN (document, project || '/' || document, source_file) "
    "ORDER BY document <> ?1, project LIMIT 1) ORDER BY position, id"
)
_IDS_BY_TEXT = (
    "SELECT id, text_hash FROM chunks "  # noqa: S608 - constants
    f"WHERE text_hash IN (SELECT value FROM json_each(:texts)) AND {IN_DOCUMENTS}"
)
_TEXTS_BY_DOCUMENT = (
    "SELECT DISTINCT text_hash FROM chunks "  # noqa: S608 - constants
    f"WHERE {IN_DOCUMENTS} ORDER BY text_hash"
)


class Erasure(IntEnum):
    """What of text that left a corpus is still in its files."""

    NONE = 0
    PENDING = 1
    """Withdrawn text may be there, and must go before anything else happens."""

    RESIDUE = 2
    """Text that was replaced or deleted may be there, and goes with the next occasion."""


@dataclass(frozen=True, slots=True)
class CorpusState:
    """The identity of a corpus, and what its index was built from."""

    store_id: str
    scope: str
    fingerprint: str
    dimension: int
    collection: str
    revision: int
    erasure: Erasure
    chunks: int
    generation: str
    index_fingerprint: str
    index_revision: int
    is_dirty: bool
    must_rebuild: bool
    removed: int
    manifest: str

    def index_is_current(self, folder: Path) -> bool:
        """Say whether the generation on disk serves exactly this corpus."""
        if self.erasure is Erasure.PENDING or self.must_rebuild or self.is_dirty:
            return False
        if not self.chunks and not self.generation:
            return not generation.current(folder)
        return (
            self.index_revision == self.revision
            and self.index_fingerprint == self.fingerprint != ""
            and self.generation == generation.current(folder)
            and generation.exists(folder, self.generation)
        )


def read_state(database: Database) -> CorpusState:
    """Return the state of the last commit.

    Raises:
        StoreError: the corpus cannot be read, or is damaged.
    """
    with database.reading() as connection:
        row = connection.execute(
            "SELECT store_id, scope, m.fingerprint, dimension, collection, m.revision, "
            "erase_pending, (SELECT count(*) FROM chunks), generation, s.fingerprint, "
            "s.revision, dirty, must_rebuild, removed, manifest FROM meta m, index_state s"
        ).fetchone()
    if row is None:
        raise StoreUnavailableError(
            unusable(database.path, "damaged, it does not say what it holds")
        )
    values = list(row)
    values[6] = Erasure(values[6])
    for flag in (11, 12):
        values[flag] = bool(values[flag])
    return CorpusState(*values)


def read_revision(database: Database) -> int:
    """Return what changes with every change of a chunk; 0 of a damaged corpus."""
    with database.reading() as connection:
        row = connection.execute("SELECT revision FROM meta").fetchone()
    return int(row[0]) if row else 0


def read_hashes(
    database: Database, project: str, origin: str, documents: Collection[str] | None
) -> dict[str, StoredHash]:
    """Return chunk id -> hashes of a project and origin, of some documents or of all."""
    with database.reading() as connection:
        rows = connection.execute(
            "SELECT id, document, content_hash, text_hash, breadcrumb FROM chunks "
            "WHERE project = ?1 AND origin = ?2 "
            "AND (?3 IS NULL OR document IN (SELECT value FROM json_each(?3)))",
            (project, origin, None if documents is None else listed(documents)),
        ).fetchall()
    return {
        chunk_id: StoredHash(document, content_hash, text_hash, tuple(json.loads(breadcrumb)))
        for chunk_id, document, content_hash, text_hash, breadcrumb in rows
    }


def read_vectors(
    database: Database, fingerprint: str, text_hashes: Collection[str]
) -> dict[str, Vector]:
    """Return the vectors at hand, by text hash."""
    with database.reading() as connection:
        return dict(
            connection.execute(
                "SELECT text_hash, vector FROM vectors WHERE fingerprint = ? "
                "AND text_hash IN (SELECT value FROM json_each(?))",
                (fingerprint, listed(text_hashes)),
            ).fetchall()
        )


def texts_without_vectors(
    connection: sqlite3.Connection, fingerprint: str, text_hashes: Collection[str]
) -> set[str]:
    """Return the text hashes that have no vector of this fingerprint."""
    rows = connection.execute(
        "SELECT value FROM json_each(?) WHERE value NOT IN "
        "(SELECT text_hash FROM vectors WHERE fingerprint = ? AND text_hash = value)",
        (listed(text_hashes), fingerprint),
    )
    return {text_hash for (text_hash,) in rows}


def searched_vectors(database: Database, fingerprint: str) -> Iterator[list[tuple[str, Vector]]]:
    """Yield the vectors of all chunks, each text once, in the order of their hashes."""
    last = ""
    while True:
        with database.reading() as connection:
            page = connection.execute(
                f"SELECT text_hash, vector {SEARCHED} AND text_hash > ? ORDER BY text_hash LIMIT ?",
                (fingerprint, last, VECTOR_PAGE),
            ).fetchall()
        if not page:
            return
        yield page
        last = page[-1][0]


def count_searched(database: Database, fingerprint: str) -> int:
    """Return how many vectors `searched_vectors` yields."""
    with database.reading() as connection:
        row = connection.execute(f"SELECT count(*) {SEARCHED}", (fingerprint,)).fetchone()
    return int(row[0])


def read_chunks(database: Database, chunk_ids: Sequence[str]) -> dict[str, StoredChunk]:
    """Return chunks by id, in the order asked for; unknown ids are left out."""
    with database.reading() as connection:
        rows = connection.execute(_STORED_BY_ID, (listed(chunk_ids),)).fetchall()
    found = {row[0]: stored_chunk(row) for row in rows}
    return {chunk_id: found[chunk_id] for chunk_id in chunk_ids if chunk_id in found}


def chunks_of_texts(
    database: Database, text_hashes: Collection[str], documents: Collection[str] | None = None
) -> list[tuple[str, str]]:
    """Return `(chunk id, text hash)` of the chunks with one of these texts.

    `documents` are qualified by their project; without them every document counts.
    """
    with database.reading() as connection:
        return connection.execute(
            _IDS_BY_TEXT,
            {"texts": listed(text_hashes), "documents": listed_or_none(documents)},
        ).fetchall()


def vectors_of_documents(
    database: Database, fingerprint: str, documents: Collection[str]
) -> Iterator[list[tuple[str, Vector]]]:
    """Yield the vectors of some documents' chunks, each text once, in the order of their hashes."""
    with database.reading() as connection:
        rows = connection.execute(
            _TEXTS_BY_DOCUMENT,
            {"documents": listed(documents)},
        ).fetchall()
    for start in range(0, len(rows), VECTOR_PAGE):
        page = [text_hash for (text_hash,) in rows[start : start + VECTOR_PAGE]]
        yield sorted(read_vectors(database, fingerprint, page).items())


def read_document(database: Database, name: str) -> list[StoredChunk]:
    """Return the chunks of a document in reading order.

    `name` is the document's own, `project/document`, or its source file.
    """
    with database.reading() as connection:
        rows = connection.execute(_STORED_BY_DOCUMENT, (name,)).fetchall()
    return [stored_chunk(row) for row in rows]


def document_names(database: Database) -> list[tuple[str, str, str]]:
    """Return `(project, document, source file)` of all documents, in order."""
    with database.reading() as connection:
        return connection.execute(
            "SELECT DISTINCT project, document, source_file FROM chunks ORDER BY 1, 2"
        ).fetchall()


def projects_without_vectors(connection: sqlite3.Connection, fingerprint: str) -> list[str]:
    """Return the projects with a chunk that has no vector of this fingerprint."""
    rows = connection.execute(
        "SELECT DISTINCT project FROM chunks c WHERE NOT EXISTS (SELECT 1 FROM vectors v "
        "WHERE v.text_hash = c.text_hash AND v.fingerprint = ?) ORDER BY project",
        (fingerprint,),
    )
    return [project for (project,) in rows]


def listed_or_none(values: Collection[str] | None) -> str | None:
    """Return values as one JSON parameter, or the absence of a restriction as NULL."""
    return None if values is None else listed(values)


def listed(values: Collection[str]) -> str:
    """Return values as one JSON parameter: a statement takes few, and a list of any length."""
    return json.dumps(list(values))


def sample(database: Database, fingerprint: str) -> tuple[str, str, Vector] | None:
    """Return id, embedding input and vector of the first chunk; None when there is none."""
    with database.reading() as connection:
        row = connection.execute(
            "SELECT c.id, c.header, c.text, v.vector FROM chunks c "
            "JOIN vectors v ON v.text_hash = c.text_hash AND v.fingerprint = ? "
            "ORDER BY c.id LIMIT 1",
            (fingerprint,),
        ).fetchone()
    if row is None:
        return None
    chunk_id, header, text, vector = row
    return chunk_id, "\n\n".join(filter(None, (header, text))), vector
