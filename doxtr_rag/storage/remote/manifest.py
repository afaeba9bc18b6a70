"""What each project says it left in a collection; kept on the server, in a collection beside it.

Not in the collection itself, since every search would find it, and not in the collection's
metadata, since two projects that write it at once would lose one of both (a PUT replaces it all).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from doxtr_rag.core.errors import IndexNotBuiltError, StoreSchemaError
from doxtr_rag.storage.remote.collection import Record, RemoteCollection
from doxtr_rag.storage.remote.connection import RemoteConnection

SCHEMA = 1
"""The version of the records that are written; another one is written again."""

SUFFIX = "_manifest"
OPEN = "writing "

Pair = tuple[str, str]
"""Project and origin: what one run speaks for."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The chunks of one project and origin, as the last run left them.

    `digest` covers every id and what it stands for; while a run writes it is `OPEN` and the run's
    token. `collection` is the id of the collection they lie in.
    """

    project: str
    origin: str
    digest: str
    count: int
    fingerprint: str
    collection: str
    schema: int = SCHEMA

    @property
    def pair(self) -> Pair:
        """Project and origin."""
        return (self.project, self.origin)

    @property
    def is_open(self) -> bool:
        """Say whether a run has begun and not ended, so that nobody knows what is there."""
        return self.digest.startswith(OPEN)


class ManifestCollection:
    """The manifests of one collection."""

    def __init__(self, connection: RemoteConnection, name: str, known_id: str = "") -> None:
        self._records = RemoteCollection(connection, name + SUFFIX, known_id)

    @property
    def collection_id(self) -> str:
        """The id to be remembered; "" before the first look."""
        return self._records.collection_id

    def read(self) -> dict[Pair, Manifest]:
        """Return every manifest.

        Raises:
            IndexNotBuiltError: nothing was ever written.
            StoreSchemaError: a newer version of this package wrote one.
            StoreError: the server cannot be asked.
        """
        pages = self._records.records(None, ["metadatas"])
        found = (_manifest(record) for page in pages for record in page)
        return {manifest.pair: manifest for manifest in found if manifest is not None}

    def begin(self, pairs: Iterable[Pair], token: str, fingerprint: str, collection: str) -> None:
        """Say that a run writes, so that nobody trusts what was left before."""
        digest = OPEN + token
        opened = [Manifest(*pair, digest, 0, fingerprint, collection) for pair in pairs]
        try:
            self.write(opened)
        except IndexNotBuiltError:
            self._records.create({"holds": "what each project left"})
            self.write(opened)

    def is_held(self, pairs: Collection[Pair], token: str) -> bool:
        """Say whether no other run has begun since."""
        records = self._records.by_id([_id(pair) for pair in pairs], ["metadatas"])
        found = [manifest for record in records if (manifest := _manifest(record))]
        held = {manifest.pair for manifest in found if manifest.digest == OPEN + token}
        return held == set(pairs)

    def write(self, manifests: Collection[Manifest]) -> None:
        """Leave manifests; they replace those of their projects and origins."""
        self._records.upsert(
            {
                "ids": [_id(manifest.pair) for manifest in manifests],
                "embeddings": [[1.0]] * len(manifests),
                "metadatas": [_metadata(manifest) for manifest in manifests],
            }
        )


def _id(pair: Pair) -> str:
    # A project is a slug without a slash.
    return "/".join(pair)


def _metadata(manifest: Manifest) -> dict[str, Any]:
    return {
        "project": manifest.project,
        "origin": manifest.origin,
        "revision": manifest.digest,
        "count": manifest.count,
        "fingerprint": manifest.fingerprint,
        "collection": manifest.collection,
        "schema": manifest.schema,
    }


def _manifest(record: Record) -> Manifest | None:
    """Return the manifest of a record; None for one that somebody else wrote."""
    said = record.get("metadata")
    if not isinstance(said, dict):
        return None
    words = [said.get(key) for key in ("project", "origin", "revision", "fingerprint")]
    collection, count, schema = said.get("collection"), said.get("count"), said.get("schema")
    if not (isinstance(count, int) and isinstance(schema, int) and isinstance(collection, str)):
        return None
    project, origin, digest, fingerprint = (w if isinstance(w, str) else "" for w in words)
    if schema > SCHEMA:
        raise StoreSchemaError(
            f"project {project} was written to the server with schema {schema}, this doxtr-rag "
            f"reads schema {SCHEMA}: install a newer doxtr-rag; nothing was changed"
        )
    return Manifest(project, origin, digest, count, fingerprint, collection, schema)
