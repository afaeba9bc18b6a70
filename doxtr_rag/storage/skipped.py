"""A store that a run has to leave alone: it cannot be written, or not be reached."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from doxtr_rag.core.documents import ScopedChunk, StoredHash, Vector
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage.guard import ScopeGuard

SKIPPED_REVISION = "skipped"
"""Never the revision of a store, so that the first run that can write it examines everything."""


class SkippedStore:
    """Takes every chunk for stored and keeps none; satisfies `ChunkStore`."""

    def __init__(self, scope: Scope, reason: str) -> None:
        self.reason = reason
        """Why, as a sentence without its end."""
        self._scope = scope
        self._guard = ScopeGuard(scope)

    @property
    def scope(self) -> Scope:
        """The audience of the store that is left alone."""
        return self._scope

    def fingerprint(self) -> str | None:
        """Return None: nothing is searched here."""
        return None

    def revision(self, project: str) -> str:  # noqa: ARG002 - the port's shape
        """Return that the store was skipped."""
        return SKIPPED_REVISION

    def projects(self) -> frozenset[str]:
        """Return none."""
        return frozenset()

    def hashes(self, *_: object) -> dict[str, StoredHash]:
        """Return nothing, so that nothing is withdrawn or deleted."""
        return {}

    def missing(self, *_: object) -> set[str]:
        """Return nothing, so that nothing is embedded."""
        return set()

    def vectors(self, *_: object) -> dict[str, Vector]:
        """Return nothing."""
        return {}

    def save_vectors(self, fingerprint: str, vectors: Mapping[str, Vector]) -> None:
        """Keep nothing."""

    def publish(
        self,
        project: str,  # noqa: ARG002 - the port's shape
        origin: str,  # noqa: ARG002
        fingerprint: str,  # noqa: ARG002
        upserts: Sequence[ScopedChunk],
        deletes: Collection[str],  # noqa: ARG002
    ) -> None:
        """Keep nothing.

        Raises:
            ScopeViolationError: a chunk is not of this store's scope.
        """
        self._guard.admit(upserts)

    def withdraw(self, project: str, chunk_ids: Collection[str]) -> None:
        """Delete nothing: there is nothing that it could have told of."""

    def erase_deleted(self) -> None:
        """Erase nothing."""

    def check_identity(self, project: str, fingerprint: str) -> None:
        """Refuse nothing."""

    def seal(self, fingerprint: str, dimension: int) -> None:
        """Declare nothing."""

    def is_current(self) -> bool:
        """Say that nothing is to be refreshed."""
        return True

    def refresh_index(self) -> None:
        """Refresh nothing."""
