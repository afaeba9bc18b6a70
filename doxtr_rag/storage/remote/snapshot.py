"""What a server holds of a store, seen from one machine: known, counted, or read page by page."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from doxtr_rag.core.documents import StoredHash
from doxtr_rag.core.errors import IndexNotBuiltError
from doxtr_rag.storage.remote.collection import Record, RemoteCollection
from doxtr_rag.storage.remote.manifest import SCHEMA, Manifest, ManifestCollection, Pair
from doxtr_rag.storage.remote.reading import chunk_place, text_of, titles_of
from doxtr_rag.storage.remote.records import state_of

ID_PAGE = 30_000
"""Ids without anything joined to them, which SQLite would stop at 32,766."""


@dataclass(frozen=True, slots=True)
class RemoteRecord:
    """One record of a project, without its text."""

    chunk_id: str
    origin: str
    state: str
    keys: frozenset[str]
    hashes: StoredHash


@dataclass(slots=True)
class Snapshot:
    """A server at one moment; `collection_id` is "" when it has no such collection."""

    collection_id: str = ""
    count: int = 0
    manifests: Mapping[Pair, Manifest] = field(default_factory=dict)
    counted: dict[Pair, int] = field(default_factory=dict)

    @property
    def is_accounted_for(self) -> bool:
        """Say whether the manifests explain every record, so that none needs to be counted."""
        if any(self.is_unsure(manifest) for manifest in self.manifests.values()):
            return False
        return sum(manifest.count for manifest in self.manifests.values()) == self.count

    def is_unsure(self, manifest: Manifest) -> bool:
        """Say whether a manifest does not tell what is in this collection."""
        return manifest.is_open or manifest.collection != self.collection_id

    def others(self, pairs: Collection[Pair]) -> list[Manifest]:
        """Return the manifests of this collection that other runs speak for."""
        return [
            manifest
            for pair, manifest in sorted(self.manifests.items())
            if pair not in pairs and manifest.collection == self.collection_id
        ]


class RemoteLook:
    """Looks at a collection and its manifests."""

    def __init__(self, chunks: RemoteCollection, manifests: ManifestCollection) -> None:
        self.chunks = chunks
        self.manifests = manifests

    def snapshot(self) -> Snapshot:
        """Return what the server says at this moment, in two requests once the ids are known.

        Raises:
            StoreError: the server cannot be asked.
        """
        try:
            count = self.chunks.count()
        except IndexNotBuiltError:
            return Snapshot()
        try:
            manifests = self.manifests.read()
        except IndexNotBuiltError:
            manifests = {}
        return Snapshot(self.chunks.collection_id, count, manifests)

    def trusted(self, pair: Pair, snapshot: Snapshot) -> Manifest | None:
        """Return the manifest of a project and origin, when the records agree with it.

        Raises:
            StoreError: the server cannot be asked.
        """
        manifest = snapshot.manifests.get(pair)
        if manifest is None or snapshot.is_unsure(manifest) or manifest.schema != SCHEMA:
            return None
        is_whole = snapshot.is_accounted_for or self.counted(pair, snapshot) == manifest.count
        return manifest if is_whole else None

    def counted(self, pair: Pair, snapshot: Snapshot) -> int:
        """Return how many records of a project and origin there are.

        Raises:
            StoreError: the server cannot be asked.
        """
        if pair not in snapshot.counted:
            project, origin = pair
            where = {"$and": [{"project": project}, {"origin": origin}]}
            pages = self.chunks.records(where, [], page=ID_PAGE)
            snapshot.counted[pair] = sum(map(len, pages)) if snapshot.collection_id else 0
        return snapshot.counted[pair]

    def inventory(self, project: str, snapshot: Snapshot) -> dict[str, RemoteRecord]:
        """Return every record of a project, read page by page.

        Raises:
            StoreError: the server cannot be asked.
        """
        if not snapshot.collection_id:
            return {}
        pages = self.chunks.records({"project": project}, ["metadatas"])
        found = (_record(record, project) for page in pages for record in page)
        return {record.chunk_id: record for record in found}


def _record(record: Record, project: str) -> RemoteRecord:
    chunk_id, said = str(record["id"]), record.get("metadata")
    metadata: Mapping[str, Any] = said if isinstance(said, dict) else {}
    document, _ = chunk_place(chunk_id, project)
    return RemoteRecord(
        chunk_id=chunk_id,
        origin=text_of(metadata, "origin"),
        state=state_of(metadata),
        keys=frozenset(metadata),
        hashes=StoredHash(
            text_of(metadata, "document") or document,
            "",  # No chunk equals it, so that a run puts its own into the corpus.
            text_of(metadata, "text_hash"),
            titles_of(metadata),
        ),
    )
