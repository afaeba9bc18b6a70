"""What server and clients say to one another, as JSON and back."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from doxtr_rag.core.documents import Locator, StoredChunk, Vector
from doxtr_rag.core.errors import ServerGoneError
from doxtr_rag.core.ports import Degradation, DocumentText, PoolRequest, Pools
from doxtr_rag.core.ranking import Hit
from doxtr_rag.core.scope import Scope

Record = dict[str, Any]


def request_record(request: PoolRequest) -> Record:
    """Return a question as it is sent."""
    record = {
        "query": request.query,
        "vector": vector_text(request.vector),
        "fingerprint": request.fingerprint,
        "size": request.size,
        "best": request.best,
    }
    return record | ({"documents": request.documents} if request.documents else {})


def pools_record(pools: Pools) -> Record:
    """Return what a store found as it is sent, its chunks apart."""
    return {
        "pools": [
            {"pool": pool, "hits": [[hit.chunk_id, hit.text_hash, hit.score] for hit in hits]}
            for pool, hits in pools.rankings.items()
        ],
        "degraded": [{"code": d.code, "detail": d.detail} for d in pools.degraded],
    }


def pools_of(record: Mapping[str, Any], store: str) -> Pools:
    """Return what a store found.

    Raises:
        ServerGoneError: the answer is malformed.
    """
    try:
        rankings = {
            entry["pool"]: tuple(
                Hit(chunk_id, text_hash, store, score)
                for chunk_id, text_hash, score in entry["hits"]
            )
            for entry in record["pools"]
        }
        degraded = tuple(Degradation(d["code"], d["detail"]) for d in record["degraded"])
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed(error) from error
    return Pools(rankings, chunks_of(record), degraded)


def chunk_record(chunk: StoredChunk, page: str | None) -> Record:
    """Return a chunk as it is sent; `page` is the address of its built page on this machine."""
    locator = chunk.locator
    return {
        "id": chunk.chunk_id,
        "project": chunk.project,
        "document": chunk.document,
        "anchor": chunk.anchor,
        "text": chunk.text,
        "breadcrumb": list(chunk.breadcrumb),
        "url": chunk.url,
        "source_file": chunk.source_file,
        "locator": None
        if locator is None
        else {"kind": locator.kind, "value": locator.value, "end": locator.end},
        "scope": chunk.scope.value,
        "text_hash": chunk.text_hash,
        "metadata": dict(chunk.metadata),
        "page": page,
    }


def chunk_of(record: Mapping[str, Any]) -> StoredChunk:
    """Return a chunk; what is not sent is empty.

    Raises:
        ServerGoneError: the record is malformed.
    """
    try:
        locator = record["locator"]
        return StoredChunk(
            chunk_id=record["id"],
            project=record["project"],
            document=record["document"],
            anchor=record["anchor"],
            text=record["text"],
            breadcrumb=tuple(record["breadcrumb"]),
            url=record["url"],
            source_file=record["source_file"],
            locator=None
            if locator is None
            else Locator(locator["kind"], locator["value"], locator["end"]),
            scope=Scope(record["scope"]),
            text_hash=record["text_hash"],
            content_hash="",
            links=(),
            metadata=record["metadata"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed(error) from error


def chunks_of(record: Mapping[str, Any]) -> dict[str, StoredChunk]:
    """Return chunks by their ids.

    Raises:
        ServerGoneError: the answer is malformed.
    """
    try:
        return {key: chunk_of(value) for key, value in record["chunks"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise _malformed(error) from error


def document_of(record: Mapping[str, Any]) -> DocumentText:
    """Return a document's chunks, or documents of near names.

    Raises:
        ServerGoneError: the answer is malformed.
    """
    try:
        return DocumentText(tuple(map(chunk_of, record["chunks"])), tuple(record["near"]))
    except (KeyError, TypeError) as error:
        raise _malformed(error) from error


def vector_text(vector: Vector) -> str:
    """Return a vector as base64 of its float32 bytes."""
    return base64.b64encode(vector).decode("ascii")


def vector_of(text: str) -> Vector:
    """Return the vector in a base64 text.

    Raises:
        ValueError: it is no base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def _malformed(error: Exception) -> ServerGoneError:
    return ServerGoneError(
        f"the server's answer cannot be read ({type(error).__name__}: {error}): "
        "run doxtr-rag serve --stop"
    )
