"""A tokenizer and an embedder without a model."""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Iterator, Sequence
from itertools import islice

from doxtr_rag.core.documents import Vector
from doxtr_rag.core.errors import EmbeddingError
from doxtr_rag.core.ports import EmbeddingCounts
from doxtr_rag.testing.records import Journal

WORD = re.compile(r"\w+")
CHARACTERS_PER_TOKEN = 8


class WordCounter:
    """A token per started eight characters of a word, and two special tokens a text."""

    def __init__(self) -> None:
        self.calls = 0

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, special tokens included."""
        self.calls += 1
        return [
            2 + sum(math.ceil(len(word) / CHARACTERS_PER_TOKEN) for word in text.split())
            for text in texts
        ]


class HashEmbedder:
    """Equal texts get equal vectors, texts that share words near ones; no model involved.

    Batches come longest text first, as a real embedder's may. `fails_after` texts it raises, the
    way a crash in the middle of a run would look.
    """

    def __init__(
        self,
        dimension: int = 32,
        *,
        fingerprint: str = "hash-embedder",
        batch_size: int = 4,
        fails_after: int | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.dimension = dimension
        self.fingerprint = fingerprint
        self.fails_after = fails_after
        self.embedded: list[str] = []
        self.queries: list[str] = []
        self._batch_size = batch_size
        self._journal: Journal = [] if journal is None else journal

    @property
    def counts(self) -> EmbeddingCounts:
        """What was done since this embedder was made."""
        tokens = sum(WordCounter().count(self.embedded))
        return EmbeddingCounts(texts=len(self.embedded), tokens=tokens, padded_tokens=tokens)

    def embed(self, texts: Sequence[str]) -> Iterator[list[tuple[int, Vector]]]:
        """Yield `(index into texts, vector)` batch by batch, longest texts first.

        Raises:
            EmbeddingError: `fails_after` texts were embedded.
        """
        order = iter(sorted(range(len(texts)), key=lambda index: -len(texts[index])))
        while batch := list(islice(order, self._batch_size)):
            if self.fails_after is not None and len(self.embedded) >= self.fails_after:
                raise EmbeddingError(f"stopped after {self.fails_after} texts, as asked")
            self._journal.append(("embedder", "embed"))
            self.embedded.extend(texts[index] for index in batch)
            yield [(index, self._vector(texts[index])) for index in batch]

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a question."""
        self.queries.append(text)
        return self._vector(text)

    def _vector(self, text: str) -> Vector:
        components = [0.0] * self.dimension
        for word in WORD.findall(text.casefold()):
            components[_bucket(word, self.dimension)] += 1.0
        # Tells texts of the same words apart without outweighing a shared word.
        components[_bucket(f"{self.fingerprint}\0{text}", self.dimension)] += 0.01
        norm = math.sqrt(sum(component**2 for component in components))
        return struct.pack(f"<{self.dimension}f", *(component / norm for component in components))


def _bucket(key: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(key.encode("utf-8", "replace")).digest()[:8], "big") % size
