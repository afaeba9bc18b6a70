"""The read-only part of Chroma's v2 REST interface over one store (facts: chroma, section 5)."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from doxtr_rag.core.cutting import clean
from doxtr_rag.core.documents import Vector
from doxtr_rag.core.ports import CollectionRecord, RecordCollection
from doxtr_rag.servers.failures import (
    RequestError,
    between,
    field,
    finite_numbers,
    require_measurable,
    texts,
)
from doxtr_rag.servers.stores import ServedStore
from doxtr_rag.servers.where import where_metadata, where_text

MAX_RECORDS = 10_000
MAX_QUERIES = 100
DEFAULT_RESULTS = 10
NO_UUID = "00000000-0000-0000-0000-000000000000"
PARTS = ("documents", "metadatas", "embeddings", "distances", "uris")

Body = Mapping[str, Any]
Records = Sequence[CollectionRecord]


@dataclass(frozen=True, slots=True)
class CollectionNames:
    """Where a store's collection stands in Chroma's tree."""

    tenant: str
    database: str
    collection: str


class ChromaRoutes:
    """Answers for one store; each method is one route."""

    def __init__(self, store: ServedStore, names: CollectionNames) -> None:
        self._store = store
        self.names = names

    def heartbeat(self) -> dict[str, Any]:
        """Return the time."""
        return {"nanosecond heartbeat": time.time_ns()}

    def identity(self) -> dict[str, Any]:
        """Return whom the server takes everyone for."""
        return {
            "user_id": "",
            "tenant": self.names.tenant,
            "databases": [self.names.database],
        }

    def tenant(self, tenant: str) -> dict[str, Any]:
        """Return the one tenant.

        Raises:
            RequestError: 404, another was asked for.
        """
        self._require(tenant=tenant)
        return {"name": tenant, "resource_name": None}

    def database(self, tenant: str, database: str) -> dict[str, Any]:
        """Return the one database.

        Raises:
            RequestError: 404, another was asked for.
        """
        self._require(tenant=tenant, database=database)
        return {"id": NO_UUID, "name": database, "tenant": tenant}

    def collection(self, *, name: str = "", collection_id: str = "") -> dict[str, Any]:
        """Return the one collection, by its name or its id.

        Raises:
            RequestError: 404, another was asked for.
            StoreError: the store cannot be read.
        """
        with self._store.opened() as opened:
            state = opened.collection.state()
        if name not in ("", self.names.collection) or collection_id not in (
            "",
            state.collection_id,
        ):
            raise _not_found(f"Collection [{name or collection_id}] does not exist")
        return {
            "id": state.collection_id,
            "name": self.names.collection,
            "configuration_json": {
                "hnsw": {"space": "cosine"},
                "spann": None,
                "embedding_function": None,
            },
            "schema": None,
            "metadata": {
                "hnsw:space": "cosine",
                "fingerprint": state.fingerprint,
                "access_scope": self._store.scope.value,
            },
            "dimension": state.dimension,
            "tenant": self.names.tenant,
            "database": self.names.database,
            "log_position": 0,
            "version": 0,
        }

    def collections(self, query: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the one collection, unless a page behind it was asked for.

        Raises:
            RequestError: 400, `limit` or `offset` is no number.
            StoreError: the store cannot be read.
        """
        offset, limit = _page_number(query, "offset", 0), _page_number(query, "limit", 1)
        return [self.collection()][offset:][:limit]

    def count(self, collection_id: str) -> int:
        """Return the number of records.

        Raises:
            RequestError: 404, another collection was asked for.
            StoreError: the store cannot be read.
        """
        with self._found(collection_id) as collection:
            return collection.state().count

    def get(self, collection_id: str, body: Body) -> dict[str, Any]:
        """Return records by id, by filters, or page by page.

        Raises:
            RequestError: the request is malformed, or sets no limit where there are too many.
            StoreError: the store cannot be read.
        """
        include = _include(body, ("documents", "metadatas"), forbidden="distances")
        has_limit = body.get("limit") is not None
        limit = between(body, "limit", 0, MAX_RECORDS) if has_limit else MAX_RECORDS
        offset = 0 if body.get("offset") is None else between(body, "offset", 0, 2**31)
        with self._found(collection_id) as collection:
            records = list(islice(_wanted(collection, body), offset, offset + limit + 1))
            if len(records) > limit and not has_limit:
                raise _invalid(f"more than {MAX_RECORDS} records: page by limit and offset")
            records = records[:limit]
            vectors = collection.vectors(records) if "embeddings" in include else {}
        return {"ids": [r.chunk_id for r in records], **_parts(records, vectors, include)}

    def query(self, collection_id: str, body: Body) -> dict[str, Any]:
        """Return the nearest records of each vector.

        Raises:
            RequestError: the request is malformed.
            StoreError: the store cannot be read.
        """
        include = _include(body, ("documents", "metadatas", "distances"))
        count = (
            DEFAULT_RESULTS
            if body.get("n_results") is None
            else between(body, "n_results", 1, MAX_RECORDS)
        )
        has_filter = any(body.get(key) is not None for key in ("ids", "where", "where_document"))
        with self._found(collection_id) as collection:
            wanted = list(_wanted(collection, body)) if has_filter else None
            answers = [
                _nearest(collection, vector, count, wanted, include)
                for vector in _query_vectors(body, collection.state().dimension)
            ]
        keys = ("ids", *PARTS)
        joined = {key: [a[key] for a in answers] for key in keys if key in {"ids", *include}}
        return {**dict.fromkeys(keys), **joined, "include": list(include)}

    def _require(self, tenant: str, database: str | None = None) -> None:
        if tenant != self.names.tenant:
            raise _not_found(f"Tenant [{tenant}] not found")
        if database not in (None, self.names.database):
            raise _not_found(f"Database [{database}] not found. Are you sure it exists?")

    @contextmanager
    def _found(self, collection_id: str) -> Iterator[RecordCollection]:
        with self._store.opened() as opened:
            if collection_id != opened.collection.state().collection_id:
                raise _not_found(f"Collection [{collection_id}] does not exist")
            yield opened.collection


def _nearest(
    collection: RecordCollection,
    vector: Vector,
    count: int,
    wanted: Records | None,
    include: Collection[str],
) -> dict[str, Any]:
    pairs = collection.nearest(vector, count, wanted)
    by_id = {r.chunk_id: r for r in collection.records([chunk_id for chunk_id, _ in pairs])}
    present = [(by_id[chunk_id], score) for chunk_id, score in pairs if chunk_id in by_id]
    records = [record for record, _ in present]
    vectors = collection.vectors(records) if "embeddings" in include else {}
    return {
        "ids": [r.chunk_id for r in records],
        **_parts(records, vectors, include),
        "distances": [1.0 - score for _, score in present],
    }


def _parts(
    records: Records, vectors: Mapping[str, Vector], include: Collection[str]
) -> dict[str, Any]:
    return {
        "documents": [r.text for r in records] if "documents" in include else None,
        "metadatas": [dict(r.metadata) for r in records] if "metadatas" in include else None,
        "embeddings": [_numbers(vectors.get(r.text_hash)) for r in records]
        if "embeddings" in include
        else None,
        "uris": [None for _ in records] if "uris" in include else None,
        "include": list(include),
    }


def _wanted(collection: RecordCollection, body: Body) -> Any:
    """Yield the records that ids and filters let through."""
    ids = None if body.get("ids") is None else texts(body, "ids", MAX_RECORDS)
    records = collection.records(None if ids is None else [clean(i) for i in ids])
    filters = []
    if body.get("where") is not None:
        filters.append(where_metadata(body["where"]))
    if body.get("where_document") is not None:
        filters.append(where_text(body["where_document"]))
    return (r for r in records if all(passes(r.metadata, r.text) for passes in filters))


def _query_vectors(body: Body, dimension: int | None) -> list[Vector]:
    vectors = field(body, "query_embeddings", list)
    if not 1 <= len(vectors) <= MAX_QUERIES:
        raise _invalid(f"query_embeddings: expected 1 to {MAX_QUERIES} vectors")
    packed = []
    for vector in vectors:
        numbers = finite_numbers(vector, "query_embeddings")
        if dimension is not None and len(numbers) != dimension:
            raise _invalid(
                f"Collection expecting embedding with dimension of {dimension}, got {len(numbers)}"
            )
        require_measurable(numbers, "query_embeddings")
        packed.append(struct.pack(f"<{len(numbers)}f", *numbers))
    return packed


def _include(body: Body, default: tuple[str, ...], forbidden: str = "") -> tuple[str, ...]:
    if body.get("include") is None:
        return default
    include = tuple(texts(body, "include", len(PARTS)))
    if not set(include) <= set(PARTS) - {forbidden}:
        raise _invalid(f"include: expected some of {', '.join(PARTS)}")
    return include


def _numbers(vector: Vector | None) -> list[float] | None:
    return None if vector is None else list(struct.unpack(f"<{len(vector) // 4}f", vector))


def _page_number(query: Mapping[str, str], name: str, default: int) -> int:
    word = query.get(name, str(default))
    if not re.fullmatch("[0-9]{1,9}", word):
        raise _invalid(f"{name}: expected a whole number")
    return int(word)


def _invalid(message: str) -> RequestError:
    return RequestError(400, "InvalidArgumentError", message)


def _not_found(message: str) -> RequestError:
    return RequestError(404, "NotFoundError", message)
