"""`/search`, `/chunks` and `/document` of a store: what the query side fuses and reads."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from doxtr_rag.core.cutting import clean
from doxtr_rag.core.documents import StoredChunk
from doxtr_rag.core.ports import PoolRequest
from doxtr_rag.servers.failures import RequestError, between, field, require_measurable, texts
from doxtr_rag.servers.stores import ServedStore
from doxtr_rag.servers.wire import chunk_record, pools_record, vector_of

MAX_SIZE = 2000
MAX_BEST = 200
MAX_IDS = 200
FLOAT_BYTES = 4

PageOf = Callable[[StoredChunk], str | None]
"""Returns the address of a chunk's built page on this machine, if there is one."""

Body = Mapping[str, Any]


def search(store: ServedStore, dimension: int, page_of: PageOf, body: Body) -> dict[str, Any]:
    """Return every pool of a store and the texts of its best sections.

    Raises:
        RequestError: the request is malformed.
        DoxtrRagError: the store cannot be asked, or belongs to another model.
    """
    request = PoolRequest(
        query=clean(field(body, "query", str)),
        vector=_vector(field(body, "vector", str), dimension),
        fingerprint=field(body, "fingerprint", str),
        size=between(body, "size", 1, MAX_SIZE),
        best=between(body, "best", 1, MAX_BEST),
        documents=clean(field(body, "documents", str, "")),
    )
    with store.opened() as opened:
        found = opened.search.pools(request)
    return {
        "store": store.name,
        "scope": store.scope.value,
        "fingerprint": request.fingerprint,
        **pools_record(found),
        "chunks": {key: chunk_record(c, page_of(c)) for key, c in found.chunks.items()},
    }


def chunks(store: ServedStore, page_of: PageOf, body: Body) -> dict[str, Any]:
    """Return chunks by id; unknown ids are left out.

    Raises:
        RequestError: the request is malformed.
        DoxtrRagError: the store cannot be read.
    """
    wanted = [clean(chunk_id) for chunk_id in texts(body, "ids", MAX_IDS)]
    with store.opened() as opened:
        found = opened.search.fetch(wanted)
    return {"chunks": {key: chunk_record(c, page_of(c)) for key, c in found.items()}}


def document(store: ServedStore, page_of: PageOf, body: Body) -> dict[str, Any]:
    """Return a document's chunks in reading order, or documents of near names.

    Raises:
        RequestError: the request is malformed.
        DoxtrRagError: the store cannot be read.
    """
    name = clean(field(body, "document", str))
    with store.opened() as opened:
        found = opened.search.document(name)
    return {
        "chunks": [chunk_record(chunk, page_of(chunk)) for chunk in found.chunks],
        "near": list(found.near),
    }


def _vector(text: str, dimension: int) -> bytes:
    try:
        vector = vector_of(text)
    except ValueError as error:
        raise RequestError(400, "bad_input", "vector: expected base64") from error
    if len(vector) != FLOAT_BYTES * dimension:
        raise RequestError(
            400,
            "wrong_dimension",
            f"vector: expected {dimension} components of float32, got {len(vector)} bytes",
        )
    require_measurable(struct.unpack(f"<{dimension}f", vector), "vector")
    return vector
