"""Taking out of the shared store what may not be there, before anything that is slow or may fail."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from doxtr_rag.core.documents import DocumentContext, Harvest, StoredHash
from doxtr_rag.core.ports import ChunkStore, DocumentRecord
from doxtr_rag.core.scope import AccessControl, Scope
from doxtr_rag.indexing.pages import pages

LOOKUP_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Privacy:
    """Which documents of a harvest are private, and which of those were not known to be."""

    private: frozenset[str]
    arrived: frozenset[str] = frozenset()

    def moved(self, removed: Collection[str]) -> frozenset[str]:
        """Return the removed documents that a private one took the name of, in another folder."""
        names = {PurePosixPath(document).name for document in self.arrived}
        return frozenset(d for d in removed if PurePosixPath(d).name in names)


def privacy(harvest: Harvest, known: Mapping[str, DocumentRecord]) -> Privacy:
    """Decide about every document of a harvest; `known` is what the last run decided."""
    private = frozenset(
        name for name, context in contexts(harvest).items() if is_private(context)
    )
    before = {name for name, record in known.items() if record.scope is Scope.LOCAL_PRIVATE}
    return Privacy(private, private - before)


def contexts(harvest: Harvest) -> dict[str, DocumentContext]:
    """Return the context of every document of a harvest."""
    return {item.document: item.context for item in harvest.documents} | dict(harvest.kept)


def is_private(context: DocumentContext) -> bool:
    """Say whether a document may not be shared."""
    return AccessControl.most_restrictive(context.signals).scope is Scope.LOCAL_PRIVATE


class Withdrawal:
    """Withdraws chunks of one run from the shared store; their vectors go to the private one."""

    def __init__(self, project: str, fingerprint: str, shared: ChunkStore) -> None:
        self._project = project
        self._fingerprint = fingerprint
        self._shared = shared
        self.count = 0

    def of_documents(self, harvest: Harvest, heir: ChunkStore | None) -> None:
        """Withdraw the private documents, and finish what an interrupted run left undone.

        Pages below one of them carry its title, so they go as well until they lose it.

        Raises:
            StoreError: the deletion, or the erasure after it, failed.
        """
        private = privacy(harvest, {}).private
        stored = self._shared.hashes(harvest.project, harvest.origin, private) if private else {}
        if stored:
            others = contexts(harvest)
            shared = self._shared.hashes(
                harvest.project, harvest.origin, others.keys() - private
            )
            stored |= {i: h for i, h in shared.items() if not _fits(h, others[h.document])}
        self.of_chunks(stored, heir)

    def of_chunks(self, stored: Mapping[str, StoredHash], heir: ChunkStore | None) -> None:
        """Withdraw chunks; the vectors are the heir's before they are gone here.

        Raises:
            StoreError: the deletion, or the erasure after it, failed.
        """
        try:
            if heir is not None:
                self._bequeath({h.text_hash for h in stored.values()}, heir)
        finally:
            # Whatever became of the vectors: they can be made again, a leak cannot be undone.
            self._shared.withdraw(self._project, list(stored))
            self.count += len(stored)

    def _bequeath(self, text_hashes: Collection[str], heir: ChunkStore) -> None:
        for page in pages(sorted(text_hashes), LOOKUP_PAGE):
            vectors = self._shared.vectors(self._fingerprint, page)
            if vectors:
                heir.save_vectors(self._fingerprint, vectors)


def _fits(stored: StoredHash, context: DocumentContext) -> bool:
    """Say whether a stored chunk lies below the pages that its document lies below by now."""
    return stored.breadcrumb[: len(context.breadcrumb)] == context.breadcrumb
