"""How many of the exact nearest neighbours an index finds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doxtr_rag.core.documents import Vector
from doxtr_rag.core.errors import StoreUnavailableError
from doxtr_rag.storage import chroma, corpus, exact
from doxtr_rag.storage.corpus import CorpusState
from doxtr_rag.storage.database import Database, open_for_reading
from doxtr_rag.storage.index_check import (
    SEED,
    changed_files,
    opened_index,
    sample,
    searched_texts,
    settled,
)

QUESTIONS = 200
TOP_K = 10
LEAST_RECALL = 0.99
QUESTION_COSINE = 0.9
"""How near a question is to the vector it was made from, so that it is not the record itself."""

TIE = 1e-5


@dataclass(frozen=True, slots=True)
class Recall:
    """The share of the exact answers to some questions that the index finds."""

    questions: int
    share: float

    @property
    def is_enough(self) -> bool:
        """Say whether a search through the index is as good as it should be."""
        return not self.questions or self.share >= LEAST_RECALL


def recall(folder: Path, seed: int = SEED, questions: int = QUESTIONS) -> Recall:
    """Ask the index and the corpus for the neighbours of vectors near some of its own.

    Raises:
        IndexNotBuiltError: nothing was ever stored there.
        StoreUnavailableError: the index is behind its corpus, or broken.
        StoreError: the corpus cannot be read.
    """
    with closing(open_for_reading(folder)) as database:

        def look(state: CorpusState) -> Recall:
            if not state.generation:
                return Recall(0, 1.0)
            if changed_files(folder, state):
                raise StoreUnavailableError(
                    f"{folder}: the index is not the files that were written"
                )
            with opened_index(folder, state) as index:
                return measure(index, database, state.fingerprint, seed, questions)

        return settled(folder, database, look)


def measure(
    index: chroma.ChromaGeneration,
    database: Database,
    fingerprint: str,
    seed: int = SEED,
    questions: int = QUESTIONS,
) -> Recall:
    """Measure an open index of everything the corpus has of this fingerprint.

    Raises:
        StoreUnavailableError: the index is broken.
        StoreError: the corpus cannot be read.
    """
    texts = searched_texts(database, fingerprint)
    vectors = corpus.read_vectors(database, fingerprint, sample(texts, questions, seed))
    if not vectors:
        return Recall(0, 1.0)
    asked = _near([vector for _, vector in sorted(vectors.items())], seed)
    top_k = min(TOP_K, len(texts))
    found = 0
    for question, least in zip(
        asked, _least_scores(database, fingerprint, asked, top_k), strict=True
    ):
        hits = [text_hash for text_hash, _ in index.nearest(question, top_k)]
        # Scored by the corpus, since what an index says of itself proves nothing. A tie is no miss.
        block = list(corpus.read_vectors(database, fingerprint, hits).items())
        scored = exact.nearest([block], question, top_k)
        found += sum(score >= least - TIE for _, score in scored)
    return Recall(len(asked), found / (top_k * len(asked)))


def _near(vectors: Sequence[Vector], seed: int) -> list[Vector]:
    """Return a question near each vector, in a random direction from it."""
    import numpy as np  # noqa: PLC0415 - as in storage.exact

    known = _matrix(vectors)
    noise = np.random.default_rng(seed).standard_normal(known.shape, dtype="f4")
    noise -= np.sum(noise * known, axis=1, keepdims=True) * known
    lengths = np.linalg.norm(noise, axis=1, keepdims=True)
    noise /= np.where(lengths > 0, lengths, 1)
    turned = QUESTION_COSINE * known + (1 - QUESTION_COSINE**2) ** 0.5 * noise
    return [row.astype("<f4").tobytes() for row in turned]


def _least_scores(
    database: Database, fingerprint: str, questions: Sequence[Vector], top_k: int
) -> list[float]:
    """Return the score of the last exact neighbour of each question, in one pass."""
    import numpy as np  # noqa: PLC0415 - as in storage.exact

    asked = _unit(_matrix(questions))
    best = np.full((len(asked), top_k), -np.inf, dtype="f4")
    for block in corpus.searched_vectors(database, fingerprint):
        scores = asked @ _unit(_matrix([vector for _, vector in block])).T
        best = np.sort(np.concatenate([best, scores], axis=1), axis=1)[:, -top_k:]
    return [float(score) for score in best[:, 0]]


def _matrix(vectors: Sequence[Vector]) -> Any:
    import numpy as np  # noqa: PLC0415 - as in storage.exact

    return np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1)


def _unit(rows: Any) -> Any:
    import numpy as np  # noqa: PLC0415 - as in storage.exact

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)
