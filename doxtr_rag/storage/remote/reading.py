"""Records of a Chroma server as chunks; what a record lacks is read as the Pi extension does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from doxtr_rag.core.addressing import section_id
from doxtr_rag.core.documents import NO_METADATA, Locator, StoredChunk
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage.remote.collection import Record


def stored_chunk(record: Record, scope: Scope) -> StoredChunk:
    """Return the chunk of a record; `scope` is that of a record which does not name one."""
    said = record.get("metadata")
    metadata: Mapping[str, Any] = said if isinstance(said, dict) else {}
    chunk_id, text = str(record["id"]), record.get("text")
    project = text_of(metadata, "project")
    document, anchor = chunk_place(chunk_id, project)
    named = text_of(metadata, "access_scope")
    return StoredChunk(
        chunk_id=chunk_id,
        project=project,
        document=document,
        anchor=anchor,
        text=text if isinstance(text, str) else "",
        breadcrumb=titles_of(metadata),
        url=text_of(metadata, "url"),
        source_file=text_of(metadata, "source_file"),
        locator=_locator(_parsed(text_of(metadata, "provenance"))),
        scope=Scope(named) if named in {each.value for each in Scope} else scope,
        text_hash=text_of(metadata, "text_hash") or chunk_id,
        content_hash=text_of(metadata, "content_hash"),
        links=(),
        metadata=NO_METADATA,
    )


def position(record: Record) -> int:
    """Return a record's place in its document; 0 where that is not said."""
    metadata = record.get("metadata")
    place = metadata.get("position") if isinstance(metadata, dict) else None
    return place if isinstance(place, int) else 0


def chunk_place(chunk_id: str, project: str) -> tuple[str, str]:
    """Return the document and the anchor that a chunk id of a project names."""
    path, _, anchor = section_id(chunk_id).partition("#")
    return _unreserved(path.removeprefix(f"{project}/"), "#"), _unreserved(anchor, "~")


def text_of(metadata: Mapping[str, Any], key: str) -> str:
    """Return a text of a record's metadata; "" for anything else."""
    value = metadata.get(key)
    return value if isinstance(value, str) else ""


def titles_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the breadcrumb of a record."""
    titles = _parsed(text_of(metadata, "breadcrumb"))
    if not isinstance(titles, list):
        return ()
    return tuple(title for title in titles if isinstance(title, str) and title)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _locator(value: Any) -> Locator | None:
    if isinstance(value, dict):
        value = [value.get(key) for key in ("kind", "value", "end")]
    if not isinstance(value, list):
        return None
    kind, place, end = (*value, None, None, None)[:3]
    if not isinstance(kind, str) or not _is_place(place):
        return None
    return Locator(kind, place, end if _is_place(end) else None)


def _is_place(value: object) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _unreserved(name: str, separator: str) -> str:
    """Undo the percent-encoding of one separator in a chunk id (`core.identity.chunk_id`)."""
    code = f"{ord(separator):02X}"

    def plain(match: re.Match[str]) -> str:
        deeper = match[1]
        return f"%{deeper[2:]}{code}" if deeper else separator

    return re.sub(f"%((?:25)*){code}", plain, name)
