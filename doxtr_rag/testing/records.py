"""What happened: journals, a cache that forgets, progress that was reported."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from doxtr_rag.core.ports import DocumentRecord, RunMark

Journal = list[tuple[str, str]]
"""What happened in which order, as `(who, what)`: `("SHARED_ORG", "withdraw")`."""


class MemoryCache:
    """A cache that forgets with the process."""

    def __init__(self, journal: Journal | None = None) -> None:
        self._marks: dict[tuple[str, str], RunMark] = {}
        self._documents: dict[tuple[str, str], dict[str, DocumentRecord]] = {}
        self._journal: Journal = [] if journal is None else journal

    def mark(self, project: str, origin: str) -> RunMark | None:
        """Return the mark of the last successful run, None when there was none."""
        return self._marks.get((project, origin))

    def documents(self, project: str, origin: str) -> dict[str, DocumentRecord]:
        """Return what the last successful run knew."""
        return dict(self._documents.get((project, origin), {}))

    def record(
        self,
        project: str,
        origin: str,
        mark: RunMark,
        changed: Mapping[str, DocumentRecord],
        removed: Collection[str],
    ) -> None:
        """Write the outcome of one successful run."""
        self._journal.append(("cache", "record"))
        known = self._documents.setdefault((project, origin), {})
        for document in removed:
            known.pop(document, None)
        known.update(changed)
        self._marks[project, origin] = mark


class ProgressLog:
    """Remembers what was reported."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, int, int]] = []

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Report `done` of `total` units of `phase`."""
        self.reports.append((phase, done, total))
