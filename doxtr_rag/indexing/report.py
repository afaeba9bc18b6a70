"""What one run did, as numbers a person and a machine can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from doxtr_rag.core.scope import Scope


@dataclass(frozen=True, slots=True)
class ScopeCounts:
    """Chunks of one store: added, changed, removed, unchanged."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0

    def __str__(self) -> str:
        return (
            f"{self.added} added, {self.changed} changed, {self.removed} removed, "
            f"{self.unchanged} unchanged"
        )


@dataclass(frozen=True, slots=True)
class RunReport:
    """The outcome of one run.

    `embedded` counts texts, `reused_from` chunks by the place their vector was at, `saved_s` the
    seconds that spared (None when nobody knows), `kept` documents that could not be refreshed;
    `failures` maps a document to the reason why it is not up to date; `warnings` are sentences for
    whoever runs it.
    """

    documents: int
    changed_documents: int = 0
    removed_documents: int = 0
    scopes: Mapping[Scope, ScopeCounts] = field(default_factory=dict)
    withdrawn: int = 0
    embedded: int = 0
    reused_from: Mapping[str, int] = field(default_factory=dict)
    donors: tuple[str, ...] = ()
    embedding_s: float = 0.0
    saved_s: float | None = None
    tokens: int = 0
    padded_tokens: int = 0
    truncated: int = 0
    kept: int = 0
    failures: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def reused(self) -> int:
        """The chunks whose vector was at hand."""
        return sum(self.reused_from.values())

    @property
    def is_unchanged(self) -> bool:
        """Say whether the run found nothing to do."""
        return not (self.changed_documents or self.removed_documents or self.withdrawn)

    @property
    def is_complete(self) -> bool:
        """Say whether the knowledge base holds every document as it is."""
        return not self.failures

    def lines(self) -> list[str]:
        """Return the summary a build prints."""
        if self.is_unchanged and self.is_complete and not self.kept:
            return [f"knowledge base is up to date ({self.documents} documents)"]
        lines = [
            f"{self.documents} documents: {self.changed_documents} changed, "
            f"{self.removed_documents} removed, {self.kept} kept as they were"
        ]
        lines += [f"{scope.value}: {counts}" for scope, counts in self.scopes.items()]
        if self.withdrawn:
            lines.append(f"{self.withdrawn} chunks withdrawn from {Scope.SHARED_ORG.value}")
        lines.append(
            f"{self.embedded} texts embedded, {self.reused} chunks reused a vector, "
            f"{self.truncated} truncated, {len(self.failures)} skipped"
        )
        if self.reused_from:
            places = ", ".join(f"{n} {place}" for place, n in self.reused_from.items())
            saved = "" if self.saved_s is None else f", about {self.saved_s:.1f} s saved"
            lines.append(f"vectors reused from: {places}{saved}")
        return lines

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON-serialisable values, for the run ledger."""
        return {
            "documents": self.documents,
            "changed_documents": self.changed_documents,
            "removed_documents": self.removed_documents,
            "scopes": {
                scope.value: {
                    "added": counts.added,
                    "changed": counts.changed,
                    "removed": counts.removed,
                    "unchanged": counts.unchanged,
                }
                for scope, counts in self.scopes.items()
            },
            "withdrawn": self.withdrawn,
            "embedded": self.embedded,
            "reused": self.reused,
            "reuse": self._reuse(),
            "tokens": self.tokens,
            "padded_tokens": self.padded_tokens,
            "truncated": self.truncated,
            "kept": self.kept,
            "failures": dict(self.failures),
        }

    def _reuse(self) -> dict[str, object]:
        """Return what was spared: hits, misses and where the hits came from (retrieval R23)."""
        asked = self.reused + self.embedded
        return {
            "hits": self.reused,
            "misses": self.embedded,
            "rate": round(self.reused / asked, 4) if asked else None,
            "from": dict(self.reused_from),
            "donors": list(self.donors),
            "embedding_seconds": self.embedding_s,
            "seconds_saved": self.saved_s,
        }
