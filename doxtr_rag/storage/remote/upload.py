"""Sending chunks to a server: past a guard, in bodies that it accepts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from doxtr_rag.core.errors import StoreError
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage.guard import ScopeGuard
from doxtr_rag.storage.remote.collection import RemoteCollection
from doxtr_rag.storage.remote.connection import RemoteConnection
from doxtr_rag.storage.remote.records import OutgoingChunk, batches, body_of

MOST_RECORDS = 500
MOST_BYTES = 8 * 1024 * 1024
"""Far below the 40 MiB that Chroma reads, since what stands before it often reads less."""


class Upload:
    """The only way of chunks to a server."""

    def __init__(self, connection: RemoteConnection, scope: Scope) -> None:
        self._connection = connection
        self._guard = ScopeGuard(scope)
        self._most_records = 0

    def send(
        self,
        collection: RemoteCollection,
        chunks: Iterable[OutgoingChunk],
        present_keys: Mapping[str, Collection[str]],
        sent: Callable[[int], None],
    ) -> None:
        """Insert or replace records; `sent` is told how many went with each request.

        Raises:
            ScopeViolationError: a chunk is not of this store's scope; its batch is not sent.
            StoreReadOnlyError: the server lets us only read.
            StoreError: the server cannot be asked, or takes no record of that size.
        """
        most = self._most_records or self._limit()
        for batch in batches(chunks, most, MOST_BYTES):
            self._guard.admit([chunk.scoped for chunk in batch])
            self._send(collection, batch, present_keys)
            sent(len(batch))

    def _limit(self) -> int:
        said: Any = self._connection.get("/api/v2/pre-flight-checks").body
        limit: Any = said.get("max_batch_size") if isinstance(said, dict) else None
        is_count = isinstance(limit, int) and limit > 0
        self._most_records = min(limit, MOST_RECORDS) if is_count else MOST_RECORDS
        return self._most_records

    def _send(
        self,
        collection: RemoteCollection,
        batch: Sequence[OutgoingChunk],
        present_keys: Mapping[str, Collection[str]],
    ) -> None:
        if collection.upsert(body_of(batch, present_keys)):
            return
        if len(batch) == 1:
            raise StoreError(
                f"{batch[0].scoped.chunk.chunk_id}: the server takes no request of "
                f"{batch[0].size()} bytes: raise the limit of what stands before it (nginx: "
                "client_max_body_size)"
            )
        half = len(batch) // 2
        for part in (batch[:half], batch[half:]):
            self._send(collection, part, present_keys)
