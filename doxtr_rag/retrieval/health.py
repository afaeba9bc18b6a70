"""Proving that a store can be searched: embed a text it knows and expect it back."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
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
    """One finding; `code` is a reason code of retrieval R51, `ready` when all is well."""

    name: str
    code: str
    detail: str

    @property
    def is_fine(self) -> bool:
        """Say whether nothing is wrong."""
        return self.code == "ready"


@dataclass(frozen=True, slots=True)
class Sample:
    """A chunk of a store with its embedding input and the vector that is stored for it."""

    chunk_id: str
    embedding_text: str
    vector: Vector


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
    found = store.sample()
    if found is None:
        return Check(name, "ready", "empty: nothing of this scope was documented")
    held = store.fingerprint()
    if held != embedder.fingerprint:
        return Check(name, "identity_mismatch", "embedded by another model: build again")
    store.verify()
    sample = Sample(*found)
    (((_, vector),),) = list(embedder.embed([sample.embedding_text]))
    if cosine(vector, sample.vector) < SAME_TEXT:
        detail = "the model gives other vectors than those stored: doxtr-rag fetch-weights --force"
        return Check(name, "weights_corrupt", detail)
    hits = store.dense(vector, PROBE_TOP_K)
    if sample.chunk_id not in {hit.chunk_id for hit in hits} and not _is_tied(hits):
        return Check(name, "index_corrupt", f"{sample.chunk_id} is not found: doxtr-rag rebuild")
    for degradation in store.degradations():
        return Check(name, degradation.code, degradation.detail)
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
