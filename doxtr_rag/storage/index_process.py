"""The child process that writes indexes: `python -m doxtr_rag.storage.index_process FOLDER...`.

A call into Chroma's binding stops the whole interpreter, and a kill while it persists destroys
what it writes. So it runs apart, and only ever writes generations that nobody reads yet.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from doxtr_rag.core.errors import DoxtrRagError, StoreUnavailableError
from doxtr_rag.storage import chroma, generation
from doxtr_rag.storage.corpus import (
    SEARCHED,
    CorpusState,
    count_searched,
    read_state,
    read_vectors,
    searched_vectors,
)
from doxtr_rag.storage.database import Database, open_existing

MAX_UPDATE = 500
MAX_SHARE = 0.2
MAX_UNREACHABLE = 0.01


@dataclass(frozen=True, slots=True)
class IndexChange:
    """What separates the current generation from the corpus, as text hashes."""

    added: frozenset[str]
    removed: frozenset[str]

    def __len__(self) -> int:
        return len(self.added) + len(self.removed)


def main(folders: Sequence[str]) -> list[str]:
    """Refresh the index of each store and return why some could not be.

    What SQLite lays aside while it works goes beside the first index: another folder may be full,
    or open to others. So the private store comes first.
    """
    os.umask(0o077)
    if folders:
        os.putenv("SQLITE_TMPDIR", str(Path(folders[0], generation.INDEX_FOLDER)))
    reasons = [_failure(Path(folder)) for folder in folders]
    return [reason for reason in reasons if reason]


def _failure(folder: Path) -> str:
    try:
        refresh(folder)
    except (DoxtrRagError, OSError) as error:
        return " ".join(f"{folder}: {error}".split())
    return ""


def refresh(folder: Path) -> None:
    """Bring one index up to its corpus: a changed copy for a little, else a build.

    Raises:
        StoreError: the corpus cannot be read, or a generation cannot be written.
    """
    with generation.sole_writer(folder):
        database = open_existing(folder)
        try:
            _refresh(folder, database)
        finally:
            database.close()


def _refresh(folder: Path, database: Database) -> None:
    state = read_state(database)
    if state.index_is_current(folder):
        generation.remove_others(folder, state.generation)
        return
    if not state.fingerprint or not state.chunks:
        generation.swap(folder, "")
        generation.remove_others(folder, "")
        _record_build(database, state, "", "{}", set())
        return
    change = _change(database, state)
    if not (_is_small(folder, state, change) and _update(folder, database, state, change)):
        _build(folder, database, state)


def _change(database: Database, state: CorpusState) -> IndexChange:
    searched = f"SELECT text_hash {SEARCHED}"
    indexed = "SELECT text_hash FROM indexed"
    with database.reading() as connection:
        wanted = (state.fingerprint,)
        added = connection.execute(f"{searched} EXCEPT {indexed}", wanted).fetchall()
        removed = connection.execute(f"{indexed} EXCEPT {searched}", wanted).fetchall()
    return IndexChange(frozenset(h for (h,) in added), frozenset(h for (h,) in removed))


def _is_small(folder: Path, state: CorpusState, change: IndexChange) -> bool:
    share = MAX_SHARE * state.chunks
    return (
        not (state.is_dirty or state.must_rebuild)
        and state.index_fingerprint == state.fingerprint
        and state.generation == generation.current(folder)
        and generation.is_intact(folder, state.generation, state.manifest)
        and len(change) <= min(MAX_UPDATE, share)
        # Removed records stay in the graph as holes.
        and state.removed + len(change.removed) <= share
    )


def _update(folder: Path, database: Database, state: CorpusState, change: IndexChange) -> bool:
    if not len(change):
        _record_update(database, state, state.generation, state.manifest, change)
        return True
    name = generation.begin(folder)
    place = generation.place(folder, name)
    vectors = read_vectors(database, state.fingerprint, change.added)
    collection = state.collection or chroma.DEFAULT_COLLECTION
    try:
        chroma.copy_generation(generation.place(folder, state.generation), place)
        opened = chroma.open_generation(place, collection)
        opened.persist_after(len(change))
        opened.close()
        opened = chroma.open_generation(place, collection)
        opened.remove(change.removed)
        opened.write(sorted(vectors.items()))
        opened.close()
        wanted = _indexed(database) - change.removed | change.added
        is_sound = _unreachable(place, state, wanted) == 0
    except StoreUnavailableError:
        # A broken generation is no reason to fail: the corpus can build another.
        return False
    if is_sound:
        generation.swap(folder, name)
        generation.remove_others(folder, name)
        _record_update(database, state, name, generation.manifest(folder, name), change)
    return is_sound


def _build(folder: Path, database: Database, state: CorpusState) -> None:
    for graph in (chroma.Graph(), chroma.DENSER):
        generation.remove_others(folder, generation.current(folder))
        name = generation.begin(folder)
        place = generation.place(folder, name)
        wanted = _write_all(place, database, state, graph)
        missing = _unreachable(place, state, wanted)
        if missing == 0:
            break
    if missing > MAX_UNREACHABLE * len(wanted):
        raise StoreUnavailableError(
            f"{missing} of {len(wanted)} vectors cannot be found through the index: "
            "many of them must be nearly equal; searches compare every vector instead"
        )
    chroma.compact(place)
    generation.swap(folder, name)
    generation.remove_others(folder, name)
    _record_build(database, state, name, generation.manifest(folder, name), wanted)


def _write_all(
    place: Path, database: Database, state: CorpusState, graph: chroma.Graph
) -> set[str]:
    total = count_searched(database, state.fingerprint)
    opened = chroma.create(place, state.collection or chroma.DEFAULT_COLLECTION, total, graph)
    wanted: set[str] = set()
    for batch in searched_vectors(database, state.fingerprint):
        opened.write(batch)
        if total < chroma.MIN_SYNC_THRESHOLD:
            # A single record does not reach the threshold, so every reader would persist it.
            opened.write(batch)
        wanted.update(text_hash for text_hash, _ in batch)
    opened.close()
    return wanted


def _unreachable(place: Path, state: CorpusState, wanted: set[str]) -> int:
    """Return how many records a query cannot find in a generation opened afresh.

    Raises:
        StoreUnavailableError: the generation does not hold exactly these records.
    """
    opened = chroma.open_generation(place, state.collection or chroma.DEFAULT_COLLECTION)
    try:
        if opened.count() != len(wanted) or opened.records() != wanted:
            raise StoreUnavailableError(f"{place}: written {len(wanted)}, holds {opened.count()}")
        return len(wanted) - opened.reachable(state.dimension, len(wanted))
    finally:
        opened.close()


def _indexed(database: Database) -> set[str]:
    with database.reading() as connection:
        return {text_hash for (text_hash,) in connection.execute("SELECT text_hash FROM indexed")}


def _record_build(
    database: Database, state: CorpusState, name: str, manifest: str, wanted: set[str]
) -> None:
    with database.writing() as connection:
        connection.execute("DELETE FROM indexed")
        connection.executemany(
            "INSERT INTO indexed (text_hash) VALUES (?)", ((h,) for h in sorted(wanted))
        )
        connection.execute(
            "UPDATE index_state SET generation = ?, fingerprint = ?, revision = ?, dirty = 0, "
            "removed = 0, manifest = ?",
            (name, state.fingerprint, state.revision, manifest),
        )
        # A child that outlived its run must not undo what a later run asked for.
        connection.execute(
            "UPDATE index_state SET must_rebuild = 0 WHERE (SELECT revision FROM meta) = ?",
            (state.revision,),
        )


def _record_update(
    database: Database, state: CorpusState, name: str, manifest: str, change: IndexChange
) -> None:
    with database.writing() as connection:
        connection.executemany(
            "DELETE FROM indexed WHERE text_hash = ?", ((h,) for h in change.removed)
        )
        connection.executemany(
            "INSERT INTO indexed (text_hash) VALUES (?)", ((h,) for h in change.added)
        )
        connection.execute(
            "UPDATE index_state SET generation = ?, revision = ?, removed = removed + ?, "
            "manifest = ?",
            (name, state.revision, len(change.removed), manifest),
        )


if __name__ == "__main__":
    sys.exit("\n".join(main(sys.argv[1:])) or 0)
