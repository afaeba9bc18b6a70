"""The reading side of a store on a Chroma server; asks as the Pi extension does."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from itertools import islice
from typing import Any

from doxtr_rag.core.addressing import document_matcher
from doxtr_rag.core.documents import StoredChunk, Vector
from doxtr_rag.core.errors import (
    ConfigError,
    IndexNotBuiltError,
    ParityError,
    StoreError,
    StoreUnavailableError,
)
from doxtr_rag.core.ports import Degradation, DocumentText, PoolRequest, Pools
from doxtr_rag.core.ranking import Hit
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage.closing import Closing
from doxtr_rag.storage.remote.address import RemoteAccess, RemoteAddress
from doxtr_rag.storage.remote.adoption import vector_of
from doxtr_rag.storage.remote.collection import CollectionHead, Record, RemoteCollection
from doxtr_rag.storage.remote.connection import RemoteConnection
from doxtr_rag.storage.remote.reading import position, stored_chunk

SIFTED_WINDOW = 500
SIFTED_FACTOR = 4
"""Chroma cannot match parts of names, so that more is asked for and sifted here (retrieval R29)."""

MOST_DOCUMENT_CHUNKS = 5000
SAMPLED = 20
FLOAT_BYTES = 4
READ = ("documents", "metadatas")
TITLE_SEPARATOR = " > "


class RemoteReader(Closing):
    """Searches one collection of a server; methods may be called from any thread."""

    def __init__(
        self, scope: Scope, name: str, address: RemoteAddress, access: RemoteAccess
    ) -> None:
        self.address = address
        self._scope = scope
        self._name = name
        self._connection = RemoteConnection(address, access)

    @property
    def name(self) -> str:
        """The store's name in answers."""
        return self._name

    @property
    def scope(self) -> Scope:
        """The audience this store serves."""
        return self._scope

    def fingerprint(self) -> str | None:
        """Return the fingerprint of the vectors that are searched; None when that is not said.

        Raises:
            IndexNotBuiltError: there is no such collection.
            StoreError: the server cannot be asked.
        """
        return self._opened()[1].fingerprint

    def pools(self, request: PoolRequest) -> Pools:
        """Return the nearest chunks; a server has no other ranking to offer.

        Raises:
            ParityError: the question was embedded by another model.
            IndexNotBuiltError: there is no such collection.
            StoreError: the server cannot be asked.
        """
        collection = self._matching(request.vector, request.fingerprint)
        is_sifted = bool(request.documents.strip())
        window = max(SIFTED_FACTOR * request.size, SIFTED_WINDOW) if is_sifted else request.size
        found = self._nearest(collection, request.vector, window)
        passes = document_matcher(request.documents)
        kept = [
            (chunk, score)
            for chunk, score in found
            if passes(chunk.document) or passes(chunk.source_file)
        ][: request.size]
        # `best` is twice the number of sections that are wanted.
        is_cut = 2 * len(kept) < request.best and len(found) == window
        return Pools(
            {"dense": tuple(self._hit(chunk, score) for chunk, score in kept)},
            {chunk.chunk_id: chunk for chunk, _ in kept},
            (self._truncated(),) if is_cut else (),
        )

    def fetch(self, chunk_ids: Sequence[str]) -> dict[str, StoredChunk]:
        """Return chunks by id, in the order asked for; unknown ids are left out.

        Raises:
            StoreError: the server cannot be asked.
        """
        records = self._opened()[0].by_id(list(dict.fromkeys(chunk_ids)), READ)
        found = {chunk.chunk_id: chunk for chunk in map(self._chunk, records)}
        return {chunk_id: found[chunk_id] for chunk_id in chunk_ids if chunk_id in found}

    def document(self, name: str) -> DocumentText:
        """Return a document by its name, `project/document`, or its source file.

        Records of other programs may name their source file only.

        Raises:
            StoreError: the server cannot be asked.
        """
        project, _, document = name.partition("/")
        qualified = {"$and": [{"project": project}, {"document": document}]}
        where = {"$or": [{"source_file": name}, {"document": name}, qualified]}
        pages = self._opened()[0].records(where, READ, page=MOST_DOCUMENT_CHUNKS)
        records = sorted((record for page in pages for record in page), key=position)
        chunks = [self._chunk(record) for record in records]
        if not chunks:
            return DocumentText(())
        first = min(chunks, key=lambda c: (c.document != name, c.project, c.document))
        place = (first.project, first.document)
        return DocumentText(tuple(c for c in chunks if (c.project, c.document) == place))

    def count(self) -> int:
        """Return the number of chunks, those of other projects among them.

        Raises:
            IndexNotBuiltError: there is no such collection.
            StoreError: the server cannot be asked.
        """
        return self._opened()[0].count()

    def dense(self, vector: Vector, top_k: int) -> list[Hit]:
        """Return the nearest chunks by cosine similarity, best first.

        Raises:
            ParityError: the question was embedded with another dimension.
            StoreError: the server cannot be asked.
        """
        found = self._nearest(self._matching(vector, None), vector, top_k)
        return [self._hit(chunk, score) for chunk, score in found]

    def sample(self) -> tuple[str, str, Vector] | None:
        """Return id, embedding input and vector of a chunk; None where no input can be proven.

        Raises:
            StoreError: the server cannot be asked.
        """
        pages = self._opened()[0].records(None, (*READ, "embeddings"), page=SAMPLED)
        for record in next(iter(pages), []):
            chunk = self._chunk(record)
            titles = chunk.breadcrumb
            for at in range(len(titles) + 1):
                header = TITLE_SEPARATOR.join(titles[at:])
                text = "\n\n".join(filter(None, (header, chunk.text)))
                if hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() == chunk.text_hash:
                    return chunk.chunk_id, text, vector_of(record.get("embedding")).tobytes()
        return None

    def verify(self) -> None:
        """Ask the collection for everything it should hold.

        Raises:
            StoreUnavailableError: its graph lacks records.
            StoreError: the server cannot be asked.
        """
        collection, head = self._opened()
        total = collection.count()
        if not total or not head.dimension:
            return
        # Ids alone, since anything that is joined to them stops at 32,766.
        reached = len(collection.nearest([0.1] * head.dimension, total, ()))
        if reached < total:
            raise StoreUnavailableError(
                f"{self.address}: {total - reached} of {total} chunks are not found by any "
                "question: run doxtr-rag rebuild"
            )

    def degradations(self) -> list[Degradation]:
        """Say what this store cannot do as it should; what a server lacks is known."""
        return []

    def close(self) -> None:
        """Let go of the connections."""
        self._connection.close()

    def _opened(self) -> tuple[RemoteCollection, CollectionHead]:
        """Look the collection up, each time: another may have taken its name."""
        collection = RemoteCollection(self._connection, self.address.collection)
        head = collection.find()
        if head is None:
            raise IndexNotBuiltError(
                f"{self.address.origin} has no collection {collection.name} in "
                f"{self.address.database}: run sphinx-build"
            )
        scope = head.metadata.get("access_scope", self._scope.value)
        if scope != self._scope.value:
            raise ConfigError(
                f"{self.address}: this collection holds {scope} chunks and was opened for "
                f"{self._scope.value}"
            )
        return collection, head

    def _matching(self, vector: Vector, fingerprint: str | None) -> RemoteCollection:
        """Return the collection, once it is proven to be of the question's model."""
        collection, head = self._opened()
        dimension = len(vector) // FLOAT_BYTES
        if head.dimension not in (None, dimension):
            raise ParityError(
                f"the question has {dimension} dimensions, the {self._name} store "
                f"{head.dimension}: run sphinx-build"
            )
        if fingerprint is not None and head.fingerprint not in (None, fingerprint):
            raise ParityError(
                f"the vectors of the {self._name} store were made by another model (fingerprint "
                f"{str(head.fingerprint)[:12]}, the question's is {fingerprint[:12]}): "
                "run sphinx-build"
            )
        return collection

    def _nearest(
        self, collection: RemoteCollection, vector: Vector, count: int
    ) -> list[tuple[StoredChunk, float]]:
        if count <= 0:
            return []
        records = collection.nearest(_numbers(vector), count, (*READ, "distances"))
        return [(self._chunk(record), _similarity(record)) for record in islice(records, count)]

    def _chunk(self, record: Record) -> StoredChunk:
        return stored_chunk(record, self._scope)

    def _hit(self, chunk: StoredChunk, score: float) -> Hit:
        return Hit(chunk.chunk_id, chunk.text_hash, self._name, score)

    def _truncated(self) -> Degradation:
        detail = (
            f"{self._name}: only its {SIFTED_WINDOW} or more nearest chunks were sifted by document"
        )
        return Degradation("filter_truncated", detail)


def _numbers(vector: Vector) -> list[float]:
    numbers = array("f")
    numbers.frombytes(vector)
    return numbers.tolist()


def _similarity(record: Record) -> float:
    distance: Any = record.get("distance")
    if not isinstance(distance, (int, float)):
        raise StoreError("the server answered without distances")
    return 1.0 - float(distance)
