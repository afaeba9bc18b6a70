"""The writing side of an embedded store: a corpus, and the index derived from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from doxtr_rag.core.documents import ScopedChunk, StoredHash, Vector
from doxtr_rag.core.errors import StoreLockedError, StoreUnavailableError
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import corpus, generation, lexical, publication
from doxtr_rag.storage.closing import Closing
from doxtr_rag.storage.database import open_for_writing
from doxtr_rag.storage.guard import ScopeGuard
from doxtr_rag.storage.index_refresh import refresh_folders
from doxtr_rag.storage.ledger import RunLedger
from doxtr_rag.storage.stats import StoreStats, stats


class EmbeddedStore(Closing):
    """The chunks of one scope in one folder; the caller holds the folder's `StoreLock`."""

    def __init__(self, folder: Path, scope: Scope, name: str) -> None:
        self.folder = folder
        self._scope = scope
        self._name = name
        self._guard = ScopeGuard(scope)
        self._database = open_for_writing(folder, scope)
        self._ledger = RunLedger(self._database)

    @property
    def name(self) -> str:
        """The store's name in answers."""
        return self._name

    @property
    def scope(self) -> Scope:
        """The audience this store serves."""
        return self._scope

    @property
    def ledger(self) -> RunLedger:
        """The runs and failures that are recorded here."""
        return self._ledger

    def fingerprint(self) -> str | None:
        """Return the fingerprint of the vectors that are searched; None before the first seal."""
        return corpus.read_state(self._database).fingerprint or None

    def revision(self, project: str) -> str:
        """Return a token that changes whenever a chunk of the project does; "" without chunks."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT revision FROM projects WHERE project = ?", (project,)
            ).fetchone()
        return str(row[0]) if row else ""

    def projects(self) -> frozenset[str]:
        """Return the projects that have chunks here."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT project FROM projects").fetchall()
        return frozenset(project for (project,) in rows)

    def hashes(
        self, project: str, origin: str, documents: Collection[str] | None = None
    ) -> dict[str, StoredHash]:
        """Return chunk id -> hashes, of some documents or of all of this project and origin."""
        return corpus.read_hashes(self._database, project, origin, documents)

    def missing(self, fingerprint: str, text_hashes: Collection[str]) -> set[str]:
        """Return the text hashes without a vector here."""
        with self._database.reading() as connection:
            return corpus.texts_without_vectors(connection, fingerprint, text_hashes)

    def vectors(self, fingerprint: str, text_hashes: Collection[str]) -> dict[str, Vector]:
        """Return the vectors at hand, by text hash."""
        return corpus.read_vectors(self._database, fingerprint, text_hashes)

    def save_vectors(self, fingerprint: str, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors durably, before the chunks they belong to are published.

        Raises:
            StoreError: a vector is malformed, or the disk is full.
        """
        with self._database.writing() as connection:
            publication.insert_vectors(connection, fingerprint, vectors)

    def check_identity(self, project: str, fingerprint: str) -> None:
        """Refuse a model that other projects of this store were not embedded with.

        Raises:
            ParityError: the message names both fingerprints and the way out.
        """
        with self._database.reading() as connection:
            publication.require_identity_of_others(connection, project, fingerprint)

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
        admitted = self._guard.admit(upserts)
        with self._database.writing() as connection:
            publication.require_vectors(connection, fingerprint, admitted)
            publication.note_residue(connection, admitted, deletes)
            is_shrunk = publication.delete_chunks(connection, project, deletes)
            is_grown = publication.upsert_chunks(connection, project, origin, admitted)
            if is_shrunk or is_grown:
                publication.renew_revision(connection, project)

    def withdraw(self, project: str, chunk_ids: Collection[str]) -> None:
        """Delete chunks that turned private and erase their text from disk.

        The chunks are gone from every search, and text and vectors from the disk, when this
        returns. Without chunks, an erasure that was interrupted is finished.

        Raises:
            StoreError: the deletion, or the erasure after it, failed.
        """
        if chunk_ids:
            with self._database.writing() as connection:
                if publication.withdraw_chunks(connection, project, chunk_ids):
                    publication.renew_revision(connection, project)
        self._erase_if_pending()

    def erase_deleted(self) -> None:
        """Erase from disk the text of chunks that were deleted or replaced.

        Raises:
            StoreError: the erasure failed.
        """
        if corpus.read_state(self._database).erasure is corpus.Erasure.RESIDUE:
            with self._database.writing() as connection:
                publication.call_for_erasure(connection, corpus.Erasure.PENDING)
        self._erase_if_pending()

    def seal(self, fingerprint: str, dimension: int) -> None:
        """Declare the corpus complete under one fingerprint; drop vectors nothing refers to.

        Raises:
            ParityError: chunks are left that have no vector of this fingerprint.
        """
        with self._database.writing() as connection:
            publication.require_one_identity(connection, fingerprint, dimension)
            publication.drop_unused_vectors(connection, fingerprint)
            publication.record_identity(connection, fingerprint, dimension)

    def is_current(self) -> bool:
        """Say whether the index serves exactly the sealed corpus."""
        return corpus.read_state(self._database).index_is_current(self.folder)

    def refresh_index(self) -> None:
        """Bring the index up to the corpus, by a small update or by a new generation.

        Raises:
            StoreUnavailableError: the index could not be written; the corpus is complete.
        """
        refresh_indexes([self])

    def prepare_refresh(self, collection: str = "") -> bool:
        """Finish an erasure that was interrupted; say whether the index must be refreshed.

        Raises:
            StoreError: the erasure failed.
        """
        self._erase_if_pending()
        if collection and collection != corpus.read_state(self._database).collection:
            with self._database.writing() as connection:
                publication.record_collection(connection, collection)
        return not self.is_current()

    def distrust_index(self) -> None:
        """Have the next refresh build an index that is not current from the corpus alone.

        Raises:
            StoreError: the corpus cannot be written.
        """
        if not self.is_current():
            with self._database.writing() as connection:
                connection.execute("UPDATE index_state SET dirty = 1")

    def rebuild(self) -> None:
        """Derive everything derived from the corpus again; nothing is embedded.

        Raises:
            StoreError: the corpus cannot be rewritten, or the index not built.
        """
        with self._database.writing() as connection:
            publication.call_for_erasure(connection, corpus.Erasure.PENDING)
            connection.execute("UPDATE index_state SET must_rebuild = 1")
        self.refresh_index()

    def stats(self) -> StoreStats:
        """Return the figures of this store."""
        return stats(self.folder)

    def close(self) -> None:
        """Let go of the corpus file."""
        self._database.close()

    def _erase_if_pending(self) -> None:
        state = corpus.read_state(self._database)
        if state.erasure is not corpus.Erasure.PENDING:
            return
        with self._database.writing() as connection:
            lexical.rebuild(connection)
        with self._database.reading() as connection:
            # Cells that SQLite moved leave copies behind in pages that are still in use.
            connection.execute("VACUUM")
            is_blocked = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if is_blocked:
            raise StoreLockedError(
                f"{self.folder}: withdrawn text is still in the write-ahead log, since another "
                "process reads it: run the build again when it has finished"
            )
        if state.must_rebuild:
            # Nobody searches it any more, and it holds the vectors of what was withdrawn.
            with generation.sole_writer(self.folder):
                generation.swap(self.folder, "")
                generation.remove_others(self.folder, "")
        with self._database.writing() as connection:
            publication.call_for_erasure(connection, corpus.Erasure.NONE)


def refresh_indexes(stores: Sequence[EmbeddedStore], collection: str = "") -> None:
    """Bring the indexes of several stores up to date, in one child process.

    `collection` names the Chroma collection in them; without it the last name stays.

    Raises:
        StoreError: an erasure failed, or an index could not be written.
    """
    # The private one first, since a temporary file may lie in its folder and not in the other.
    ordered = sorted(stores, key=lambda store: store.scope is Scope.SHARED_ORG)
    stale = [store for store in ordered if store.prepare_refresh(collection)]
    try:
        refresh_folders([store.folder for store in stale])
    except StoreUnavailableError:
        for store in stale:
            store.distrust_index()
        raise
    for store in stale:
        if not store.is_current():
            raise StoreUnavailableError(
                f"{store.folder}: the index is behind the corpus: run doxtr-rag rebuild"
            )


def rebuild(store: EmbeddedStore) -> None:
    """Derive everything derived from a store's corpus again; nothing is embedded.

    Raises:
        StoreError: the corpus cannot be rewritten, or the index not built.
    """
    store.rebuild()
