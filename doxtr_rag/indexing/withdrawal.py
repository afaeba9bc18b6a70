"""Taking out of the shared store what may not be there, before all that is slow or may fail."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from doxtr_rag.core.documents import DocumentContext, Harvest, StoredHash
from doxtr_rag.core.ports import ChunkStore, DocumentRecord
from doxtr_rag.core.scope import AccessControl, Scope
from doxtr_rag.indexing.vectors import pages

LOOKUP_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Privacy:
    """Which documents of a harvest are private, and which of those were not known to be."""

    private: frozenset[str]
    arrived: frozenset[str]

    def moved(self, removed: Collection[str]) -> frozenset[str]:
        """Return the removed documents that lie in another folder by now, as private ones."""
        names = {PurePosixPath(document).name for document in self.arrived}
        return frozenset(d for d in removed if PurePosixPath(d).name in names)


def privacy(harvest: Harvest, known: Mapping[str, DocumentRecord]) -> Privacy:
    """Decide about every document of a harvest; `known` is what the last run decided."""
    private = frozenset(name for name, context in contexts(harvest).items() if _is_private(context))
    before = {name for name, record in known.items() if record.scope is Scope.LOCAL_PRIVATE}
    return Privacy(private, private - before)


def contexts(harvest: Harvest) -> dict[str, DocumentContext]:
    """Return the context of every document of a harvest."""
    return {item.document: item.context for item in harvest.documents} | dict(harvest.kept)


def _is_private(context: DocumentContext) -> bool:
    return AccessControl.most_restrictive(context.signals).scope is Scope.LOCAL_PRIVATE


class Withdrawal:
    """Withdraws chunks of one run from the shared store."""

    def __init__(self, harvest: Harvest, shared: ChunkStore) -> None:
        self._harvest = harvest
        self._shared = shared
        self.count = 0

    def private_documents(self, private: Collection[str]) -> dict[str, StoredHash]:
        """Return the chunks that the shared store has of private documents."""
        return self._stored(private) if private else {}

    def withheld_titles(self, changed: Collection[str]) -> dict[str, StoredHash]:
        """Return the chunks of changed documents that carry the title of a private page."""
        known = contexts(self._harvest)
        withheld = {name: set(known[name].withheld) for name in changed if known[name].withheld}
        stored = self._stored(withheld) if withheld else {}
        return {i: h for i, h in stored.items() if withheld[h.document] & set(h.breadcrumb)}

    def removed_documents(self, removed: Collection[str]) -> dict[str, StoredHash]:
        """Return the chunks that the shared store has of documents which are gone."""
        return self._stored(removed) if removed else {}

    def withdraw(
        self, stored: Mapping[str, StoredHash], fingerprint: str, heir: ChunkStore | None
    ) -> None:
        """Withdraw chunks, and finish what an interrupted run left undone.

        The heir has their vectors before they are gone here: the erasure takes seconds, and a kill
        in it must not cost an embedding. Nobody can read a text in them.

        Raises:
            StoreError: the deletion, or the erasure after it, failed.
        """
        try:
            if heir is not None:
                self._bequeath({h.text_hash for h in stored.values()}, fingerprint, heir)
        finally:
            # Whatever became of the vectors: they can be made again, a leak cannot be undone.
            self._shared.withdraw(self._harvest.project, list(stored))
            self.count += len(stored)

    def _bequeath(self, text_hashes: Collection[str], fingerprint: str, heir: ChunkStore) -> None:
        for page in pages(sorted(text_hashes), LOOKUP_PAGE):
            vectors = self._shared.vectors(fingerprint, page)
            if vectors:
                heir.save_vectors(fingerprint, vectors)

    def _stored(self, documents: Collection[str]) -> dict[str, StoredHash]:
        return self._shared.hashes(self._harvest.project, self._harvest.origin, documents)


def withdraw_private(harvest: Harvest, shared: ChunkStore) -> int:
    """Withdraw the private documents of a harvest, and nothing else; return how many chunks went.

    Raises:
        StoreError: the deletion, or the erasure after it, failed.
    """
    withdrawal = Withdrawal(harvest, shared)
    private = privacy(harvest, {}).private
    withdrawal.withdraw(withdrawal.private_documents(private), "", None)
    return withdrawal.count
