"""The only door to a store: a chunk of another scope does not pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from doxtr_rag.core.documents import ScopedChunk
from doxtr_rag.core.errors import ScopeViolationError
from doxtr_rag.core.scope import Scope


@dataclass(frozen=True, slots=True)
class AdmittedChunk:
    """A chunk that passed a guard; the only kind that the corpus inserts."""

    scoped: ScopedChunk


class ScopeGuard:
    """Admits chunks of one scope."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def admit(self, chunks: Iterable[ScopedChunk]) -> list[AdmittedChunk]:
        """Return the chunks as admitted, all of them or none.

        Raises:
            ScopeViolationError: one of them is of another scope.
        """
        return [self._admitted(scoped) for scoped in chunks]

    def _admitted(self, scoped: ScopedChunk) -> AdmittedChunk:
        decided_by = scoped.decision.decided_by
        is_affirmed = decided_by.scope is Scope.SHARED_ORG
        if scoped.scope is not self._scope or (self._scope is Scope.SHARED_ORG and not is_affirmed):
            raise ScopeViolationError(
                f"{scoped.chunk.chunk_id}: {scoped.scope.value} by {decided_by.origin} "
                f"({decided_by.reason}), addressed to the {self._scope.value} store"
            )
        return AdmittedChunk(scoped)
