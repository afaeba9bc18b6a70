"""The only module that imports chromadb: one generation of the derived index.

Its records are text hashes and vectors, without texts. A text that many chunks share is one
record: a graph of hundreds of equal vectors falls apart (1695 of 3000 stayed reachable).
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doxtr_rag.core.documents import Vector
from doxtr_rag.core.errors import DoxtrRagError, StoreUnavailableError

BATCH = 1000
PAGE = 5000
MIN_SYNC_THRESHOLD = 2
DEFAULT_COLLECTION = "chunks"


@dataclass(frozen=True, slots=True)
class Graph:
    """How densely the records are linked, and how many are looked at; measured in ADR 13."""

    max_neighbors: int = 32
    ef_construction: int = 200
    ef_search: int = 200


DENSER = Graph(max_neighbors=64, ef_construction=400, ef_search=400)
"""For vectors so alike that the usual graph leaves some unreachable."""


class ChromaGeneration:
    """An open collection; one thread at a time."""

    def __init__(self, client: Any, collection: Any, shadow: Path | None) -> None:
        self._client = client
        self._collection = collection
        self._shadow = shadow

    def count(self) -> int:
        """Return the number of records.

        Raises:
            StoreUnavailableError: the index is broken.
        """
        with _broken_index():
            return int(self._collection.count())

    def nearest(self, vector: Vector, top_k: int) -> list[tuple[str, float]]:
        """Return `(text hash, cosine similarity)`, best first.

        Raises:
            StoreUnavailableError: the index is broken.
        """
        with _broken_index():
            answer = self._collection.query(
                query_embeddings=_matrix([vector]), n_results=top_k, include=["distances"]
            )
            pairs = list(zip(answer["ids"][0], answer["distances"][0], strict=True))
        if len(pairs) < top_k:
            raise StoreUnavailableError(f"index: found {len(pairs)} of {top_k} vectors")
        return [(text_hash, 1.0 - float(distance)) for text_hash, distance in pairs]

    def reachable(self, dimension: int, count: int) -> int:
        """Return how many records a query for all of them finds.

        Raises:
            StoreUnavailableError: the index is broken.
        """
        return len(self.reached(dimension, count))

    def reached(self, dimension: int, count: int) -> set[str]:
        """Return the ids of the records that a query for all of them finds.

        Raises:
            StoreUnavailableError: the index is broken.
        """
        import numpy as np  # noqa: PLC0415 - beside chromadb, which imports it anyway

        with _broken_index():
            probe = np.full((1, dimension), 0.1, dtype="float32")
            # Without `include`, since anything that is joined to the ids stops at 32,766.
            answer = self._collection.query(query_embeddings=probe, n_results=count, include=[])
            return set(answer["ids"][0])

    def records(self) -> set[str]:
        """Return the ids of all records, read page by page.

        Raises:
            StoreUnavailableError: the index is broken.
        """
        found: set[str] = set()
        offset = 0
        with _broken_index():
            while True:
                page = self._collection.get(limit=PAGE, offset=offset, include=[])["ids"]
                if not page:
                    return found
                found.update(page)
                offset += len(page)

    def vectors(self, text_hashes: Collection[str]) -> dict[str, Vector]:
        """Return the vectors of some records, as the index holds them; unknown ids are left out.

        Raises:
            StoreUnavailableError: the index is broken.
        """
        import numpy as np  # noqa: PLC0415 - beside chromadb, which imports it anyway

        found: dict[str, Vector] = {}
        ordered = sorted(text_hashes)
        with _broken_index():
            for start in range(0, len(ordered), BATCH):
                page = ordered[start : start + BATCH]
                answer = self._collection.get(ids=page, include=["embeddings"])
                rows = np.asarray(answer["embeddings"], dtype="<f4")
                found.update(zip(answer["ids"], (row.tobytes() for row in rows), strict=True))
        return found

    def write(self, records: Sequence[tuple[str, Vector]]) -> None:
        """Insert records.

        Raises:
            StoreUnavailableError: the index refused them.
        """
        with _broken_index():
            for start in range(0, len(records), BATCH):
                batch = records[start : start + BATCH]
                self._collection.upsert(
                    ids=[text_hash for text_hash, _ in batch],
                    embeddings=_matrix([vector for _, vector in batch]),
                )

    def remove(self, text_hashes: Collection[str]) -> None:
        """Delete records.

        Raises:
            StoreUnavailableError: the index refused.
        """
        ordered = sorted(text_hashes)
        with _broken_index():
            for start in range(0, len(ordered), BATCH):
                self._collection.delete(ids=ordered[start : start + BATCH])

    def persist_after(self, changes: int) -> None:
        """Make the next opening write its graph to disk once, with the last of `changes`.

        Raises:
            StoreUnavailableError: the index refused.
        """
        threshold = max(MIN_SYNC_THRESHOLD, changes)
        with _broken_index(), warnings.catch_warnings():
            # That the collection has no embedding function is what it warns of.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._collection.modify(configuration={"hnsw": {"sync_threshold": threshold}})

    def close(self) -> None:
        """Let go of the files."""
        with _broken_index():
            self._client.close()
        if self._shadow is not None:
            shutil.rmtree(self._shadow, ignore_errors=True)


def create(path: Path, collection: str, records: int, graph: Graph) -> ChromaGeneration:
    """Create a collection that writes its graph once, with the last of `records`.

    Raises:
        StoreUnavailableError: the folder cannot be written.
    """
    hnsw = {
        "space": "cosine",
        "sync_threshold": max(MIN_SYNC_THRESHOLD, records),
        "max_neighbors": graph.max_neighbors,
        "ef_construction": graph.ef_construction,
        "ef_search": graph.ef_search,
    }
    with _broken_index():
        client = _client(path)
        made = client.create_collection(
            collection, embedding_function=None, configuration={"hnsw": hnsw}
        )
        return ChromaGeneration(client, made, None)


def open_generation(path: Path, collection: str) -> ChromaGeneration:
    """Open a finished and intact generation, through a shadow where it cannot be written.

    Raises:
        StoreUnavailableError: the index is broken.
    """
    with _broken_index():
        shadow = None if _accepts_writes(path) else _shadow_of(path)
        try:
            client = _client(shadow or path)
            found = client.get_collection(collection, embedding_function=None)
        except BaseException:
            if shadow is not None:
                shutil.rmtree(shadow, ignore_errors=True)
            raise
        return ChromaGeneration(client, found, shadow)


def link_again(path: Path, collection: str, records: Sequence[tuple[str, Vector]]) -> None:
    """Write records once more that no query reaches: that links most of them into the graph.

    Raises:
        StoreUnavailableError: the index is broken.
    """
    # Too few would not reach the threshold, and every reader would persist them.
    times = 1 if len(records) >= MIN_SYNC_THRESHOLD else MIN_SYNC_THRESHOLD
    opened = open_generation(path, collection)
    opened.persist_after(times * len(records))
    opened.close()
    opened = open_generation(path, collection)
    for _ in range(times):
        opened.write(records)
    opened.close()


def copy_generation(source: Path, target: Path) -> None:
    """Copy a finished generation that readers may have open.

    Raises:
        StoreUnavailableError: it cannot be copied.
    """
    with _broken_index():
        for segment in source.iterdir():
            if segment.is_dir():
                shutil.copytree(segment, target / segment.name)
        _copy_database(source, target)


def compact(path: Path) -> None:
    """Give back the space of the write log, which holds every vector a second time.

    Raises:
        StoreUnavailableError: the file cannot be written.
    """
    with _broken_index():
        connection = sqlite3.connect(path / "chroma.sqlite3")
        try:
            connection.execute("VACUUM")
        finally:
            connection.close()


def _client(path: Path) -> Any:
    import chromadb  # noqa: PLC0415 - most of a second, and only an index needs it
    from chromadb.config import Settings  # noqa: PLC0415

    return chromadb.PersistentClient(path=str(path), settings=Settings(anonymized_telemetry=False))


def _matrix(vectors: Sequence[Vector]) -> Any:
    import numpy as np  # noqa: PLC0415 - beside chromadb, which imports it anyway

    return np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1)


def _accepts_writes(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path / "chroma.sqlite3", os.W_OK)


def _shadow_of(path: Path) -> Path:
    # Chroma opens only what it can write: a copied database beside links to the real graph.
    shadow = Path(tempfile.mkdtemp(prefix="doxtr-rag-"))
    _copy_database(path, shadow)
    for segment in path.iterdir():
        if segment.is_dir():
            (shadow / segment.name).symlink_to(segment.absolute(), target_is_directory=True)
    return shadow


def _copy_database(source: Path, target: Path) -> None:
    address = f"{(source / 'chroma.sqlite3').absolute().as_uri()}?mode=ro"
    origin = sqlite3.connect(address, uri=True)
    copy = sqlite3.connect(target / "chroma.sqlite3")
    try:
        origin.backup(copy)
    finally:
        copy.close()
        origin.close()


@contextmanager
def _broken_index() -> Iterator[None]:
    try:
        yield
    except (DoxtrRagError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of the binding is no Exception
        raise StoreUnavailableError(f"index: {type(error).__name__}: {error}") from error
