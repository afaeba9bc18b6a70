"""The chunks of a corpus as records of a Chroma collection (interface I4)."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from doxtr_rag.core.documents import DocumentChunk, Locator, ScopedChunk, Vector
from doxtr_rag.core.scope import Scope, ScopeDecision, ScopeSignal
from doxtr_rag.storage import corpus
from doxtr_rag.storage.database import Database
from doxtr_rag.storage.remote.manifest import SCHEMA, Pair

States = dict[str, str]
"""Chunk id -> what its record stands for; equal states need not be sent again."""

_STATES = (
    "SELECT id, content_hash FROM chunks WHERE project = ? AND origin = ? "
    "ORDER BY document, position, id"
)
_OUTGOING = (
    "SELECT c.id, c.project, c.origin, c.document, c.anchor, c.text, c.header, c.breadcrumb, "
    "c.url, c.source_file, c.locator, c.scope, c.content_hash, c.text_hash, c.position, c.title, "
    "v.vector FROM chunks c JOIN vectors v ON v.text_hash = c.text_hash AND v.fingerprint = ? "
    "WHERE c.id IN (SELECT value FROM json_each(?))"
)


@dataclass(frozen=True, slots=True)
class OutgoingChunk:
    """A chunk with its vector, on its way to a guard and then to a server."""

    scoped: ScopedChunk
    vector: Vector
    metadata: Mapping[str, str | int]

    def size(self) -> int:
        """Return about how many bytes its record has as JSON."""
        texts = [self.scoped.chunk.text, *map(str, self.metadata.values())]
        return len(self.vector) * 4 // 3 + sum(len(text.encode()) + 24 for text in texts)


class CorpusView:
    """Reads a corpus the way a server should see it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pairs(self) -> set[Pair]:
        """Return the projects and origins that have chunks.

        Raises:
            StoreError: the corpus cannot be read.
        """
        with self._database.reading() as connection:
            return set(connection.execute("SELECT DISTINCT project, origin FROM chunks").fetchall())

    def states(self, pair: Pair, fingerprint: str) -> States:
        """Return what the records of a project and origin should stand for, in reading order.

        Raises:
            StoreError: the corpus cannot be read.
        """
        with self._database.reading() as connection:
            rows = connection.execute(_STATES, pair).fetchall()
        return {key: state(content_hash, fingerprint, SCHEMA) for key, content_hash in rows}

    def outgoing(self, chunk_ids: Sequence[str], fingerprint: str) -> list[OutgoingChunk]:
        """Return chunks in the order asked for; those without a vector are left out.

        Raises:
            StoreError: the corpus cannot be read.
        """
        with self._database.reading() as connection:
            rows = connection.execute(_OUTGOING, (fingerprint, corpus.listed(chunk_ids))).fetchall()
        found = {row[0]: _outgoing(row, fingerprint) for row in rows}
        return [found[chunk_id] for chunk_id in chunk_ids if chunk_id in found]


def state(content_hash: object, fingerprint: object, schema: object) -> str:
    """Return what a record stands for: its chunk, the model of its vector, its layout."""
    return hashlib.sha256(f"{content_hash}/{fingerprint}/{schema}".encode()).hexdigest()[:32]


def state_of(metadata: Mapping[str, Any]) -> str:
    """Return what a record of a server stands for."""
    return state(*(metadata.get(key) for key in ("content_hash", "fingerprint", "schema")))


def digest(states: States) -> str:
    """Return the hash of ids and states, whatever their order."""
    total = hashlib.sha256()
    for chunk_id in sorted(states):
        total.update(f"{chunk_id}\n{states[chunk_id]}\n".encode("utf-8", "surrogatepass"))
    return total.hexdigest()


def body_of(
    chunks: Sequence[OutgoingChunk], present_keys: Mapping[str, Collection[str]]
) -> dict[str, Any]:
    """Return the body of an upsert.

    `present_keys` are those of records on the server: an upsert merges metadata, and only null
    removes a key.
    """
    ids = [chunk.scoped.chunk.chunk_id for chunk in chunks]
    return {
        "ids": ids,
        "embeddings": [base64.b64encode(chunk.vector).decode() for chunk in chunks],
        "documents": [chunk.scoped.chunk.text for chunk in chunks],
        "metadatas": [
            dict.fromkeys(present_keys.get(chunk_id, ())) | dict(chunk.metadata)
            for chunk_id, chunk in zip(ids, chunks, strict=True)
        ],
    }


def batches(
    chunks: Iterable[OutgoingChunk], most_records: int, most_bytes: int
) -> Iterable[list[OutgoingChunk]]:
    """Yield consecutive chunks, few and small enough for one request; never none."""
    batch: list[OutgoingChunk] = []
    size = 0
    for chunk in chunks:
        if batch and (len(batch) == most_records or size + chunk.size() > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(chunk)
        size += chunk.size()
    if batch:
        yield batch


def _outgoing(row: Sequence[Any], fingerprint: str) -> OutgoingChunk:
    (chunk_id, project, origin, document, anchor, text, header, breadcrumb) = row[:8]
    (url, source_file, locator, scope, content_hash, text_hash, position, title, vector) = row[8:]
    place = Locator(*json.loads(locator)) if locator else None
    shown = place or Locator("anchor", anchor)
    stored = Scope(scope)
    chunk = DocumentChunk(
        chunk_id=chunk_id,
        project=project,
        document=document,
        anchor=anchor,
        text=text,
        header=header,
        breadcrumb=tuple(json.loads(breadcrumb)),
        url=url,
        source_file=source_file,
        locator=place,
        position=position,
    )
    return OutgoingChunk(
        ScopedChunk(chunk, ScopeDecision(stored, ScopeSignal("corpus", stored, "as stored"))),
        vector,
        {
            "source_file": source_file,
            "section_title": title,
            "breadcrumb": breadcrumb,
            "access_scope": scope,
            "content_hash": content_hash,
            "provenance": json.dumps({"kind": shown.kind, "value": shown.value, "end": shown.end}),
            "project": project,
            "url": url,
            "text_hash": text_hash,
            "document": document,
            "origin": origin,
            "position": position,
            "fingerprint": fingerprint,
            "schema": SCHEMA,
        },
    )
