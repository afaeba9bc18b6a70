"""The stores a server answers for: opened when they are first asked, and again when replaced."""

from __future__ import annotations

import threading
from collections.abc import Callable
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
    """A store at a glance; `state` is a reason code (retrieval R51)."""

    state: str
    detail: str = ""
    documents: int = 0
    chunks: int = 0
    fingerprint: str = ""


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
        self._opening = threading.Lock()
        self._open: OpenStore | None = None
        self._seen: object = None

    def opened(self) -> OpenStore:
        """Return the store that lies there at this moment.

        Raises:
            IndexNotBuiltError: nothing was ever stored there.
            StoreError: it cannot be read.
        """
        stamp = self._stamp()
        current = self._open
        if current is not None and stamp == self._seen:
            return current
        with self._opening:
            if self._open is None or self._stamp() != self._seen:
                self.close()
                self._seen = self._stamp()
                self._open = self._open_store()
            return self._open

    def health(self) -> StoreHealth:
        """Return how the store is, without a question."""
        try:
            return self._look()
        except DoxtrRagError as error:
            return StoreHealth(error.kind, str(error))

    def close(self) -> None:
        """Let go of the files."""
        current, self._open = self._open, None
        if current is not None:
            current.close()
