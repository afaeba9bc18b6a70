"""Vectors that a server has already, so that a machine without a corpus embeds nothing again."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterator
from typing import Any

from doxtr_rag.core.documents import Vector
from doxtr_rag.storage.remote.collection import Record, RemoteCollection
from doxtr_rag.storage.remote.reading import text_of

TEXT_PAGE = 250
RECORD_PAGE = 500
"""A vector of 1024 numbers takes twelve thousand characters in an answer."""

UNIT_TOLERANCE = 1e-3


def vectors_of(
    chunks: RemoteCollection, fingerprint: str, text_hashes: Collection[str], dimension: int | None
) -> Iterator[dict[str, Vector]]:
    """Yield the vectors that one model made of some texts, whichever project they belong to.

    Raises:
        IndexNotBuiltError: there is no such collection.
        StoreError: the server cannot be asked.
    """
    wanted = sorted(text_hashes)
    for at in range(0, len(wanted), TEXT_PAGE):
        page = wanted[at : at + TEXT_PAGE]
        where = {"$and": [{"fingerprint": fingerprint}, {"text_hash": {"$in": page}}]}
        for records in chunks.records(where, ["metadatas", "embeddings"], page=RECORD_PAGE):
            yield _sound(records, dimension)


def _sound(records: Collection[Record], dimension: int | None) -> dict[str, Vector]:
    """Return the vectors that can be what they claim to be."""
    found = {}
    for record in records:
        vector = vector_of(record.get("embedding"))
        metadata = record.get("metadata")
        is_fit = dimension is None or len(vector) == dimension
        length = math.hypot(*vector)
        if is_fit and isinstance(metadata, dict) and abs(length - 1.0) < UNIT_TOLERANCE:
            found[text_of(metadata, "text_hash")] = vector.tobytes()
    return found


def vector_of(numbers: Any) -> array[float]:
    """Return the numbers of an answer as float32; none, when they are none."""
    try:
        return array("f", numbers)
    except (TypeError, OverflowError):
        return array("f")
