"""The index of a corpus on a Chroma server: brought up to it, and looked at as little as can be."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from doxtr_rag.core.documents import Vector
from doxtr_rag.core.errors import (
    ConfigError,
    IndexNotBuiltError,
    ParityError,
    StoreError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from doxtr_rag.core.ports import Progress
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import publication
from doxtr_rag.storage.remote.adoption import vectors_of
from doxtr_rag.storage.remote.collection import BAD_REQUEST, CollectionHead, RemoteCollection
from doxtr_rag.storage.remote.comparison import Comparison, Difference, Sealed
from doxtr_rag.storage.remote.connection import NOT_FOUND, RemoteConnection
from doxtr_rag.storage.remote.manifest import Manifest, ManifestCollection, Pair
from doxtr_rag.storage.remote.outbox import Outbox
from doxtr_rag.storage.remote.records import CorpusView, OutgoingChunk, States, digest
from doxtr_rag.storage.remote.snapshot import RemoteLook, RemoteRecord, Snapshot
from doxtr_rag.storage.remote.upload import MOST_RECORDS, Upload

logger = logging.getLogger(__name__)

NO_COLLECTION = "00000000-0000-0000-0000-000000000000"
ATTEMPTS = 3
"""How often a run starts over because another one writes the same chunks at the same time."""

NEXT, OLD = "_next", "_old"
"""What a collection is called before it replaces another, and what that is called until it goes."""


class RemoteIndex:
    """Writes one corpus to one server; nothing of other projects is touched."""

    def __init__(
        self,
        connection: RemoteConnection,
        scope: Scope,
        corpus: CorpusView,
        outbox: Outbox,
        progress: Progress | None = None,
    ) -> None:
        name = connection.address.collection
        chunks, manifests = outbox.ids()
        self._connection = connection
        self._scope = scope
        self._corpus = corpus
        self._outbox = outbox
        self._progress = progress
        self._upload = Upload(connection, scope)
        self._look = RemoteLook(
            RemoteCollection(connection, name, chunks),
            ManifestCollection(connection, name, manifests),
        )
        self._comparison = Comparison(self._look, corpus, outbox)

    def snapshot(self) -> Snapshot:
        """Look at the server.

        Raises:
            StoreError: the server cannot be asked.
        """
        snapshot = self._look.snapshot()
        self._keep_ids()
        return snapshot

    def pairs(self) -> set[Pair]:
        """Return the projects and origins that this machine speaks for."""
        return self._corpus.pairs() | self._outbox.told()

    def is_in_step(self, pair: Pair, snapshot: Snapshot, sealed: Sealed) -> bool:
        """Say whether the server has exactly the chunks of the corpus.

        Raises:
            StoreError: the server cannot be asked.
        """
        return self._comparison.is_in_step(pair, snapshot, sealed)

    def inventory(self, project: str, snapshot: Snapshot) -> dict[str, RemoteRecord]:
        """Return every record of a project, without texts.

        Raises:
            StoreError: the server cannot be asked.
        """
        return self._look.inventory(project, snapshot)

    def vectors(
        self, fingerprint: str, text_hashes: Collection[str], dimension: int | None
    ) -> Iterator[dict[str, Vector]]:
        """Yield the vectors that the server has of some texts.

        Raises:
            StoreError: the server cannot be asked.
        """
        return vectors_of(self._look.chunks, fingerprint, text_hashes, dimension)

    def is_writable(self) -> bool:
        """Say whether the server lets us write; nothing is left there.

        Raises:
            StoreError: the server cannot be asked.
        """
        # To a collection that there is not, so that whatever happens changes nothing.
        path = f"{self._connection.address.database_path}/collections/{NO_COLLECTION}/upsert"
        body: dict[str, list[str]] = {"ids": [], "embeddings": [], "documents": []}
        try:
            self._connection.write("POST", path, body, accept={BAD_REQUEST, NOT_FOUND})
        except StoreReadOnlyError:
            return False
        return True

    def finish_withdrawals(self) -> None:
        """Delete from the server what must not be there, and see that it is gone.

        Raises:
            StoreError: it may still be there.
        """
        for project, chunk_ids in self._outbox.withdrawn().items():
            try:
                self._look.chunks.delete(chunk_ids, {"project": project})
                found = self._look.chunks.by_id(chunk_ids, ["metadatas"])
            except IndexNotBuiltError:
                found = []
            left = [r for r in found if (r.get("metadata") or {}).get("project") == project]
            if left:
                raise StoreUnavailableError(
                    f"{self._connection.address.origin} still has {len(left)} chunks that turned "
                    f"private ({left[0]['id']} first): run the build again"
                )
            self._outbox.forget_withdrawn(chunk_ids)

    def converge(self, sealed: Sealed) -> None:
        """Make the server's records equal to the corpus.

        Raises:
            ParityError: other projects there have vectors of another model.
            StoreReadOnlyError: the server lets us only read.
            StoreError: the server cannot be asked, or another run writes the same chunks.
        """
        self.finish_withdrawals()
        for _ in range(ATTEMPTS):
            snapshot = self.snapshot()
            stale = [
                p
                for p in sorted(self.pairs())
                if not self._comparison.is_in_step(p, snapshot, sealed)
            ]
            if not stale:
                return
            if self._write(stale, snapshot, sealed):
                return
            logger.warning("another run writes to %s: comparing again", self._connection.address)
        raise self._crowded()

    def refill(self, sealed: Sealed) -> bool:
        """Send every chunk again; say whether into another collection, without what was deleted.

        Where other runs left chunks in the collection, it stays, and with it what it once held.

        Raises:
            StoreError: as `converge` does.
        """
        self.finish_withdrawals()
        for _ in range(ATTEMPTS):
            snapshot, pairs = self.snapshot(), sorted(self.pairs())
            if not pairs:
                return False
            if not self._others(snapshot, pairs):
                if self._replace(pairs, sealed):
                    return True
            elif self._write(pairs, snapshot, sealed, is_resent=True):
                return False
        raise self._crowded()

    def _write(
        self,
        pairs: Collection[Pair],
        snapshot: Snapshot,
        sealed: Sealed,
        *,
        is_resent: bool = False,
    ) -> bool:
        """Write what differs; say whether nobody else did at the same time."""
        head = self._prepared(snapshot, sealed)
        if head.collection_id != snapshot.collection_id and snapshot.collection_id:
            return False
        if head.fingerprint != sealed.fingerprint:
            if not snapshot.collection_id:
                # Another run made it since we looked.
                return False
            others = self._others(snapshot, self.pairs())
            if others:
                raise ParityError(
                    publication.mismatch(
                        head.fingerprint or "", sealed.fingerprint, others, self._scope_name
                    )
                )
            if head.fingerprint and snapshot.count:
                return self._replace(sorted(self.pairs()), sealed)
            self._look.chunks.describe({**head.metadata, **self._metadata(sealed)})
        token = secrets.token_hex(8)
        self._look.manifests.begin(pairs, token, sealed.fingerprint, head.collection_id)
        differences = {
            pair: self._comparison.difference(pair, snapshot, sealed, is_resent=is_resent)
            for pair in pairs
        }
        self._send(self._look.chunks, differences.values(), sealed)
        for (project, _), difference in differences.items():
            self._look.chunks.delete(difference.deletes, {"project": project})
        wanted = {pair: difference.wanted for pair, difference in differences.items()}
        return self._closed(wanted, token, head.collection_id, sealed)

    def _replace(self, pairs: Collection[Pair], sealed: Sealed) -> bool:
        """Fill another collection and give it the name; say whether nobody else wrote."""
        name = self._connection.address.collection
        self._drop_leftovers()
        fresh = RemoteCollection(self._connection, name + NEXT)
        head = fresh.create(self._metadata(sealed))
        token = secrets.token_hex(8)
        self._look.manifests.begin(pairs, token, sealed.fingerprint, head.collection_id)
        wanted = {pair: self._corpus.states(pair, sealed.fingerprint) for pair in pairs}
        self._send(fresh, [Difference(each, list(each)) for each in wanted.values()], sealed)
        if not self._look.manifests.is_held(pairs, token):
            fresh.drop()
            return False
        if self._look.chunks.find() is not None:
            self._look.chunks.rename(name + OLD)
            fresh.rename(name)
            self._look.chunks.drop()
        else:
            fresh.rename(name)
        self._look.chunks = fresh
        return self._closed(wanted, token, head.collection_id, sealed)

    def _closed(
        self, wanted: Mapping[Pair, States], token: str, collection: str, sealed: Sealed
    ) -> bool:
        """Leave the manifests, unless another run has begun since."""
        if not self._look.manifests.is_held(wanted.keys(), token):
            return False
        digests = {pair: digest(states) for pair, states in wanted.items()}
        self._look.manifests.write(
            [
                Manifest(*pair, digests[pair], len(states), sealed.fingerprint, collection)
                for pair, states in wanted.items()
            ]
        )
        for pair, states in wanted.items():
            self._outbox.keep_digest(pair, sealed.revision(pair), digests[pair])
            self._outbox.leave(pair, digests[pair], states)
        self._keep_ids()
        return True

    def _prepared(self, snapshot: Snapshot, sealed: Sealed) -> CollectionHead:
        """Return the collection, made when missing; refuse one that is not fit for the corpus."""
        chunks, origin = self._look.chunks, self._connection.address.origin
        head = chunks.find() if snapshot.collection_id else None
        if head is None:
            head = chunks.create(self._metadata(sealed))
            self._drop_leftovers()
        scope = head.metadata.get("access_scope", self._scope.value)
        if scope != self._scope.value:
            raise ConfigError(
                f"{origin}: collection {chunks.name} holds {scope} chunks and was opened for "
                f"{self._scope.value}: give each scope a database of its own"
            )
        if head.dimension not in (None, sealed.dimension) or head.space != "cosine":
            raise ParityError(
                f"{origin}: collection {chunks.name} has {head.dimension} dimensions measured by "
                f"{head.space}, this run makes {sealed.dimension} for cosine: another program made "
                "it, give the store a database of its own"
            )
        return head

    def _send(
        self, collection: RemoteCollection, differences: Collection[Difference], sealed: Sealed
    ) -> None:
        total, done = sum(len(each.upserts) for each in differences), 0

        def sent(count: int) -> None:
            nonlocal done
            done += count
            if self._progress is not None:
                self._progress(f"sending {self._scope.value}", done, total)

        for each in differences:
            if each.upserts:
                chunks = self._outgoing(each.upserts, sealed.fingerprint)
                self._upload.send(collection, chunks, each.present_keys, sent)

    def _outgoing(self, chunk_ids: Collection[str], fingerprint: str) -> Iterator[OutgoingChunk]:
        remaining = iter(chunk_ids)
        while page := list(islice(remaining, MOST_RECORDS)):
            chunks = self._corpus.outgoing(page, fingerprint)
            if len(chunks) < len(page):
                raise StoreError(f"{page[0]} or one after it has no vector: run sphinx-build")
            yield from chunks

    def _others(self, snapshot: Snapshot, pairs: Collection[Pair]) -> list[str]:
        """Return who else has chunks in the collection."""
        if not snapshot.collection_id:
            return []
        others = {manifest.project for manifest in snapshot.others(pairs)}
        projects = sorted({project for project, _ in pairs})
        where = {"project": {"$nin": projects}} if projects else None
        for page in self._look.chunks.records(where, ["metadatas"], page=1):
            others.add(str((page[0].get("metadata") or {}).get("project", "of no project")))
            break
        return sorted(others)

    @property
    def _scope_name(self) -> str:
        return "shared" if self._scope is Scope.SHARED_ORG else "private"

    def _metadata(self, sealed: Sealed) -> dict[str, str]:
        return {"fingerprint": sealed.fingerprint, "access_scope": self._scope.value}

    def _drop_leftovers(self) -> None:
        """Remove what a run that was interrupted left of a replacement."""
        for suffix in (NEXT, OLD):
            name = self._connection.address.collection + suffix
            RemoteCollection(self._connection, name).drop()

    def _keep_ids(self) -> None:
        self._outbox.keep_ids(self._look.chunks.collection_id, self._look.manifests.collection_id)

    def _crowded(self) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"{self._connection.address.origin}: another run keeps writing the same documents: "
            "let one of them finish, then run the build again"
        )
