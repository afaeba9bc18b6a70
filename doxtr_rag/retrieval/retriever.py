"""One question, every store, one fused ranking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from doxtr_rag.core.cutting import clean
from doxtr_rag.core.display import without_controls
from doxtr_rag.core.documents import StoredChunk
from doxtr_rag.core.errors import DoxtrRagError, IndexNotBuiltError, ParityError, StoreError
from doxtr_rag.core.ports import Degradation, Embedder, PoolRequest, Pools, SearchableStore
from doxtr_rag.core.ranking import Hit, best_sections, reciprocal_rank_fusion
from doxtr_rag.retrieval.citations import citation, quote

POOL_FACTOR = 8
"""Each pool returns four windows of twice the results asked for (retrieval R26)."""

MIN_POOL = 50
BEST_FACTOR = 2
"""A store sends the texts of so many times the sections asked for."""


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


def is_blank(query: str) -> bool:
    """Say whether a question has nothing but white space and control characters."""
    return not without_controls(query).strip()


class Retriever:
    """Embeds a question once and asks the pools of every store at the same time."""

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
        self._stores = {store.name: store for store in stores}
        self._degraded = degraded

    def retrieve(self, query: str, *, top_k: int, documents: str = "") -> Answer:
        """Return at most `top_k` sections, best first; of a blank question none, and ask nobody.

        `documents` restricts every pool: see `core.addressing.document_matcher`.

        Raises:
            ParityError: every store was embedded by another model.
            StoreError: no store could be asked.
            EmbeddingError: the question could not be embedded.
        """
        if is_blank(query):
            return Answer("", (), ())
        query = clean(query)
        request = PoolRequest(
            query=query,
            vector=self._embedder().embed_query(query),
            fingerprint=self._fingerprint,
            size=max(MIN_POOL, POOL_FACTOR * top_k),
            best=BEST_FACTOR * top_k,
            documents=documents,
        )
        found, degraded = self._ask(request)
        fused = reciprocal_rank_fusion(
            ranking for pools in found.values() for ranking in pools.rankings.values()
        )
        if not fused and not documents:
            raise IndexNotBuiltError(
                "the knowledge base is empty: run sphinx-build; doxtr-rag status says how the last "
                "build ended"
            )
        best = best_sections(fused, top_k)
        passages = self._passages(query, best, self._texts(best, found))
        return Answer(query, tuple(passages), tuple(degraded))

    def _ask(self, request: PoolRequest) -> tuple[dict[str, Pools], list[Degradation]]:
        """Return what each store said, in the order of the stores; one that fails is named."""
        found: dict[str, Pools] = {}
        failures: list[DoxtrRagError] = []
        degraded = list(self._degraded)
        with ThreadPoolExecutor(len(self._stores)) as threads:
            asked = {
                name: threads.submit(store.pools, request) for name, store in self._stores.items()
            }
        for name, future in asked.items():
            try:
                found[name] = future.result()
                degraded += found[name].degraded
            except (ParityError, StoreError) as error:
                failures.append(error)
                degraded.append(Degradation(error.kind, f"{name}: {error}"))
        if not found:
            raise failures[0]
        return found, degraded

    def _texts(
        self, best: Sequence[Hit], found: Mapping[str, Pools]
    ) -> dict[tuple[str, str], StoredChunk]:
        """Return the chunks of hits by store and id, those that were not sent along too."""
        texts = {(name, key): c for name, pools in found.items() for key, c in pools.chunks.items()}
        for name in found:
            missing = [
                hit.chunk_id
                for hit in best
                if hit.store == name and (name, hit.chunk_id) not in texts
            ]
            if missing:
                fetched = self._stores[name].fetch(missing)
                texts.update({(name, key): chunk for key, chunk in fetched.items()})
        return texts

    @staticmethod
    def _passages(
        query: str, best: Sequence[Hit], texts: Mapping[tuple[str, str], StoredChunk]
    ) -> list[Passage]:
        passages: list[Passage] = []
        for hit in best:
            chunk = texts.get((hit.store, hit.chunk_id))
            if chunk is None:  # deleted since the store was asked
                continue
            passages.append(
                Passage(
                    rank=len(passages) + 1,
                    score=hit.score / best[0].score,
                    store=hit.store,
                    chunk=chunk,
                    citation=citation(chunk),
                    quote=quote(chunk.text, query),
                )
            )
        return passages
