"""Everything that outlives the process: the durable corpus and the index derived from it."""

from __future__ import annotations

from pathlib import Path

from doxtr_rag.core.scope import Scope
from doxtr_rag.storage.build_cache import BuildCache
from doxtr_rag.storage.collection import CollectionView
from doxtr_rag.storage.donors import Sibling, SiblingCorpora
from doxtr_rag.storage.ledger import FailureRecord, RunLedger, RunRecord, read_ledger
from doxtr_rag.storage.lock import LockHolder, StoreLock, is_held_by, lock_holder, lock_identity
from doxtr_rag.storage.reader import StoreReader
from doxtr_rag.storage.run_requests import RunRequests
from doxtr_rag.storage.schema import CORPUS_FILE
from doxtr_rag.storage.skipped import SkippedStore
from doxtr_rag.storage.stats import StoreStats, stats, summary
from doxtr_rag.storage.store import EmbeddedStore, rebuild, refresh_indexes
from doxtr_rag.storage.writability import is_read_only, is_writable

__all__ = [
    "BuildCache",
    "CollectionView",
    "EmbeddedStore",
    "FailureRecord",
    "LockHolder",
    "RunLedger",
    "RunRecord",
    "RunRequests",
    "Sibling",
    "SiblingCorpora",
    "SkippedStore",
    "StoreLock",
    "StoreReader",
    "StoreStats",
    "corpus_stamp",
    "is_held_by",
    "is_read_only",
    "is_writable",
    "lock_holder",
    "lock_identity",
    "open_reader",
    "open_store",
    "read_ledger",
    "rebuild",
    "refresh_indexes",
    "stats",
    "summary",
]


def open_store(folder: Path, scope: Scope, name: str) -> EmbeddedStore:
    """Open a store for writing, made when missing; hold its `StoreLock` first.

    Raises:
        StoreError: damaged, of a newer schema, or in a place that cannot be written.
        ConfigError: the folder holds the other scope.
    """
    return EmbeddedStore(folder, scope, name)


def open_reader(folder: Path, scope: Scope, name: str) -> StoreReader:
    """Open a store for searching; nothing is created.

    Raises:
        IndexNotBuiltError: nothing was ever stored there.
        StoreError: the corpus cannot be read.
        ConfigError: the folder holds the other scope.
    """
    return StoreReader(folder, scope, name)


def corpus_stamp(folder: Path) -> tuple[int, int] | None:
    """Return what tells one corpus file from another in its place; None when there is none."""
    try:
        status = (folder / CORPUS_FILE).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
