"""Ranked lists of chunks and how to fuse them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from doxtr_rag.core.addressing import section_id

RANK_CONSTANT = 60
"""k of reciprocal rank fusion (Cormack, Clarke, Buettcher 2009)."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One retrieved chunk and its score in the ranking it belongs to."""

    chunk_id: str
    text_hash: str
    store: str
    score: float


def reciprocal_rank_fusion(
    rankings: Iterable[Sequence[Hit]], *, rank_constant: int = RANK_CONSTANT
) -> list[Hit]:
    """Merge rankings by rank alone: score = sum of 1 / (rank_constant + rank), rank from 1.

    Equal texts count once per ranking and keep the store in which they were seen first. Ties go
    to the store that was asked first, then to the smaller chunk id (retrieval R27).
    """
    scores: defaultdict[str, float] = defaultdict(float)
    first_seen: dict[str, Hit] = {}
    stores: dict[str, int] = {}
    for ranking in rankings:
        counted: set[str] = set()
        for rank, hit in enumerate(ranking, start=1):
            stores.setdefault(hit.store, len(stores))
            if hit.text_hash in counted:
                continue
            counted.add(hit.text_hash)
            scores[hit.text_hash] += 1 / (rank_constant + rank)
            first_seen.setdefault(hit.text_hash, hit)
    fused = (replace(hit, score=scores[key]) for key, hit in first_seen.items())
    return sorted(fused, key=lambda hit: (-hit.score, stores[hit.store], hit.chunk_id))


def best_sections(fused: Iterable[Hit], count: int) -> list[Hit]:
    """Return the best hit of each section, best sections first, at most `count` of them."""
    sections: dict[str, Hit] = {}
    for hit in fused:
        if len(sections) == count:
            break
        sections.setdefault(section_id(hit.chunk_id), hit)
    return list(sections.values())
