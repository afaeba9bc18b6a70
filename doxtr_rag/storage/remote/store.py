"""The writing side of a store on a Chroma server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from doxtr_rag.core.documents import ScopedChunk, StoredHash, Vector
from doxtr_rag.core.errors import (
    IndexNotBuiltError,
    ParityError,
    StoreAccessError,
    StoreError,
    StoreUnreachableError,
)
from doxtr_rag.core.ports import Progress
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import corpus, publication
from doxtr_rag.storage.closing import Closing
from doxtr_rag.storage.database import open_for_reading
from doxtr_rag.storage.ledger import RunLedger
from doxtr_rag.storage.remote.address import RemoteAccess, RemoteAddress
from doxtr_rag.storage.remote.comparison import Sealed
from doxtr_rag.storage.remote.connection import RemoteConnection
from doxtr_rag.storage.remote.index import RemoteIndex
from doxtr_rag.storage.remote.outbox import Outbox
from doxtr_rag.storage.remote.records import CorpusView
from doxtr_rag.storage.remote.snapshot import RemoteRecord, Snapshot
from doxtr_rag.storage.store import EmbeddedStore

T = TypeVar("T")


class RemoteStore(Closing):
    """The chunks of one scope: a corpus in a folder, and a collection of a server as its index.

    The caller holds the folder's `StoreLock`, and opens a store for one run: what the server was
    found to hold is remembered until this object writes there. While the server cannot be asked,
    everything but `withdraw` and `refresh_index` goes on with what is known here.
    """

    def __init__(
        self,
        folder: Path,
        scope: Scope,
        name: str,
        address: RemoteAddress,
        access: RemoteAccess,
        progress: Progress | None = None,
    ) -> None:
        self.folder = folder
        self.address = address
        self._connection = RemoteConnection(address, access)
        self.corpus = EmbeddedStore(folder, scope, name)
        self._reading = open_for_reading(folder)
        self._outbox = Outbox(folder)
        self.left_behind = self._outbox.address(str(address))
        """The address used before where chunks that turned private may still be; "" for none."""
        view = CorpusView(self._reading)
        self._index = RemoteIndex(self._connection, scope, view, self._outbox, progress)
        self._snapshot: Snapshot | None = None
        self._inventories: dict[str, dict[str, RemoteRecord]] = {}
        self._is_offline = False

    @property
    def name(self) -> str:
        """The store's name in answers."""
        return self.corpus.name

    @property
    def scope(self) -> Scope:
        """The audience this store serves."""
        return self.corpus.scope

    @property
    def ledger(self) -> RunLedger:
        """The runs and failures that are recorded here."""
        return self.corpus.ledger

    def is_writable(self) -> bool:
        """Say whether the server lets us write; nothing is left there.

        Raises:
            StoreError: the server cannot be asked.
        """
        return self._index.is_writable()

    def fingerprint(self) -> str | None:
        """Return the fingerprint of the vectors that are searched; None before the first seal."""
        return self.corpus.fingerprint()

    def revision(self, project: str) -> str:
        """Return a token that changes whenever a chunk of the project does; "" without chunks."""
        return self.corpus.revision(project)

    def projects(self) -> frozenset[str]:
        """Return the projects of this machine that have chunks here."""
        return self.corpus.projects()

    def hashes(
        self, project: str, origin: str, documents: Collection[str] | None = None
    ) -> dict[str, StoredHash]:
        """Return chunk id -> hashes, of some documents or of all of this project and origin.

        Chunks that the server has beyond the corpus are among them, so that a run on a machine
        without a corpus withdraws and deletes what it should.
        """
        wanted = None if documents is None else frozenset(documents)
        found = {
            chunk_id: record.hashes
            for chunk_id, record in self._inventory(project, origin).items()
            if record.origin == origin and (wanted is None or record.hashes.document in wanted)
        }
        return found | self.corpus.hashes(project, origin, documents)

    def missing(self, fingerprint: str, text_hashes: Collection[str]) -> set[str]:
        """Return the text hashes without a vector, neither here nor on the server."""
        missing = self.corpus.missing(fingerprint, text_hashes)
        if missing and self._adopt(fingerprint, missing):
            missing = self.corpus.missing(fingerprint, missing)
        return missing

    def vectors(self, fingerprint: str, text_hashes: Collection[str]) -> dict[str, Vector]:
        """Return the vectors at hand, by text hash.

        The server is asked for texts that it is known to have, and never for others: a hash of a
        private text is nothing that it should see.
        """
        found = self.corpus.vectors(fingerprint, text_hashes)
        known = {r.hashes.text_hash for each in self._inventories.values() for r in each.values()}
        lacking = (known & set(text_hashes)) - found.keys()
        if lacking and self._adopt(fingerprint, lacking):
            found = self.corpus.vectors(fingerprint, text_hashes)
        return found

    def save_vectors(self, fingerprint: str, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors durably, before the chunks they belong to are published.

        Raises:
            StoreError: a vector is malformed, or the disk is full.
        """
        self.corpus.save_vectors(fingerprint, vectors)

    def publish(
        self,
        project: str,
        origin: str,
        fingerprint: str,
        upserts: Sequence[ScopedChunk],
        deletes: Collection[str],
    ) -> None:
        """Insert or replace chunks and delete others in the corpus; the server follows.

        Raises:
            ScopeViolationError: a chunk is not of this store's scope.
            StoreError: a chunk has no saved vector.
        """
        self._outbox.tell((project, origin))
        self.corpus.publish(project, origin, fingerprint, upserts, deletes)

    def withdraw(self, project: str, chunk_ids: Collection[str]) -> None:
        """Delete chunks that turned private: from the server, then from corpus and disk.

        Without chunks, what an interrupted run left undone is finished.

        Raises:
            StoreError: the server may still have them. They are gone here, and the next run
                deletes them there before it does anything else.
        """
        if chunk_ids:
            self._outbox.withdraw(project, chunk_ids)
            self._forget()
        try:
            self._index.finish_withdrawals()
        except StoreError as error:
            raise type(error)(
                f"what turned private may still be found at {self.address.origin}: {error}"
            ) from error
        finally:
            self.corpus.withdraw(project, chunk_ids)

    def erase_deleted(self) -> None:
        """Erase from this machine's disk the text of chunks that were deleted or replaced.

        Raises:
            StoreError: the erasure failed.
        """
        self.corpus.erase_deleted()

    def check_identity(self, project: str, fingerprint: str) -> None:
        """Refuse a model that other projects of this store were not embedded with.

        Raises:
            ParityError: the message names both fingerprints and the way out.
        """
        self.corpus.check_identity(project, fingerprint)
        snapshot = self._seen()
        if snapshot is None:
            return
        others = [m for m in snapshot.others([]) if m.project != project]
        odd = sorted({m.project for m in others if m.fingerprint != fingerprint})
        if odd:
            held = next(m.fingerprint for m in others if m.fingerprint != fingerprint)
            scope = "shared" if self.scope is Scope.SHARED_ORG else "private"
            raise ParityError(publication.mismatch(held, fingerprint, odd, scope))

    def seal(self, fingerprint: str, dimension: int) -> None:
        """Declare the corpus complete under one fingerprint; drop vectors nothing refers to.

        Raises:
            ParityError: chunks are left that have no vector of this fingerprint.
        """
        self.corpus.seal(fingerprint, dimension)

    def is_current(self) -> bool:
        """Say whether the server serves exactly the sealed corpus; False when it cannot be asked.

        Raises:
            StoreError: the corpus cannot be read.
        """
        if self._outbox.withdrawn():
            return False
        return bool(self._asked(self._is_in_step))

    def refresh_index(self) -> None:
        """Bring the server up to the corpus.

        Raises:
            ParityError: other projects there have vectors of another model.
            StoreReadOnlyError: the server lets us only read.
            StoreError: the server cannot be asked; the corpus is complete and the next run
                catches up.
        """
        self._forget()
        self._index.converge(self._sealed())

    def rebuild(self) -> bool:
        """Send every chunk again; nothing is embedded.

        Returns whether into a new collection. The old one stays where other projects have chunks
        in it, and with it what the server's disk still has of deleted text.

        Raises:
            StoreError: as `refresh_index` does.
        """
        self._forget()
        self.corpus.erase_deleted()
        return self._index.refill(self._sealed())

    def close(self) -> None:
        """Let go of files and connections."""
        self._connection.close()
        self._outbox.close()
        self._reading.close()
        self.corpus.close()

    def _sealed(self) -> Sealed:
        state = corpus.read_state(self._reading)
        projects = {project for project, _ in self._index.pairs()}
        revisions = {project: self.corpus.revision(project) for project in projects}
        return Sealed(state.fingerprint, state.dimension, revisions)

    def _is_in_step(self) -> bool:
        snapshot, sealed = self._snapshot or self._index.snapshot(), self._sealed()
        self._snapshot = snapshot
        return all(self._index.is_in_step(p, snapshot, sealed) for p in self._index.pairs())

    def _seen(self) -> Snapshot | None:
        """Return what the server was found to hold in this run; None when it cannot be asked."""
        if self._snapshot is None:
            self._snapshot = self._asked(self._index.snapshot)
        return self._snapshot

    def _inventory(self, project: str, origin: str) -> Mapping[str, RemoteRecord]:
        """Return what the server has of a project, when that is not what the corpus has."""
        snapshot = self._seen()
        if snapshot is None:
            return {}
        if project not in self._inventories:
            sealed, pair = self._sealed(), (project, origin)
            is_known = self._asked(lambda: self._index.is_in_step(pair, snapshot, sealed))
            found = None if is_known else self._asked(lambda: self._read(project, snapshot))
            if is_known or found is None:
                return {}
            self._inventories[project] = found
        return self._inventories[project]

    def _read(self, project: str, snapshot: Snapshot) -> dict[str, RemoteRecord]:
        return self._index.inventory(project, snapshot)

    def _adopt(self, fingerprint: str, text_hashes: Collection[str]) -> int:
        """Save the vectors that the server has of some texts; return how many."""
        snapshot = self._seen()
        if snapshot is None or not snapshot.count:
            return 0
        return self._asked(lambda: self._adopted(fingerprint, text_hashes)) or 0

    def _adopted(self, fingerprint: str, text_hashes: Collection[str]) -> int:
        adopted = 0
        dimension = corpus.read_state(self._reading).dimension or None
        for vectors in self._index.vectors(fingerprint, text_hashes, dimension):
            self.corpus.save_vectors(fingerprint, vectors)
            adopted += len(vectors)
        return adopted

    def _asked(self, ask: Callable[[], T]) -> T | None:
        """Ask what a run can do without; None when the server cannot be asked, then and later."""
        if self._is_offline:
            return None
        try:
            return ask()
        except IndexNotBuiltError:
            return None
        except (StoreUnreachableError, StoreAccessError):
            self._is_offline = True
            return None

    def _forget(self) -> None:
        self._snapshot = None
        self._inventories.clear()
        self._is_offline = False
