"""Where the vectors of a run come from: a store that has them already, a sibling's, the model."""

from __future__ import annotations

import math
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, TypeVar

from doxtr_rag.core.documents import Vector
from doxtr_rag.core.ports import ChunkStore, Embedder, EmbeddingCounts, Progress, TokenCounter
from doxtr_rag.core.runs import Control
from doxtr_rag.core.scope import Scope
from doxtr_rag.indexing.plan import ChunkPlan

T = TypeVar("T")

LOOKUP_PAGE = 1000
SAVE_EVERY = 256
"""Texts embedded between two durable writes: what a crash may cost."""

FLOAT_BYTES = 4
NORM_TOLERANCE = 1e-3
SAME_RUN, SAME_STORE, OTHER_SCOPE, SIBLING = "same run", "same store", "other scope", "sibling"


class Donor(Protocol):
    """Corpora of others that may hold vectors of texts at hand."""

    def vectors(self, fingerprint: str, text_hashes: Iterable[str]) -> dict[str, Vector]:
        """Return what is there, by text hash; a corpus that cannot be read has nothing."""
        ...

    @property
    def used(self) -> tuple[str, ...]:
        """The places that vectors were taken from."""
        ...


@dataclass(frozen=True, slots=True)
class Model:
    """A model as a run sees it: its identity at once, tokenizer and session on demand.

    `donor` has vectors that it made elsewhere, `known_pace` the seconds that a text took it in an
    earlier run.
    """

    fingerprint: str
    dimension: int
    counter: Callable[[], TokenCounter]
    embedder: Callable[[], Embedder]
    donor: Donor | None = None
    known_pace: Callable[[], float | None] | None = None


@dataclass(frozen=True, slots=True)
class Supply:
    """Where the vectors of a run came from.

    `reused` counts chunks by the place their vector was at; `embedding_s` is the time the model
    took for the others, `pace_s` what a text takes it, None when that was never measured.
    """

    counts: EmbeddingCounts = field(default_factory=EmbeddingCounts)
    reused: Mapping[str, int] = field(default_factory=dict)
    donors: tuple[str, ...] = ()
    embedding_s: float = 0.0
    pace_s: float | None = None

    @property
    def saved_s(self) -> float | None:
        """The seconds that the model would have taken for what was reused."""
        total = sum(self.reused.values())
        return None if self.pace_s is None else round(total * self.pace_s, 3)


@dataclass(slots=True)
class _Demand:
    """One text to embed, the stores that want its vector, and how many chunks have it."""

    text: str
    scopes: set[Scope] = field(default_factory=set)
    chunks: int = 0


class VectorSupply:
    """Gives every chunk of a run a saved vector, embedding each text at most once."""

    def __init__(
        self,
        model: Model,
        stores: Mapping[Scope, ChunkStore],
        progress: Progress,
        control: Control,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._stores = stores
        self._progress = progress
        self._control = control
        self._clock = clock
        self._reused: Counter[str] = Counter()

    def provide(self, plans: Mapping[Scope, ChunkPlan]) -> Supply:
        """Save a vector for every chunk of the plans; return where they came from.

        Raises:
            EmbeddingError: the model cannot be loaded or gave an unusable vector.
            StoreError: a vector could not be saved.
            RunStoppedError: somebody stopped the run; what was embedded is saved.
        """
        demands: dict[str, _Demand] = {}
        for scope, plan in plans.items():
            texts = {s.chunk.text_hash: s.chunk for s in plan.changed}
            chunks = Counter(s.chunk.text_hash for s in plan.changed)
            for text_hash in self._not_at_hand(scope, chunks):
                demand = demands.setdefault(text_hash, _Demand(texts[text_hash].embedding_text))
                demand.scopes.add(scope)
                demand.chunks += chunks[text_hash]
        counts, seconds = self._embed(demands) if demands else (EmbeddingCounts(), 0.0)
        self._note_reuse(SAME_RUN, sum(demand.chunks - 1 for demand in demands.values()))
        pace = seconds / counts.texts if counts.texts else None
        if pace is None and self._reused and self._model.known_pace:
            pace = self._model.known_pace()
        donors = self._model.donor.used if self._model.donor else ()
        return Supply(counts, dict(self._reused), donors, seconds, pace)

    def _not_at_hand(self, scope: Scope, chunks: Mapping[str, int]) -> list[str]:
        """Return the texts without a vector anywhere; what others have is saved here too."""
        store, fingerprint = self._stores[scope], self._model.fingerprint
        missing = store.missing(fingerprint, chunks.keys())
        self._note_reuse(SAME_STORE, sum(n for key, n in chunks.items() if key not in missing))
        for page in pages(sorted(missing), LOOKUP_PAGE):
            for place, found in self._found_elsewhere(scope, page):
                store.save_vectors(fingerprint, found)
                missing -= found.keys()
                self._note_reuse(place, sum(chunks[key] for key in found))
            self._control.checkpoint()
        return sorted(missing)

    def _found_elsewhere(
        self, scope: Scope, text_hashes: list[str]
    ) -> Iterator[tuple[str, dict[str, Vector]]]:
        """Yield where vectors are and what is there, each text once."""
        left, fingerprint = text_hashes, self._model.fingerprint
        others = [store for other, store in self._stores.items() if other is not scope]
        for place, lookup in (
            *((OTHER_SCOPE, store.vectors) for store in others),
            (SIBLING, self._sound_gifts),
        ):
            found = lookup(fingerprint, left) if left else {}
            if found:
                yield place, found
                left = [key for key in left if key not in found]

    def _sound_gifts(self, fingerprint: str, text_hashes: list[str]) -> dict[str, Vector]:
        donor = self._model.donor
        gifts = donor.vectors(fingerprint, text_hashes) if donor else {}
        size = FLOAT_BYTES * self._model.dimension
        return {k: v for k, v in gifts.items() if len(v) == size and _is_unit(v)}

    def _embed(self, demands: Mapping[str, _Demand]) -> tuple[EmbeddingCounts, float]:
        embedder = self._model.embedder()
        keys = list(demands)
        unsaved: dict[str, Vector] = {}
        seconds, done = 0.0, 0

        def save() -> None:
            self._save(unsaved, demands)
            unsaved.clear()

        began = self._clock()
        try:
            for batch in embedder.embed([demands[key].text for key in keys]):
                seconds += self._clock() - began
                unsaved.update((keys[index], vector) for index, vector in batch)
                done += len(batch)
                self._control.count("embedded", len(batch))
                self._progress("embedding", done, len(keys))
                if len(unsaved) >= SAVE_EVERY:
                    save()
                self._control.checkpoint(settle=save)
                began = self._clock()
        finally:
            save()
        return embedder.counts, seconds

    def _save(self, vectors: Mapping[str, Vector], demands: Mapping[str, _Demand]) -> None:
        for scope, store in self._stores.items():
            own = {key: vector for key, vector in vectors.items() if scope in demands[key].scopes}
            if own:
                store.save_vectors(self._model.fingerprint, own)

    def _note_reuse(self, place: str, chunks: int) -> None:
        if chunks:
            self._reused[place] += chunks
            self._control.count("reused", chunks)


def _is_unit(vector: Vector) -> bool:
    """Say whether a vector is what a model could have made; a damaged one hardly has norm 1."""
    norm = math.hypot(*array("f", vector))
    return math.isfinite(norm) and abs(norm - 1.0) <= NORM_TOLERANCE


def pages(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield consecutive lists of at most `size` items."""
    remaining = iter(items)
    while page := list(islice(remaining, size)):
        yield page
