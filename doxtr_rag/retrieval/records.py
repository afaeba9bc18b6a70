"""A passage as programs receive it (interface I3, `search --json`)."""

from __future__ import annotations

from typing import TypedDict

from doxtr_rag.core.display import without_controls
from doxtr_rag.core.documents import StoredChunk
from doxtr_rag.retrieval.lines import cleaned
from doxtr_rag.retrieval.retriever import Passage


class LocatorRecord(TypedDict):
    """Where a passage sits in its source: kinds of hooks H28, `anchor` and `slide`."""

    kind: str
    value: int | str
    end: int | str | None


class HitRecord(TypedDict):
    """One hit; `url` opens the place, `quote` is a verbatim piece of `text`."""

    rank: int
    id: str
    score: float
    document: str
    title: str
    breadcrumb: list[str]
    section_id: str
    locator: LocatorRecord | None
    url: str
    citation: str
    quote: str
    scope: str
    project: str
    store: str
    text: str


def hit_record(passage: Passage, url: str) -> HitRecord:
    """Return a hit; nothing in it names a secret or steers a terminal."""
    chunk = passage.chunk
    document = without_controls(chunk.document)
    breadcrumb = [cleaned(title) for title in chunk.breadcrumb]
    return {
        "rank": passage.rank,
        "id": without_controls(chunk.chunk_id),
        "score": round(passage.score, 6),
        "document": document,
        "title": (breadcrumb[-1] if breadcrumb else "") or document,
        "breadcrumb": breadcrumb,
        "section_id": without_controls(chunk.anchor),
        "locator": locator_record(chunk),
        "url": cleaned(url),
        "citation": cleaned(passage.citation),
        "quote": cleaned(passage.quote),
        "scope": chunk.scope.value,
        "project": chunk.project,
        "store": passage.store,
        "text": cleaned(chunk.text),
    }


def locator_record(chunk: StoredChunk) -> LocatorRecord:
    """Return a chunk's locator; of a page it is the anchor."""
    locator = chunk.locator
    if locator is None:
        return {"kind": "anchor", "value": without_controls(chunk.anchor), "end": None}
    return {
        "kind": locator.kind,
        "value": _clean_place(locator.value),
        "end": None if locator.end is None else _clean_place(locator.end),
    }


def _clean_place(value: int | str) -> int | str:
    return cleaned(value) if isinstance(value, str) else value
