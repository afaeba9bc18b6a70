"""In-memory ports for tests, ours and those of child themes; imports no test framework."""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from doxtr_rag.core.documents import ScopedChunk, StoredChunk, StoredHash, Vector, digest
from doxtr_rag.core.errors import EmbeddingError, ParityError, ScopeViolationError, StoreError
from doxtr_rag.core.ports import Degradation, DocumentRecord, EmbeddingCounts, RunMark
from doxtr_rag.core.ranking import Hit
from doxtr_rag.core.scope import Scope

Journal = list[tuple[str, str]]
"""What happened in which order, as `(who, what)`: `("SHARED_ORG", "withdraw")`."""

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


@dataclass(frozen=True, slots=True)
class _Row:
    scoped: ScopedChunk
    origin: str
    fingerprint: str


@dataclass(slots=True)
class MemoryStore:
    """A store that is a dictionary, with the guards and the index semantics of the real one.

    `failures` maps a method name to what that method raises; `journal` may be shared with other
    ports to see who acted first.
    """

    scope: Scope
    name: str = ""
    journal: Journal = field(default_factory=list)
    failures: dict[str, Exception] = field(default_factory=dict)
    rows: dict[str, _Row] = field(default_factory=dict)
    saved: dict[tuple[str, str], Vector] = field(default_factory=dict)
    sealed: str | None = None
    indexed: dict[str, str] = field(default_factory=dict)
    indexed_fingerprint: str | None = None

    @property
    def chunks(self) -> dict[str, ScopedChunk]:
        """The stored chunks by id."""
        return {chunk_id: row.scoped for chunk_id, row in self.rows.items()}

    def fingerprint(self) -> str | None:
        """Return the fingerprint of the vectors that are searched; None before the first seal."""
        return self.sealed

    def revision(self, project: str) -> str:
        """Return a token that changes whenever a chunk of the project does; "" without chunks."""
        rows = sorted(
            (chunk_id, row.scoped.content_hash, row.fingerprint)
            for chunk_id, row in self.rows.items()
            if row.scoped.chunk.project == project
        )
        return digest(rows) if rows else ""

    def projects(self) -> frozenset[str]:
        """Return the projects that have chunks here."""
        return frozenset(row.scoped.chunk.project for row in self.rows.values())

    def hashes(
        self, project: str, origin: str, documents: Collection[str] | None = None
    ) -> dict[str, StoredHash]:
        """Return chunk id -> hashes, of some documents or of all of this project and origin."""
        return {
            chunk_id: StoredHash(
                row.scoped.chunk.document,
                row.scoped.content_hash,
                row.scoped.chunk.text_hash,
                row.scoped.chunk.breadcrumb,
            )
            for chunk_id, row in self.rows.items()
            if (row.scoped.chunk.project, row.origin) == (project, origin)
            and (documents is None or row.scoped.chunk.document in documents)
        }

    def missing(self, fingerprint: str, text_hashes: Collection[str]) -> set[str]:
        """Return the text hashes without a vector here."""
        return {key for key in text_hashes if (fingerprint, key) not in self.saved}

    def vectors(self, fingerprint: str, text_hashes: Collection[str]) -> dict[str, Vector]:
        """Return the vectors at hand, by text hash."""
        return {
            text_hash: self.saved[fingerprint, text_hash]
            for text_hash in text_hashes
            if (fingerprint, text_hash) in self.saved
        }

    def save_vectors(self, fingerprint: str, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors, before the chunks they belong to are published."""
        self._act("save_vectors")
        self.saved.update({(fingerprint, key): vector for key, vector in vectors.items()})

    def publish(
        self,
        project: str,
        origin: str,
        fingerprint: str,
        upserts: Sequence[ScopedChunk],
        deletes: Collection[str],
    ) -> None:
        """Insert or replace chunks and delete others; all of it or nothing.

        Raises:
            ScopeViolationError: a chunk is not of this store's scope.
            ParityError: another project's chunks here have vectors of another model.
            StoreError: a chunk has no saved vector or is not of the project.
        """
        self._act("publish")
        for scoped in upserts:
            self._guard(project, fingerprint, scoped)
        if upserts:
            self.check_identity(project, fingerprint)
        for scoped in upserts:
            self.rows[scoped.chunk.chunk_id] = _Row(scoped, origin, fingerprint)
        self._remove(project, deletes)

    def _guard(self, project: str, fingerprint: str, scoped: ScopedChunk) -> None:
        chunk = scoped.chunk
        if scoped.scope is not self.scope:
            raise ScopeViolationError(f"{chunk.chunk_id}: refused by {self.scope.value}")
        if (fingerprint, chunk.text_hash) not in self.saved:
            raise StoreError(f"{chunk.chunk_id}: no vector was saved for it")
        if chunk.project != project:
            raise StoreError(f"{chunk.chunk_id}: is of project {chunk.project}, not {project}")

    def check_identity(self, project: str, fingerprint: str) -> None:
        """Refuse to mix models.

        Raises:
            ParityError: another project's chunks were embedded by another model.
        """
        for chunk_id, row in self.rows.items():
            if row.scoped.chunk.project != project and row.fingerprint != fingerprint:
                raise ParityError(f"{chunk_id}: of another project, embedded by another model")

    def _remove(self, project: str, chunk_ids: Collection[str]) -> None:
        for chunk_id in chunk_ids:
            row = self.rows.get(chunk_id)
            if row is not None and row.scoped.chunk.project == project:
                del self.rows[chunk_id]

    def withdraw(self, project: str, chunk_ids: Collection[str]) -> None:
        """Delete chunks that turned private, from the index as well."""
        if not chunk_ids:
            return
        self._act("withdraw")
        self._remove(project, chunk_ids)
        self.indexed = {key: value for key, value in self.indexed.items() if key in self.rows}

    def erase_deleted(self) -> None:
        """Do nothing: what is deleted from a dictionary is gone."""
        self._act("erase_deleted")

    def seal(self, fingerprint: str, dimension: int) -> None:
        """Declare the corpus complete under one fingerprint; drop vectors nothing refers to.

        Raises:
            ParityError: a chunk's vector is of another model or another dimension.
        """
        self._act("seal")
        for chunk_id, row in self.rows.items():
            vector = self.saved.get((fingerprint, row.scoped.chunk.text_hash), b"")
            if row.fingerprint != fingerprint or len(vector) != 4 * dimension:
                raise ParityError(f"{chunk_id}: cannot seal, its vector is of another model")
        used = {(fingerprint, row.scoped.chunk.text_hash) for row in self.rows.values()}
        self.saved = {key: vector for key, vector in self.saved.items() if key in used}
        self.sealed = fingerprint

    def is_current(self) -> bool:
        """Say whether the index serves exactly the sealed corpus."""
        is_sealed = self.sealed is not None and self.indexed_fingerprint == self.sealed
        return is_sealed and self.indexed == self._index_of_rows()

    def refresh_index(self) -> None:
        """Bring the index up to the corpus."""
        self._act("refresh_index")
        self.indexed = self._index_of_rows()
        self.indexed_fingerprint = self.sealed

    def _index_of_rows(self) -> dict[str, str]:
        return {chunk_id: row.scoped.chunk.text_hash for chunk_id, row in self.rows.items()}

    def _act(self, action: str) -> None:
        self.journal.append((self.name or self.scope.value, action))
        if action in self.failures:
            raise self.failures[action]

    def dense(self, vector: Vector, top_k: int) -> list[Hit]:
        """Return the nearest chunks by cosine similarity, best first."""
        self._act("dense")
        scores = {
            chunk_id: _dot(vector, self.saved[row.fingerprint, row.scoped.chunk.text_hash])
            for chunk_id, row in self.rows.items()
        }
        return self._best(scores, top_k)

    def lexical(self, query: str, top_k: int) -> list[Hit]:
        """Return the chunks that share most words with the query, best first."""
        self._act("lexical")
        wanted = set(WORD.findall(query.casefold()))
        scores = {
            chunk_id: float(len(wanted & set(WORD.findall(text.casefold()))))
            for chunk_id, row in self.rows.items()
            if (text := row.scoped.chunk.embedding_text)
        }
        return self._best({key: score for key, score in scores.items() if score}, top_k)

    def _best(self, scores: Mapping[str, float], top_k: int) -> list[Hit]:
        ranked = sorted(scores, key=lambda chunk_id: (-scores[chunk_id], chunk_id))[:top_k]
        store = self.name or self.scope.value
        return [
            Hit(chunk_id, self.rows[chunk_id].scoped.chunk.text_hash, store, scores[chunk_id])
            for chunk_id in ranked
        ]

    def fetch(self, chunk_ids: Sequence[str]) -> dict[str, StoredChunk]:
        """Return chunks by id; unknown ids are left out."""
        self._act("fetch")
        return {key: stored(self.rows[key].scoped) for key in chunk_ids if key in self.rows}

    def degradations(self) -> list[Degradation]:
        """Say what this store cannot do as it should."""
        return [] if self.is_current() else [Degradation("index_dirty", "the index is behind")]


def stored(scoped: ScopedChunk) -> StoredChunk:
    """Return a chunk as a store gives it back."""
    chunk = scoped.chunk
    return StoredChunk(
        chunk_id=chunk.chunk_id,
        project=chunk.project,
        document=chunk.document,
        anchor=chunk.anchor,
        text=chunk.text,
        breadcrumb=chunk.breadcrumb,
        url=chunk.url,
        source_file=chunk.source_file,
        locator=chunk.locator,
        scope=scoped.scope,
        text_hash=chunk.text_hash,
        content_hash=scoped.content_hash,
        links=chunk.links,
        metadata=chunk.metadata,
    )


def _dot(left: Vector, right: Vector) -> float:
    pairs = zip(_components(left), _components(right), strict=True)
    return float(sum(a * b for a, b in pairs))


def _components(vector: Vector) -> tuple[float, ...]:
    return struct.unpack(f"<{len(vector) // 4}f", vector)


class MemoryCache:
    """A cache that forgets with the process."""

    def __init__(self, journal: Journal | None = None) -> None:
        self._marks: dict[tuple[str, str], RunMark] = {}
        self._documents: dict[tuple[str, str], dict[str, DocumentRecord]] = {}
        self._journal: Journal = [] if journal is None else journal

    def mark(self, project: str, origin: str) -> RunMark | None:
        """Return the mark of the last successful run, None when there was none."""
        return self._marks.get((project, origin))

    def documents(self, project: str, origin: str) -> dict[str, DocumentRecord]:
        """Return what the last successful run knew."""
        return dict(self._documents.get((project, origin), {}))

    def record(
        self,
        project: str,
        origin: str,
        mark: RunMark,
        changed: Mapping[str, DocumentRecord],
        removed: Collection[str],
    ) -> None:
        """Write the outcome of one successful run."""
        self._journal.append(("cache", "record"))
        known = self._documents.setdefault((project, origin), {})
        for document in removed:
            known.pop(document, None)
        known.update(changed)
        self._marks[project, origin] = mark


class ProgressLog:
    """Remembers what was reported."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, int, int]] = []

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Report `done` of `total` units of `phase`."""
        self.reports.append((phase, done, total))
