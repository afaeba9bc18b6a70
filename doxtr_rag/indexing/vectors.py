"""Where the vectors of a run come from: a store that has them already, or the model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from doxtr_rag.core.documents import Vector
from doxtr_rag.core.ports import ChunkStore, Embedder, EmbeddingCounts, Progress, TokenCounter
from doxtr_rag.core.scope import Scope
from doxtr_rag.indexing.plan import ChunkPlan

T = TypeVar("T")

LOOKUP_PAGE = 1000
SAVE_EVERY = 256
"""Texts embedded between two durable writes: what a crash may cost."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model as a run sees it: its identity at once, tokenizer and session on demand."""

    fingerprint: str
    dimension: int
    counter: Callable[[], TokenCounter]
    embedder: Callable[[], Embedder]


@dataclass(slots=True)
class _Demand:
    """One text to embed and the stores that want its vector."""

    text: str
    scopes: set[Scope] = field(default_factory=set)


class VectorSupply:
    """Gives every chunk of a run a saved vector, embedding each text at most once."""

    def __init__(
        self, model: Model, stores: Mapping[Scope, ChunkStore], progress: Progress
    ) -> None:
        self._model = model
        self._stores = stores
        self._progress = progress

    def provide(self, plans: Mapping[Scope, ChunkPlan]) -> EmbeddingCounts:
        """Save a vector for every chunk of the plans; return what the model had to do.

        Raises:
            EmbeddingError: the model cannot be loaded or gave an unusable vector.
            StoreError: a vector could not be saved.
        """
        demands: dict[str, _Demand] = {}
        for scope, plan in plans.items():
            texts = {s.chunk.text_hash: s.chunk for s in plan.changed}
            for text_hash in self._not_at_hand(scope, texts):
                demand = demands.setdefault(text_hash, _Demand(texts[text_hash].embedding_text))
                demand.scopes.add(scope)
        return self._embed(demands) if demands else EmbeddingCounts()

    def _not_at_hand(self, scope: Scope, text_hashes: Collection[str]) -> set[str]:
        store, fingerprint = self._stores[scope], self._model.fingerprint
        missing = store.missing(fingerprint, text_hashes)
        for page in pages(sorted(missing), LOOKUP_PAGE):
            found: dict[str, Vector] = {}
            for other_scope, other in self._stores.items():
                if other_scope is not scope:
                    found |= other.vectors(fingerprint, [key for key in page if key not in found])
            if found:
                store.save_vectors(fingerprint, found)
                missing -= found.keys()
        return missing

    def _embed(self, demands: Mapping[str, _Demand]) -> EmbeddingCounts:
        embedder = self._model.embedder()
        keys = list(demands)
        unsaved: dict[str, Vector] = {}
        done = 0
        for batch in embedder.embed([demands[key].text for key in keys]):
            unsaved.update((keys[index], vector) for index, vector in batch)
            done += len(batch)
            self._progress("embedding", done, len(keys))
            if len(unsaved) >= SAVE_EVERY:
                self._save(unsaved, demands)
                unsaved = {}
        self._save(unsaved, demands)
        return embedder.counts

    def _save(self, vectors: Mapping[str, Vector], demands: Mapping[str, _Demand]) -> None:
        for scope, store in self._stores.items():
            own = {key: vector for key, vector in vectors.items() if scope in demands[key].scopes}
            if own:
                store.save_vectors(self._model.fingerprint, own)


def pages(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield consecutive lists of at most `size` items."""
    remaining = iter(items)
    while page := list(islice(remaining, size)):
        yield page
