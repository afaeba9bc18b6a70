"""A store that is a dictionary."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from doxtr_rag.core.addressing import document_matcher
from doxtr_rag.core.documents import ScopedChunk, StoredChunk, StoredHash, Vector, digest
from doxtr_rag.core.errors import ParityError, ScopeViolationError, StoreError
from doxtr_rag.core.ports import (
    Degradation,
    DocumentText,
    PoolRequest,
    Pools,
)
from doxtr_rag.core.ranking import Hit, best_sections, reciprocal_rank_fusion
from doxtr_rag.core.scope import Scope
from doxtr_rag.testing.models import WORD
from doxtr_rag.testing.records import Journal


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

    def pools(self, request: PoolRequest) -> Pools:
        """Return a dense and a lexical ranking, and the texts of the best sections."""
        self._act("pools")
        if self.sealed not in (None, request.fingerprint):
            raise ParityError(f"{self.name}: embedded by another model")
        passes = document_matcher(request.documents)
        rows = {k: r for k, r in self.rows.items() if passes(r.scoped.chunk.document)}
        nearness = {
            chunk_id: _dot(request.vector, self.saved[row.fingerprint, row.scoped.chunk.text_hash])
            for chunk_id, row in rows.items()
        }
        wanted = set(WORD.findall(request.query.casefold()))
        shared_words = {
            chunk_id: float(
                len(wanted & set(WORD.findall(row.scoped.chunk.embedding_text.casefold())))
            )
            for chunk_id, row in rows.items()
        }
        rankings = {
            "dense": tuple(self._best(nearness, request.size)),
            "lexical": tuple(
                self._best({k: n for k, n in shared_words.items() if n}, request.size)
            ),
        }
        best = best_sections(reciprocal_rank_fusion(rankings.values()), request.best)
        is_behind = not self.is_current()
        degraded = [Degradation("index_dirty", "the index is behind")] if is_behind else []
        return Pools(rankings, self.fetch([hit.chunk_id for hit in best]), tuple(degraded))

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

    def document(self, name: str) -> DocumentText:
        """Return a document by its name, `project/document`, or its source file."""
        self._act("document")
        scoped = [
            row.scoped
            for row in self.rows.values()
            for chunk in [row.scoped.chunk]
            if name in (chunk.document, f"{chunk.project}/{chunk.document}", chunk.source_file)
        ]
        names = {row.scoped.chunk.document for row in self.rows.values()}
        near = () if scoped else tuple(get_close_matches(name, sorted(names)))
        return DocumentText(
            tuple(stored(s) for s in sorted(scoped, key=lambda s: s.chunk.position)), near
        )


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
