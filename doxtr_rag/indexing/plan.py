"""Deciding what a run must do and what it can leave alone; pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from doxtr_rag.core.documents import DocumentInput, Harvest, ScopedChunk, StoredHash, digest
from doxtr_rag.core.ports import DocumentRecord

SHRINK_MIN_DOCUMENTS = 20
"""Stores smaller than this may lose any share of their documents in one run."""


@dataclass(frozen=True, slots=True)
class DocumentPlan:
    """Which documents a run has to look at: `changed` are chunked again, `removed` are gone."""

    changed: tuple[DocumentInput, ...]
    removed: frozenset[str]

    @property
    def is_empty(self) -> bool:
        """Say whether every document is as the last successful run left it."""
        return not (self.changed or self.removed)


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """The difference between the chunks at hand and the chunks one store holds."""

    changed: tuple[ScopedChunk, ...]
    unchanged: tuple[ScopedChunk, ...]
    deleted: tuple[str, ...]
    added: int

    @property
    def is_empty(self) -> bool:
        """Say whether the store holds these chunks already, and no others."""
        return not (self.changed or self.deleted)


def input_hash(item: DocumentInput) -> str:
    """Return the hash of all that decides a document's chunks, settings apart."""
    return digest(item.body_hash, item.context.hash)


def plan_documents(
    harvest: Harvest, known: Mapping[str, DocumentRecord], stored: frozenset[str]
) -> DocumentPlan:
    """Compare a harvest with what the last successful run knew and what the stores hold."""
    changed = tuple(
        item
        for item in harvest.documents
        if item.document not in known or known[item.document].input_hash != input_hash(item)
    )
    present = {item.document for item in harvest.documents} | set(harvest.kept)
    gone = (known.keys() | stored) - present if harvest.is_complete else ()
    return DocumentPlan(changed=changed, removed=frozenset(gone))


def plan_chunks(
    chunks: Sequence[ScopedChunk], stored: Mapping[str, StoredHash], *, is_same_model: bool = True
) -> ChunkPlan:
    """Compare chunks with the hashes a store holds of the same documents.

    Under another model every chunk is published again, with its vector of that model.
    """
    changed: list[ScopedChunk] = []
    unchanged: list[ScopedChunk] = []
    for scoped in chunks:
        before = stored.get(scoped.chunk.chunk_id)
        is_same = before is not None and before.content_hash == scoped.content_hash
        (unchanged if is_same and is_same_model else changed).append(scoped)
    ids = {scoped.chunk.chunk_id for scoped in chunks}
    return ChunkPlan(
        changed=tuple(changed),
        unchanged=tuple(unchanged),
        deleted=tuple(sorted(stored.keys() - ids)),
        added=sum(scoped.chunk.chunk_id not in stored for scoped in changed),
    )


def lost_documents(before: frozenset[str], after: frozenset[str]) -> tuple[str, ...]:
    """Return the documents a store would lose, when they are too many to lose unasked."""
    lost = before - after
    is_shrink = len(before) >= SHRINK_MIN_DOCUMENTS and 2 * len(lost) > len(before)
    return tuple(sorted(lost)) if is_shrink else ()
