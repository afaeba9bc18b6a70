"""One question, every store, one fused ranking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from doxtr_rag.core.cutting import clean
from doxtr_rag.core.documents import StoredChunk, Vector
from doxtr_rag.core.errors import DoxtrRagError, IndexNotBuiltError, ParityError, StoreError
from doxtr_rag.core.ports import Degradation, Embedder, SearchableStore
from doxtr_rag.core.ranking import Hit, reciprocal_rank_fusion
from doxtr_rag.retrieval.citations import citation, quote

POOL_FACTOR = 8
"""Each pool returns four windows of twice the results asked for."""

MIN_POOL = 50


@dataclass(frozen=True, slots=True)
class Passage:
    """One result: a section under its best chunk, with its receipt."""

    rank: int
    score: float
    store: str
    chunk: StoredChunk
    citation: str
    quote: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question found, and what it had to do without."""

    query: str
    passages: tuple[Passage, ...]
    degraded: tuple[Degradation, ...]


class Retriever:
    """Embeds a question once and asks dense and lexical rankings of every store."""

    def __init__(
        self,
        *,
        fingerprint: str,
        embedder: Callable[[], Embedder],
        stores: Sequence[SearchableStore],
        degraded: Sequence[Degradation] = (),
    ) -> None:
        self._fingerprint = fingerprint
        self._embedder = embedder
        self._stores = stores
        self._degraded = degraded

    def retrieve(self, query: str, *, top_k: int) -> Answer:
        """Return at most `top_k` sections, best first.

        Raises:
            ParityError: every store was embedded by another model.
            StoreError: no store could be asked.
            EmbeddingError: the question could not be embedded.
        """
        usable, degraded = self._usable()
        query = clean(query)
        vector = self._embedder().embed_query(query)
        rankings: list[list[Hit]] = []
        failures: list[StoreError] = []
        for store in usable:
            try:
                rankings += _rankings(store, query, vector, max(MIN_POOL, POOL_FACTOR * top_k))
                degraded += store.degradations()
            except StoreError as error:
                failures.append(error)
                degraded.append(_unusable(store, error))
        if len(failures) == len(usable):
            raise failures[0]
        passages = self._passages(query, reciprocal_rank_fusion(rankings), top_k)
        return Answer(query, tuple(passages), tuple(degraded))

    def _usable(self) -> tuple[list[SearchableStore], list[Degradation]]:
        usable: list[SearchableStore] = []
        refusals: list[tuple[SearchableStore, DoxtrRagError]] = []
        for store in self._stores:
            try:
                self._require_own_model(store)
            except (ParityError, StoreError) as error:
                refusals.append((store, error))
            else:
                usable.append(store)
        if not usable:
            raise refusals[0][1]
        if all(store.fingerprint() is None for store in usable):
            raise IndexNotBuiltError(
                "the knowledge base is empty: run sphinx-build; doxtr-rag status says how the last "
                "build ended"
            )
        return usable, [*self._degraded, *(_unusable(store, error) for store, error in refusals)]

    def _require_own_model(self, store: SearchableStore) -> None:
        held = store.fingerprint()
        if held is not None and held != self._fingerprint:
            raise ParityError(
                f"the vectors of the {store.name} store were made by another model (fingerprint "
                f"{held[:12]}, this project's is {self._fingerprint[:12]}): run sphinx-build"
            )

    def _passages(self, query: str, fused: Sequence[Hit], top_k: int) -> list[Passage]:
        best = fused[0].score if fused else 1.0
        passages: list[Passage] = []
        seen: set[tuple[str, str, str]] = set()
        for hit, chunk in self._fetched(fused):
            section = (chunk.project, chunk.document, chunk.anchor)
            if section in seen:
                continue
            seen.add(section)
            passages.append(
                Passage(
                    rank=len(passages) + 1,
                    score=hit.score / best,
                    store=hit.store,
                    chunk=chunk,
                    citation=citation(chunk),
                    quote=quote(chunk.text, query),
                )
            )
            if len(passages) == top_k:
                break
        return passages

    def _fetched(self, fused: Sequence[Hit]) -> Iterable[tuple[Hit, StoredChunk]]:
        chunks: dict[tuple[str, str], StoredChunk] = {}
        for store in self._stores:
            ids = [hit.chunk_id for hit in fused if hit.store == store.name]
            if ids:
                found = store.fetch(ids)
                chunks.update({(store.name, chunk_id): c for chunk_id, c in found.items()})
        for hit in fused:
            chunk = chunks.get((hit.store, hit.chunk_id))
            if chunk is not None:
                yield hit, chunk


def _rankings(store: SearchableStore, query: str, vector: Vector, pool: int) -> list[list[Hit]]:
    pools = [store.dense(vector, pool), store.lexical(query, pool)]
    return [[replace(hit, store=store.name) for hit in ranking] for ranking in pools]


def _unusable(store: SearchableStore, error: DoxtrRagError) -> Degradation:
    return Degradation(error.kind, f"{store.name}: {error}")
