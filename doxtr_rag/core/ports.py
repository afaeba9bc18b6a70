"""What the use cases need from the outside world, and nothing more."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from doxtr_rag.core.documents import Metadata, ScopedChunk, StoredChunk, StoredHash, Vector
from doxtr_rag.core.ranking import Hit
from doxtr_rag.core.scope import Scope


class TokenCounter(Protocol):
    """Counts as the profile's own tokenizer does."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, special tokens included."""
        ...


@dataclass(frozen=True, slots=True)
class EmbeddingCounts:
    """What an embedder did so far: texts, tokens, tokens with padding, inputs that were cut."""

    texts: int = 0
    tokens: int = 0
    padded_tokens: int = 0
    truncated: int = 0

    def __add__(self, more: EmbeddingCounts) -> EmbeddingCounts:
        return EmbeddingCounts(
            self.texts + more.texts,
            self.tokens + more.tokens,
            self.padded_tokens + more.padded_tokens,
            self.truncated + more.truncated,
        )


class Embedder(Protocol):
    """Turns text into vectors of one fixed profile."""

    @property
    def fingerprint(self) -> str:
        """The identity of the model (design section 4)."""
        ...

    @property
    def dimension(self) -> int:
        """The number of components of a vector."""
        ...

    @property
    def counts(self) -> EmbeddingCounts:
        """What was done since this embedder was made."""
        ...

    def embed(self, texts: Sequence[str]) -> Iterator[list[tuple[int, Vector]]]:
        """Yield `(index into texts, vector)` batch by batch, in the order that suits the model."""
        ...

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a question."""
        ...


class ChunkStore(Protocol):
    """The chunks of one scope: a corpus, which is the truth, and an index derived from it."""

    @property
    def scope(self) -> Scope:
        """The audience this store serves."""
        ...

    def fingerprint(self) -> str | None:
        """Return the fingerprint of the vectors that are searched; None before the first seal."""
        ...

    def revision(self, project: str) -> str:
        """Return a token that changes whenever a chunk of the project does; "" without chunks."""
        ...

    def projects(self) -> frozenset[str]:
        """Return the projects that have chunks here."""
        ...

    def hashes(
        self, project: str, origin: str, documents: Collection[str] | None = None
    ) -> dict[str, StoredHash]:
        """Return chunk id -> hashes, of some documents or of all of this project and origin."""
        ...

    def missing(self, fingerprint: str, text_hashes: Collection[str]) -> set[str]:
        """Return the text hashes without a vector here."""
        ...

    def vectors(self, fingerprint: str, text_hashes: Collection[str]) -> dict[str, Vector]:
        """Return the vectors at hand, by text hash."""
        ...

    def save_vectors(self, fingerprint: str, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors durably, before the chunks they belong to are published."""
        ...

    def publish(
        self,
        project: str,
        origin: str,
        fingerprint: str,
        upserts: Sequence[ScopedChunk],
        deletes: Collection[str],
    ) -> None:
        """Insert or replace chunks and delete others in one transaction.

        Raises:
            ScopeViolationError: a chunk is not of this store's scope.
            StoreError: a chunk has no saved vector.
        """
        ...

    def withdraw(self, project: str, chunk_ids: Collection[str]) -> None:
        """Delete chunks that turned private and erase their text from disk.

        Without chunks, finish an erasure that was interrupted.
        """
        ...

    def erase_deleted(self) -> None:
        """Erase from disk the text of chunks that were deleted or replaced."""
        ...

    def check_identity(self, project: str, fingerprint: str) -> None:
        """Refuse to mix models before anything is embedded.

        Raises:
            ParityError: another project's chunks were embedded by another model.
        """
        ...

    def seal(self, fingerprint: str, dimension: int) -> None:
        """Declare the corpus complete under one fingerprint; drop vectors nothing refers to."""
        ...

    def is_current(self) -> bool:
        """Say whether the index serves exactly the sealed corpus."""
        ...

    def refresh_index(self) -> None:
        """Bring the index up to the corpus, by a small update or by a new generation."""
        ...


@dataclass(frozen=True, slots=True)
class Degradation:
    """Something an answer has to do without (retrieval R51, R54)."""

    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class PoolRequest:
    """A question to one store.

    `size` hits are wanted of each pool. `best` is how many sections of the store's own fusion come
    with their text. `documents` filters every pool: see `core.addressing.document_matcher`.
    """

    query: str
    vector: Vector
    fingerprint: str
    size: int
    best: int
    documents: str = ""


@dataclass(frozen=True, slots=True)
class Pools:
    """What one store found: a ranking for each pool, best hits first.

    `chunks` holds the texts of the best sections by id; others are fetched when they are wanted.
    """

    rankings: Mapping[str, tuple[Hit, ...]]
    chunks: Mapping[str, StoredChunk]
    degraded: tuple[Degradation, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The chunks of one document in reading order; when there are none, documents of near names."""

    chunks: tuple[StoredChunk, ...]
    near: tuple[str, ...] = ()


class SearchableStore(Protocol):
    """The reading side of a store; methods may be called from any thread."""

    @property
    def name(self) -> str:
        """The store's name in answers: `shared`, `private`, or a mount's."""
        ...

    @property
    def scope(self) -> Scope:
        """The audience this store serves."""
        ...

    def pools(self, request: PoolRequest) -> Pools:
        """Return what every pool of this store has to say to a question.

        Raises:
            ParityError: the question was embedded by another model.
            IndexNotBuiltError: nothing was ever stored here.
            StoreError: the store cannot be asked.
        """
        ...

    def fetch(self, chunk_ids: Sequence[str]) -> dict[str, StoredChunk]:
        """Return chunks by id; unknown ids are left out.

        Raises:
            StoreError: the store cannot be read.
        """
        ...

    def document(self, name: str) -> DocumentText:
        """Return a document by its name, `project/document`, or its source file.

        Raises:
            StoreError: the store cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class CollectionState:
    """What a store is as a Chroma collection; `dimension` is None before the first record."""

    collection_id: str
    dimension: int | None
    count: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class CollectionRecord:
    """One chunk as a Chroma record; `metadata` are the fields of interface I4."""

    chunk_id: str
    text: str
    text_hash: str
    metadata: Metadata


class RecordCollection(Protocol):
    """A store, record by record; methods may be called from any thread and raise StoreError."""

    def state(self) -> CollectionState:
        """Return the collection's identity and size."""
        ...

    def records(self, chunk_ids: Sequence[str] | None = None) -> Iterator[CollectionRecord]:
        """Yield the records of some chunks as they were asked for, or all by their ids."""
        ...

    def vectors(self, records: Collection[CollectionRecord]) -> dict[str, Vector]:
        """Return the vectors of records by text hash."""
        ...

    def nearest(
        self, vector: Vector, count: int, wanted: Sequence[CollectionRecord] | None
    ) -> list[tuple[str, float]]:
        """Return `(chunk id, cosine similarity)`, best first, among some records or all."""
        ...


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """What the last successful run knew of a document."""

    input_hash: str
    scope: Scope
    chunks: int
    source_file: str
    signals: tuple[tuple[str, str | None, str], ...] = ()
    decided_by: tuple[str, str | None, str] = ("none", None, "")


@dataclass(frozen=True, slots=True)
class RunMark:
    """The state in which the last successful run left the stores."""

    settings_hash: str
    revisions: Mapping[Scope, str] = field(default_factory=dict)


class IngestCache(Protocol):
    """Remembers what was stored last time, so that unchanged documents are not read again."""

    def mark(self, project: str, origin: str) -> RunMark | None:
        """Return the mark of the last successful run, None when there was none."""
        ...

    def documents(self, project: str, origin: str) -> dict[str, DocumentRecord]:
        """Return what the last successful run knew."""
        ...

    def record(
        self,
        project: str,
        origin: str,
        mark: RunMark,
        changed: Mapping[str, DocumentRecord],
        removed: Collection[str],
    ) -> None:
        """Write the outcome of one successful run in a single transaction."""
        ...


class Progress(Protocol):
    """Says how far long work is."""

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Report `done` of `total` units of `phase`."""
        ...
