"""Real chunk vectors to measure with, and larger sets derived from them.

3,318 are the chunks of Sphinx's documentation, as `make bench` builds it. The rest are
docstrings of the standard library and of the installed packages. All are embedded by
`minilm-offline` (384 dimensions) and kept in `.cache/bench`. What is derived says so: jittered
copies, and the same vectors in more dimensions through a fixed orthonormal projection, which
changes no distance.
"""

from __future__ import annotations

import ast
import hashlib
import sqlite3
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from bench_projects import FOLDER, WITH, fresh_project
from corpus_readings import CORPUS, STORES

from doxtr_rag.bootstrap.project import model_folders
from doxtr_rag.config.environment import read_environment
from doxtr_rag.embedding.onnx import OnnxEmbedder
from doxtr_rag.embedding.registry import MINILM_OFFLINE
from doxtr_rag.embedding.weights import fetch

KEPT_IN = FOLDER / "real_vectors.npy"
WANTED = 10_500
"""10,000 for a store, and questions that are not in it."""

DOCSTRING_LENGTHS = range(200, 1600)
SEED = 20_260

Matrix = np.ndarray[Any, np.dtype[np.float32]]


def real_vectors() -> Matrix:
    """Return about `WANTED` different real vectors of length 1, in an order that mixes them."""
    if not KEPT_IN.is_file():
        KEPT_IN.parent.mkdir(parents=True, exist_ok=True)
        np.save(KEPT_IN, _embed_all())
    found: Matrix = np.load(KEPT_IN)
    return found


def jittered(vectors: Matrix, cosine: float, seed: int) -> Matrix:
    """Return vectors in random directions from the given ones, at that cosine from each."""
    draw = np.random.default_rng(seed)
    noise = draw.standard_normal(vectors.shape, dtype=np.float32)
    noise -= np.sum(noise * vectors, axis=1, keepdims=True) * vectors
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    turned: Matrix = cosine * vectors + np.float32((1 - cosine**2) ** 0.5) * noise
    return turned / np.linalg.norm(turned, axis=1, keepdims=True)


def copies(vectors: Matrix, count: int, cosine: float) -> Matrix:
    """Return that many vectors: the given ones, then jittered copies of them."""
    rounds = -(-count // len(vectors))
    more = [jittered(vectors, cosine, SEED + at) for at in range(1, rounds)]
    return np.concatenate([vectors, *more])[:count]


def projected(vectors: Matrix, dimension: int) -> Matrix:
    """Return the vectors in more dimensions, by a fixed random orthonormal projection."""
    draw = np.random.default_rng(SEED)
    square = draw.standard_normal((dimension, vectors.shape[1]))
    axes, _ = np.linalg.qr(square)
    return (vectors @ axes.T.astype(np.float32)).astype(np.float32)


def _embed_all() -> Matrix:
    known = dict(_documentation())
    folder = fetch(MINILM_OFFLINE, model_folders(read_environment()))
    texts = sorted(_docstrings(), key=_digest)[: WANTED - len(known)]
    embedder = OnnxEmbedder(MINILM_OFFLINE, folder)
    for batch in embedder.embed(texts):
        known.update((_digest(texts[at]), vector) for at, vector in batch)
    ordered = b"".join(known[key] for key in sorted(known))
    rows = np.frombuffer(ordered, dtype="<f4").reshape(len(known), -1)
    different: Matrix = np.unique(rows, axis=0)
    return different[np.random.default_rng(SEED).permutation(len(different))]


def _documentation() -> Iterator[tuple[str, bytes]]:
    """Yield text hash and vector of every chunk of Sphinx's documentation."""
    stores = [*(FOLDER / "with").glob(f"*/.doxtr/*/{CORPUS}")]
    if not stores:
        project = fresh_project("with", WITH)
        project.build("cold")
        stores = [project.root / ".doxtr" / name / CORPUS for name in STORES]
    for store in stores:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
            yield from connection.execute("SELECT text_hash, vector FROM vectors")


def _docstrings() -> set[str]:
    """Return the docstrings of all that is installed, read without importing any of it."""
    paths = sysconfig.get_paths()
    found = set()
    for file in sorted(
        {*Path(paths["stdlib"]).rglob("*.py"), *Path(paths["purelib"]).rglob("*.py")}
    ):
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if len(text) in DOCSTRING_LENGTHS:
                    found.add(text)
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    sys.stdout.write(f"{real_vectors().shape}\n")
