"""Writing a corpus: every function works inside a transaction of its caller."""

from __future__ import annotations

import math
import secrets
import sqlite3
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence

from doxtr_rag.core.documents import Vector
from doxtr_rag.core.errors import ParityError, StoreError
from doxtr_rag.storage.codec import ROW_COLUMNS, row_of
from doxtr_rag.storage.corpus import (
    Erasure,
    listed,
    projects_without_vectors,
    texts_without_vectors,
)
from doxtr_rag.storage.guard import AdmittedChunk

_UPSERT = " ".join(
    (
        "INSERT INTO chunks",
        f"({', '.join(ROW_COLUMNS)}) VALUES ({', '.join('?' * len(ROW_COLUMNS))})",
        "ON CONFLICT (id) DO UPDATE SET",
        ", ".join(f"{column} = excluded.{column}" for column in ROW_COLUMNS[1:]),
        "WHERE chunks.project = excluded.project",
    )
)
FLOAT_BYTES = 4


def insert_vectors(
    connection: sqlite3.Connection, fingerprint: str, vectors: Mapping[str, Vector]
) -> None:
    """Keep vectors; one that is there already stays.

    Raises:
        StoreError: a vector is not a sequence of finite float32 numbers.
    """
    for text_hash, vector in vectors.items():
        if not _is_sound(vector):
            raise StoreError(f"vector of text {text_hash}: not finite float32 numbers")
    connection.executemany(
        "INSERT OR IGNORE INTO vectors (text_hash, fingerprint, vector) VALUES (?, ?, ?)",
        ((text_hash, fingerprint, vector) for text_hash, vector in vectors.items()),
    )


def require_vectors(
    connection: sqlite3.Connection, fingerprint: str, chunks: Iterable[AdmittedChunk]
) -> None:
    """Refuse chunks whose vectors were not saved.

    Raises:
        StoreError: a vector is missing.
    """
    ids = {admitted.scoped.chunk.text_hash: admitted.scoped.chunk.chunk_id for admitted in chunks}
    missing = texts_without_vectors(connection, fingerprint, ids)
    if missing:
        first = min(ids[text_hash] for text_hash in missing)
        raise StoreError(f"{first}: published before its vector was saved ({len(missing)} such)")


def upsert_chunks(
    connection: sqlite3.Connection, project: str, origin: str, chunks: Sequence[AdmittedChunk]
) -> bool:
    """Insert or replace admitted chunks; say whether there were any.

    Raises:
        StoreError: a chunk belongs to another project.
    """
    for admitted in chunks:
        chunk = admitted.scoped.chunk
        written = connection.execute(_UPSERT, row_of(admitted.scoped, origin)).rowcount
        if chunk.project != project or not written:
            raise StoreError(f"{chunk.chunk_id}: belongs to another project than {project}")
    return bool(chunks)


def delete_chunks(connection: sqlite3.Connection, project: str, chunk_ids: Collection[str]) -> bool:
    """Delete chunks of a project; say whether one was there."""
    deleted = connection.execute(
        "DELETE FROM chunks WHERE project = ? AND id IN (SELECT value FROM json_each(?))",
        (project, listed(chunk_ids)),
    )
    return deleted.rowcount > 0


def renew_revision(connection: sqlite3.Connection, project: str) -> None:
    """Note that chunks of a project changed."""
    connection.execute("UPDATE meta SET revision = revision + 1")
    connection.execute("DELETE FROM projects WHERE project = ?", (project,))
    connection.execute(
        "INSERT INTO projects (project, revision) "
        "SELECT ?, ? WHERE EXISTS (SELECT 1 FROM chunks WHERE project = ?)",
        (project, secrets.token_hex(16), project),
    )


def drop_unused_vectors(connection: sqlite3.Connection, fingerprint: str) -> None:
    """Delete the vectors that no chunk refers to, and all of other fingerprints."""
    connection.execute(
        "DELETE FROM vectors WHERE fingerprint <> ? OR NOT EXISTS "
        "(SELECT 1 FROM chunks c WHERE c.text_hash = vectors.text_hash)",
        (fingerprint,),
    )


def withdraw_chunks(
    connection: sqlite3.Connection, project: str, chunk_ids: Collection[str]
) -> bool:
    """Delete chunks with the vectors only they had, and call for their erasure."""
    rows = connection.execute(
        "SELECT DISTINCT text_hash FROM chunks "
        "WHERE project = ? AND id IN (SELECT value FROM json_each(?))",
        (project, listed(chunk_ids)),
    )
    texts = listed([text_hash for (text_hash,) in rows])
    if not delete_chunks(connection, project, chunk_ids):
        return False
    connection.execute(
        "DELETE FROM vectors WHERE text_hash IN (SELECT value FROM json_each(?)) AND NOT EXISTS "
        "(SELECT 1 FROM chunks c WHERE c.text_hash = vectors.text_hash)",
        (texts,),
    )
    connection.execute(
        "DELETE FROM indexed WHERE text_hash IN (SELECT value FROM json_each(?))", (texts,)
    )
    call_for_erasure(connection, Erasure.PENDING)
    connection.execute("UPDATE index_state SET must_rebuild = 1")
    return True


def call_for_erasure(connection: sqlite3.Connection, erasure: Erasure) -> None:
    """Note what there is to erase, or that nothing is."""
    connection.execute("UPDATE meta SET erase_pending = ?", (erasure.value,))


def note_residue(
    connection: sqlite3.Connection, chunks: Iterable[AdmittedChunk], deletes: Iterable[str]
) -> None:
    """Note that text which these chunks replace, or that is deleted, will leave traces."""
    ids = [*deletes, *(admitted.scoped.chunk.chunk_id for admitted in chunks)]
    connection.execute(
        "UPDATE meta SET erase_pending = ? WHERE erase_pending = ? AND EXISTS "
        "(SELECT 1 FROM chunks WHERE id IN (SELECT value FROM json_each(?)))",
        (Erasure.RESIDUE.value, Erasure.NONE.value, listed(ids)),
    )


def require_one_identity(connection: sqlite3.Connection, fingerprint: str, dimension: int) -> None:
    """Refuse to seal while a chunk lacks a vector of this fingerprint and dimension.

    Raises:
        ParityError: chunks of these projects would not be found.
    """
    lacking = projects_without_vectors(connection, fingerprint)
    if lacking:
        sealed = connection.execute("SELECT fingerprint FROM meta").fetchone()[0]
        raise ParityError(mismatch(sealed, fingerprint, lacking, _scope(connection)))
    odd = connection.execute(
        "SELECT count(*) FROM vectors WHERE fingerprint = ? AND length(vector) <> ?",
        (fingerprint, FLOAT_BYTES * dimension),
    ).fetchone()[0]
    if odd:
        raise ParityError(
            f"{odd} vectors of {fingerprint[:12]} do not have {dimension} dimensions: "
            f"delete the folder of the {_scope(connection)} store and run sphinx-build"
        )


def record_identity(connection: sqlite3.Connection, fingerprint: str, dimension: int) -> None:
    """Note whose vectors are searched; a change leaves no use for the index there is."""
    changed = connection.execute(
        "UPDATE meta SET fingerprint = ?, dimension = ? WHERE fingerprint <> ? OR dimension <> ?",
        (fingerprint, dimension, fingerprint, dimension),
    )
    if changed.rowcount:
        connection.execute("UPDATE index_state SET must_rebuild = 1")


def record_collection(connection: sqlite3.Connection, collection: str) -> None:
    """Note the name that the collection in the index goes by."""
    connection.execute("UPDATE meta SET collection = ?", (collection,))
    connection.execute("UPDATE index_state SET must_rebuild = 1")


def require_identity_of_others(
    connection: sqlite3.Connection, project: str, fingerprint: str
) -> None:
    """Refuse a model that other projects of this store were not embedded with.

    Raises:
        ParityError: vectors of another fingerprint are searched here.
    """
    others = set(projects_without_vectors(connection, fingerprint)) - {project}
    if others:
        sealed = connection.execute("SELECT fingerprint FROM meta").fetchone()[0]
        raise ParityError(mismatch(sealed, fingerprint, sorted(others), _scope(connection)))


def mismatch(sealed: str, fingerprint: str, projects: Sequence[str], scope: str) -> str:
    """Return the message about two models in one store."""
    return (
        f"the store holds vectors of {sealed[:12] or 'another model'} for {', '.join(projects)}, "
        f"this run makes vectors of {fingerprint[:12]}: give all projects of one {scope} store the "
        "same rag_embedding_provider, or this project a store of its own"
    )


def _scope(connection: sqlite3.Connection) -> str:
    stored = connection.execute("SELECT scope FROM meta").fetchone()[0]
    return "shared" if stored == "SHARED_ORG" else "private"


def _is_sound(vector: Vector) -> bool:
    if not vector or len(vector) % FLOAT_BYTES:
        return False
    numbers = array("f")
    numbers.frombytes(vector)
    return math.isfinite(sum(numbers))
