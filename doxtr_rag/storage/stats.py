"""What `status` says of a store; answers without a model and without opening the index."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from doxtr_rag.storage.corpus import read_state
from doxtr_rag.storage.database import open_for_reading
from doxtr_rag.storage.writability import is_writable


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """What a store holds; `index` is `ready`, or the reason code why it is not."""

    scope: str
    store_id: str
    documents: int
    chunks: int
    projects: tuple[str, ...]
    fingerprint: str
    dimension: int
    revision: int
    index: str


@dataclass(frozen=True, slots=True)
class StoreStats(StoreSummary):
    """One store at a glance: what it holds, and how it lies there."""

    bytes_on_disk: int
    is_writable: bool


def summary(folder: Path) -> StoreSummary:
    """Return what a store holds; writes nothing.

    Raises:
        IndexNotBuiltError: nothing was ever stored there.
        StoreError: the corpus cannot be read.
    """
    database = open_for_reading(folder)
    try:
        state = read_state(database)
        with database.reading() as connection:
            documents = connection.execute(
                "SELECT count(*) FROM (SELECT DISTINCT project, origin, document FROM chunks)"
            ).fetchone()[0]
            projects = connection.execute("SELECT project FROM projects ORDER BY project")
            names = tuple(project for (project,) in projects)
    finally:
        database.close()
    return StoreSummary(
        scope=state.scope,
        store_id=state.store_id,
        documents=documents,
        chunks=state.chunks,
        projects=names,
        fingerprint=state.fingerprint,
        dimension=state.dimension,
        revision=state.revision,
        index="ready" if state.index_is_current(folder) else "index_dirty",
    )


def stats(folder: Path) -> StoreStats:
    """Return the figures of a store; a file is made for a moment to see whether that can be done.

    Raises:
        IndexNotBuiltError: nothing was ever stored there.
        StoreError: the corpus cannot be read.
    """
    found = summary(folder)
    return StoreStats(
        **{field.name: getattr(found, field.name) for field in fields(found)},
        bytes_on_disk=_size(folder),
        is_writable=is_writable(folder),
    )


def _size(folder: Path) -> int:
    """Return the bytes of the files below a folder, as far as we may look."""
    try:
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    except OSError:
        return 0
