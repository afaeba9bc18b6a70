"""Proving that a store can be searched: embed a text it knows and expect it back."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from doxtr_rag.core.documents import Vector
from doxtr_rag.core.errors import DoxtrRagError
from doxtr_rag.core.ports import Degradation, Embedder
from doxtr_rag.core.ranking import Hit

FLOAT_BYTES = 4
SAME_TEXT = 0.999
"""Cosine of two embeddings of one text by one model; fp32 on other hardware stays far above."""

PROBE_TOP_K = 10


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; `code` is an error's kind or a degradation's code, `ready` when all is well.

    `figures` are what was counted or measured, by name.
    """

    name: str
    code: str
    detail: str
    figures: Mapping[str, int | float] = field(default_factory=dict)

    @property
    def is_fine(self) -> bool:
        """Say whether nothing is wrong."""
        return self.code == "ready"


class ProbedStore(Protocol):
    """What the probe needs of a store."""

    @property
    def name(self) -> str:
        """The store's name in answers."""
        ...

    def fingerprint(self) -> str | None:
        """Return the fingerprint of the vectors that are searched; None when nothing is stored."""
        ...

    def sample(self) -> tuple[str, str, Vector] | None:
        """Return chunk id, embedding input and vector of a chunk; None when there is none."""
        ...

    def dense(self, vector: Vector, top_k: int) -> list[Hit]:
        """Return the nearest chunks, best first."""
        ...

    def verify(self) -> None:
        """Open the index and ask it for everything it should hold."""
        ...

    def degradations(self) -> list[Degradation]:
        """Say what this store cannot do as it should."""
        ...


def probe(store: ProbedStore, embedder: Embedder) -> Check:
    """Embed a known text and look for it; the finding says what is wrong and what mends it."""
    try:
        return _probe(store, embedder)
    except DoxtrRagError as error:
        return Check(store.name, error.kind, str(error))


def _probe(store: ProbedStore, embedder: Embedder) -> Check:
    name = store.name
    sample = store.sample()
    if sample is None:
        return Check(name, "ready", "empty: nothing of this scope was documented")
    if store.fingerprint() != embedder.fingerprint:
        return Check(name, "identity_mismatch", "embedded by another model: run sphinx-build")
    store.verify()
    chunk_id, embedding_text, known = sample
    (((_, vector),),) = list(embedder.embed([embedding_text]))
    if cosine(vector, known) < SAME_TEXT:
        detail = (
            "the model gives other vectors than those stored: run doxtr-rag fetch-weights --force"
        )
        return Check(name, "weights_corrupt", detail)
    hits = store.dense(vector, PROBE_TOP_K)
    if chunk_id not in {hit.chunk_id for hit in hits} and not _is_tied(hits):
        return Check(name, "index_corrupt", f"{chunk_id} is not found: run doxtr-rag rebuild")
    degraded = store.degradations()
    if degraded:
        return Check(name, degraded[0].code, degraded[0].detail)
    return Check(name, "ready", f"a known chunk of {len(hits)} hits was found")


def _is_tied(hits: list[Hit]) -> bool:
    """Say whether so many chunks hold the same text that one of them may be missing."""
    return len(hits) == PROBE_TOP_K and hits[-1].score >= SAME_TEXT


def cosine(left: Vector, right: Vector) -> float:
    """Return the cosine similarity of two normalised vectors; 0 when their lengths differ."""
    if len(left) != len(right):
        return 0.0
    layout = f"<{len(left) // FLOAT_BYTES}f"
    pairs = zip(struct.unpack(layout, left), struct.unpack(layout, right), strict=True)
    return math.fsum(a * b for a, b in pairs)
