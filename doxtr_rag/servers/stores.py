"""The stores a server answers for: opened when they are first asked, and again when replaced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from doxtr_rag.core.errors import DoxtrRagError
from doxtr_rag.core.ports import RecordCollection, SearchableStore
from doxtr_rag.core.scope import Scope


@dataclass(frozen=True, slots=True)
class OpenStore:
    """An open store, as a place to search and as a collection."""

    search: SearchableStore
    collection: RecordCollection
    close: Callable[[], None]


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """A store at a glance; `state` is a reason code (retrieval R51), `updated` ISO 8601."""

    state: str
    detail: str = ""
    documents: int = 0
    chunks: int = 0
    fingerprint: str = ""
    updated: str = ""


@dataclass(eq=False, slots=True)
class _Lease:
    """An open store and the number of questions that use it."""

    store: OpenStore
    users: int = 0


class ServedStore:
    """One store of a server.

    `stamp` tells one corpus file from the next that lies in its place; `look` says how it is.
    """

    def __init__(
        self,
        name: str,
        scope: Scope,
        *,
        open_store: Callable[[], OpenStore],
        stamp: Callable[[], object],
        look: Callable[[], StoreHealth],
    ) -> None:
        self.name = name
        self.scope = scope
        self._open_store = open_store
        self._stamp = stamp
        self._look = look
        self._lock = threading.Lock()
        self._lease: _Lease | None = None
        self._seen: object = None

    @contextmanager
    def opened(self) -> Iterator[OpenStore]:
        """Lend the store that lies there at this moment; replaced ones close after their last use.

        Raises:
            IndexNotBuiltError: nothing was ever stored there.
            StoreError: it cannot be read.
        """
        lease = self._taken()
        try:
            yield lease.store
        finally:
            self._give_back(lease)

    def health(self) -> StoreHealth:
        """Return how the store is, without a question."""
        try:
            return self._look()
        except DoxtrRagError as error:
            return StoreHealth(error.kind, str(error))

    def close(self) -> None:
        """Let go of the files, as soon as no question uses them."""
        with self._lock:
            self._retire()

    def _taken(self) -> _Lease:
        with self._lock:
            stamp = self._stamp()
            if self._lease is None or stamp != self._seen:
                self._retire()
                self._seen = stamp
                self._lease = _Lease(self._open_store())
            self._lease.users += 1
            return self._lease

    def _give_back(self, lease: _Lease) -> None:
        with self._lock:
            lease.users -= 1
            is_over = not lease.users and lease is not self._lease
        if is_over:
            lease.store.close()

    def _retire(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None and not lease.users:
            lease.store.close()
