"""A chunk as a row of the corpus, and back."""

from __future__ import annotations

import json
import sqlite3

from doxtr_rag.core.documents import Locator, ScopedChunk, StoredChunk
from doxtr_rag.core.scope import Scope

ROW_COLUMNS = (
    "id",
    "project",
    "origin",
    "document",
    "anchor",
    "text",
    "header",
    "title",
    "breadcrumb",
    "url",
    "source_file",
    "locator",
    "links",
    "metadata",
    "scope",
    "content_hash",
    "text_hash",
    "tokens",
    "position",
)
STORED_COLUMNS = (
    "id, project, document, anchor, text, breadcrumb, url, source_file, locator, scope, "
    "text_hash, content_hash, links, metadata"
)

Row = tuple[str | int | None, ...]


def row_of(scoped: ScopedChunk, origin: str) -> Row:
    """Return the values of `ROW_COLUMNS`."""
    chunk = scoped.chunk
    return (
        chunk.chunk_id,
        chunk.project,
        origin,
        chunk.document,
        chunk.anchor,
        chunk.text,
        chunk.header,
        chunk.title,
        _json(list(chunk.breadcrumb)),
        chunk.url,
        chunk.source_file,
        _locator_json(chunk.locator),
        _json(list(chunk.links)),
        _json(dict(chunk.metadata)),
        scoped.scope.value,
        scoped.content_hash,
        chunk.text_hash,
        chunk.tokens,
        chunk.position,
    )


def stored_chunk(row: sqlite3.Row | tuple[str, ...]) -> StoredChunk:
    """Return the chunk of a row of `STORED_COLUMNS`."""
    (chunk_id, project, document, anchor, text, breadcrumb, url, source_file) = row[:8]
    (locator, scope, text_hash, content_hash, links, metadata) = row[8:]
    return StoredChunk(
        chunk_id=chunk_id,
        project=project,
        document=document,
        anchor=anchor,
        text=text,
        breadcrumb=tuple(json.loads(breadcrumb)),
        url=url,
        source_file=source_file,
        locator=None if locator is None else Locator(*json.loads(locator)),
        scope=Scope(scope),
        text_hash=text_hash,
        content_hash=content_hash,
        links=tuple(json.loads(links)),
        metadata=json.loads(metadata),
    )


def _locator_json(locator: Locator | None) -> str | None:
    return None if locator is None else _json([locator.kind, locator.value, locator.end])


def _json(value: object) -> str:
    # Readable letters, since the text index reads the breadcrumb as it is stored.
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
