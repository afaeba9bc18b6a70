"""Vectors of sibling corpora: read only, checked for whose they are, never waited for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from doxtr_rag.core.documents import Vector
from doxtr_rag.core.errors import IndexNotBuiltError, StoreError
from doxtr_rag.storage.corpus import Erasure, read_state, read_vectors
from doxtr_rag.storage.database import Database, open_for_reading
from doxtr_rag.storage.ledger import RunLedger
from doxtr_rag.storage.schema import CORPUS_FILE

MOST_INSPECTED, MOST_USED = 6, 3
"""Siblings that are looked at, and those of them that are asked (retrieval R21)."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sibling:
    """A knowledge base of somebody near: its name, and the folders of its stores."""

    name: str
    folders: tuple[Path, ...]

    def age(self) -> float:
        """Return what sorts the one that was written last first."""
        return -max((_written(folder) for folder in self.folders), default=0.0)


class SiblingCorpora:
    """Satisfies the donor port over the corpora of siblings; one that is no use is left out.

    They are looked for and opened when they are first asked, as a reader opens them: without
    their locks.
    """

    def __init__(self, find: Callable[[], Sequence[Sibling]], say: Say) -> None:
        self._find = find
        self._say = say
        self._stack = ExitStack()
        self._opened: list[tuple[str, Database]] | None = None
        self._used: dict[str, None] = {}

    @property
    def used(self) -> tuple[str, ...]:
        """The siblings that vectors were taken from."""
        return tuple(self._used)

    def vectors(self, fingerprint: str, text_hashes: Iterable[str]) -> dict[str, Vector]:
        """Return what siblings have of this model, by text hash."""
        if self._opened is None:
            self._opened = self._admitted(fingerprint)
        found: dict[str, Vector] = {}
        left = list(text_hashes)
        for name, database in list(self._opened):
            try:
                said: Mapping[str, object] = read_vectors(database, fingerprint, left)
            except (StoreError, OSError) as error:
                self._opened.remove((name, database))
                self._say_ignored(name, error)
                continue
            gifts = {key: vector for key, vector in said.items() if isinstance(vector, bytes)}
            if gifts:
                self._used[name] = None
                found |= gifts
                left = [key for key in left if key not in gifts]
        return found

    def known_pace(self) -> float | None:
        """Return the seconds that a text took a sibling's last run; None when nobody knows."""
        for name, database in self._opened or ():
            try:
                pace = RunLedger(database).known_pace()
            except (StoreError, OSError) as error:
                self._say_ignored(name, error)
                continue
            if pace is not None:
                return pace
        return None

    def close(self) -> None:
        """Let go of every corpus."""
        self._stack.close()
        self._opened = []

    def _admitted(self, fingerprint: str) -> list[tuple[str, Database]]:
        admitted: list[tuple[str, Database]] = []
        for sibling in sorted(self._find(), key=Sibling.age)[:MOST_INSPECTED]:
            if len({name for name, _ in admitted}) == MOST_USED:
                break
            for folder in sibling.folders:
                database = self._open(sibling.name, folder, fingerprint)
                if database is not None:
                    admitted.append((sibling.name, database))
        return admitted

    def _open(self, name: str, folder: Path, fingerprint: str) -> Database | None:
        """Return a corpus of this schema and model that is ours to read, None otherwise."""
        try:
            if not _is_own(folder) or not _is_own(folder / CORPUS_FILE):
                return None
            database = open_for_reading(folder)
            self._stack.enter_context(closing(database))
            state = read_state(database)
        except IndexNotBuiltError:
            return None
        except (StoreError, OSError) as error:
            self._say_ignored(name, error)
            return None
        is_fit = state.fingerprint == fingerprint and state.erasure is not Erasure.PENDING
        return database if is_fit else None

    def _say_ignored(self, name: str, error: Exception) -> None:
        self._say(f"doxtr_rag: no vectors are taken from {name}: {error}")


def _is_own(path: Path) -> bool:
    """Say whether a path is there and belongs to who runs this."""
    try:
        return path.stat().st_uid == os.getuid()
    except OSError:
        return False


def _written(folder: Path) -> float:
    try:
        return (folder / CORPUS_FILE).stat().st_mtime
    except OSError:
        return 0.0
