"""Turns text into vectors with a local ONNX model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from doxtr_rag.core.documents import Vector
from doxtr_rag.core.errors import EmbeddingError
from doxtr_rag.core.ports import EmbeddingCounts
from doxtr_rag.core.profiles import EmbeddingProfile, Pooling
from doxtr_rag.embedding.batching import distinct, longest_first, next_batch
from doxtr_rag.embedding.registry import fetch_command
from doxtr_rag.embedding.session import CUDA, ModelSession, usable_cores
from doxtr_rag.embedding.tokenizer import ProfileTokenizer

CPU_BUDGET = 2_048
CUDA_BUDGET = 65_536
"""Padded tokens a batch: past these, memory grows and speed does not."""

CORE_BUDGET = 256
"""Padded tokens a core: past these, a small model's layers leave the core's own cache."""

LEAST_BUDGET = 512
"""Padded tokens a batch below which reading a large model's weights shows."""


class Session(Protocol):
    """What the embedder needs of a loaded model."""

    @property
    def provider(self) -> str:
        """The execution provider the model runs on."""
        ...

    @property
    def fixed_batch(self) -> int | None:
        """The only number of rows the model takes; None when it takes any."""
        ...

    def run(
        self, output: str, ids: NDArray[np.int64], mask: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Run one padded batch; MemoryError when it does not fit."""
        ...


def cpu_budget(cores: int) -> int:
    """Return the padded tokens of a batch that so many cores run fastest."""
    return min(CPU_BUDGET, max(LEAST_BUDGET, CORE_BUDGET * cores))


class OnnxEmbedder:
    """Embeds in length-sorted batches; a text's vector does not depend on its batch.

    A tokenizer or session that is loaded already can be passed in, and a budget of padded tokens
    other than the device's.
    """

    def __init__(
        self,
        profile: EmbeddingProfile,
        folder: Path,
        device: str = "auto",
        *,
        tokenizer: ProfileTokenizer | None = None,
        session: Session | None = None,
        budget: int | None = None,
    ) -> None:
        self._profile = profile
        self._tokenizer = tokenizer or ProfileTokenizer(profile, folder)
        self._session = session or ModelSession(profile, folder, device)
        is_cuda = self._session.provider == CUDA
        self._budget = budget or (CUDA_BUDGET if is_cuda else cpu_budget(usable_cores()))
        self._counts = EmbeddingCounts()
        self._counting = Lock()

    @property
    def fingerprint(self) -> str:
        """The identity of the model."""
        return self._profile.fingerprint

    @property
    def dimension(self) -> int:
        """The number of components of a vector."""
        return self._profile.dimension

    @property
    def provider(self) -> str:
        """The execution provider the model runs on, as onnxruntime names it."""
        return self._session.provider

    @property
    def counts(self) -> EmbeddingCounts:
        """What was done since this embedder was made; identical texts of one call count once."""
        return self._counts

    def embed(self, texts: Sequence[str]) -> Iterator[list[tuple[int, Vector]]]:
        """Yield `(index into texts, vector)` batch by batch, longest texts first.

        Raises:
            EmbeddingError: the model failed, or gave something that is not a vector.
        """
        places = distinct(texts)
        where = list(places.values())
        for batch in self._run_all([self._profile.passage_prefix + text for text in places]):
            yield [(index, vector) for text, vector in batch for index in where[text]]

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a question.

        Raises:
            EmbeddingError: the model failed, or gave something that is not a vector.
        """
        [[(_, vector)]] = self._run_all([self._profile.query_prefix + text])
        return vector

    def _run_all(self, inputs: Sequence[str]) -> Iterator[list[tuple[int, Vector]]]:
        encoded = self._tokenizer.encode(inputs)
        self._count(EmbeddingCounts(truncated=encoded.truncated))
        lengths = [len(ids) for ids in encoded.ids]
        order = longest_first(lengths)
        start = 0
        while start < len(order):
            batch = next_batch(order, start, lengths, self._budget, self._session.fixed_batch)
            try:
                vectors = self._vectors([encoded.ids[index] for index in batch])
            except MemoryError as error:
                self._halve(len(batch), lengths[batch[0]], error)
                continue
            start += len(batch)
            yield list(zip(batch, vectors, strict=True))

    def _halve(self, rows: int, width: int, error: MemoryError) -> None:
        if rows == 1 or self._session.fixed_batch is not None:
            raise EmbeddingError(
                f"not enough memory to embed {rows} x {width} tokens at once: {error}; "
                "free some, or set rag_device to cpu"
            ) from error
        self._budget = rows * width // 2

    def _vectors(self, rows: Sequence[NDArray[np.int32]]) -> list[Vector]:
        pooled: NDArray[np.float32] | NDArray[np.float64]
        ids, mask = _padded(rows, self._profile.pad_id, self._session.fixed_batch)
        if self._profile.pooling is Pooling.CLS:
            pooled = self._session.run("sentence_embedding", ids, mask)[: len(rows)]
        else:
            hidden = self._session.run("token_embeddings", ids, mask)
            pooled = _means(hidden, rows)
        unit = self._normalised(pooled)
        tokens = sum(map(len, rows))
        self._count(EmbeddingCounts(texts=len(rows), tokens=tokens, padded_tokens=ids.size))
        return [vector.tobytes() for vector in unit]

    def _normalised(self, pooled: NDArray[np.float32] | NDArray[np.float64]) -> NDArray[np.float32]:
        wide = pooled.astype(np.float64)
        norms = np.sqrt((wide * wide).sum(axis=-1, keepdims=True))
        if wide.ndim != 2 or wide.shape[-1] != self.dimension:  # noqa: PLR2004
            raise EmbeddingError(
                f"{self._profile.name} gave vectors of shape {wide.shape}, "
                f"expected {self.dimension} components; "
                f"run: {fetch_command(self._profile, '--force')}"
            )
        if not np.isfinite(norms).all() or not norms.all():
            raise EmbeddingError(
                f"{self._profile.name} gave a vector that is not finite or is zero; the model file "
                f"is unusable on {self.provider}; set rag_device to cpu, or "
                f"run: {fetch_command(self._profile, '--force')}"
            )
        unit: NDArray[np.float32] = (wide / norms).astype("<f4")
        return unit

    def _count(self, more: EmbeddingCounts) -> None:
        with self._counting:
            self._counts += more


def _padded(
    rows: Sequence[NDArray[np.int32]], pad_id: int, fixed_batch: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ids and mask; a model of a fixed batch size gets copies of the first row."""
    filled = [*rows, *[rows[0]] * ((fixed_batch or 0) - len(rows))]
    width = max(map(len, rows))
    ids = np.full((len(filled), width), pad_id, np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(filled):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return ids, mask


def _means(hidden: NDArray[np.float32], rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float64]:
    """Average each row's own tokens; a mean inside the graph depends on the batch size."""
    return np.stack(
        [
            hidden[row, : len(tokens)].mean(axis=0, dtype=np.float64)
            for row, tokens in enumerate(rows)
        ]
    )
