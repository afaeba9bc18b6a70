"""Exact nearest neighbours over the corpus's own vectors: slower than an index, never wrong."""

from __future__ import annotations

from collections.abc import Iterable

from doxtr_rag.core.documents import Vector


def nearest(
    blocks: Iterable[list[tuple[str, Vector]]], query: Vector, top_k: int
) -> list[tuple[str, float]]:
    """Return `(text hash, cosine similarity)`, best first; ties go to the smaller hash."""
    import numpy as np  # noqa: PLC0415 - only a search that needs it pays for the import

    target = np.frombuffer(query, dtype="<f4")
    length = float(np.linalg.norm(target)) or 1.0
    best: list[tuple[float, str]] = []
    for block in blocks:
        rows = np.frombuffer(b"".join(vector for _, vector in block), dtype="<f4")
        matrix = rows.reshape(len(block), -1)
        lengths = np.linalg.norm(matrix, axis=1) * length
        scores = (matrix @ target) / np.where(lengths > 0, lengths, 1.0)
        threshold = np.partition(scores, -top_k)[-top_k] if len(block) > top_k else -np.inf
        candidates = np.flatnonzero(scores >= threshold).tolist()
        best.extend((-float(scores[at]), block[at][0]) for at in candidates)
        best = sorted(best)[:top_k]
    return [(text_hash, -score) for score, text_hash in best]
