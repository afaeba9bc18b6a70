"""What SQLite says, in the words of this package."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from doxtr_rag.core.errors import (
    ScopeViolationError,
    StoreError,
    StoreLockedError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from doxtr_rag.storage.writability import is_writable

SCOPE_MISMATCH = "chunk of another scope"
"""What the corpus's own trigger says of a chunk that slipped past the guard."""


@contextmanager
def foreseen_sqlite_errors(path: Path) -> Iterator[None]:
    """Translate errors of SQLite; programming errors pass.

    Raises:
        StoreError: the file cannot be read or written; the message says why and what to do.
        ScopeViolationError: the corpus itself refused a chunk.
    """
    try:
        yield
    except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
        raise
    except sqlite3.Error as error:
        raise _foreseen(path, str(error)) from error


def _foreseen(path: Path, said: str) -> StoreError | ScopeViolationError:
    if SCOPE_MISMATCH in said:
        return ScopeViolationError(f"{path}: {said}")
    if "disk is full" in said:
        return StoreUnavailableError(
            f"{path}: the disk is full, the last step was undone: free some space and run again"
        )
    if "readonly" in said or ("unable to open" in said and not _is_accessible(path)):
        return StoreReadOnlyError(
            f"{path}: not writable: give folder and file write permission, "
            "or configure a store elsewhere"
        )
    if "locked" in said or "busy" in said:
        return StoreLockedError(
            f"{path}: another process is writing: run again when it has finished"
        )
    if "disk I/O error" in said:
        return StoreUnavailableError(
            f"{path}: {said}, as on a full or failing disk: free some space and run again"
        )
    return StoreUnavailableError(unusable(path, said))


def _is_accessible(path: Path) -> bool:
    return is_writable(path.parent) and os.access(path, os.R_OK)


def unusable(path: Path, what: str) -> str:
    """Return the message about a file that this program cannot mend."""
    return f"{path}: {what}: move it away and run sphinx-build"
