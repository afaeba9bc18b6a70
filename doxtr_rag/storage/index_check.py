"""Comparing an index with its corpus, record by record; only reads.

It may run beside a server and beside a build.
"""

from __future__ import annotations

import json
import math
import random
from array import array
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from doxtr_rag.core.documents import Vector
from doxtr_rag.core.errors import StoreError, StoreUnavailableError
from doxtr_rag.storage import chroma, corpus, generation
from doxtr_rag.storage.corpus import SEARCHED, CorpusState
from doxtr_rag.storage.database import Database, open_for_reading

T = TypeVar("T")

SAMPLED_VECTORS = 1000
SEED = 20_260
MAX_UNREACHABLE = 0.01
"""The share of records, too much like others to be linked, that a build puts up with."""

SAME_DIRECTION = 1e-6
"""How far from 1 the cosine of a stored vector and an indexed one may be."""

TRIES = 3


@dataclass(frozen=True, slots=True)
class Comparison:
    """What separates an index from its corpus, as chunk ids, or text hashes where no chunk is left.

    `sampled` counts the vectors that were compared; `files` are those that changed since they were
    written.
    """

    records: int
    sampled: int = 0
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    unreachable: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Say whether the index serves this corpus, but for a few records nobody can link."""
        is_other = any((self.missing, self.extra, self.differing, self.files))
        return not is_other and len(self.unreachable) <= MAX_UNREACHABLE * self.records


def compare(folder: Path, seed: int = SEED) -> Comparison:
    """Compare every id, the vectors of a seeded sample, and what a query for everything finds.

    Raises:
        IndexNotBuiltError: nothing was ever stored there.
        StoreUnavailableError: the index is behind its corpus, or broken.
        StoreError: the corpus cannot be read.
    """
    with closing(open_for_reading(folder)) as database:
        return settled(folder, database, lambda state: _compare(folder, database, state, seed))


def settled(folder: Path, database: Database, look: Callable[[CorpusState], T]) -> T:
    """Return what a look at an index finds that no build has replaced meanwhile.

    Raises:
        StoreUnavailableError: the index is behind its corpus, broken, or changes all the time.
        StoreError: the corpus cannot be read.
    """
    for _ in range(TRIES):
        state = current_state(folder, database)
        try:
            found = look(state)
        except StoreError:
            if corpus.read_state(database) == state:
                raise
            continue
        if corpus.read_state(database) == state:
            return found
    raise StoreUnavailableError(f"{folder}: builds change it all the time: run this again later")


def current_state(folder: Path, database: Database) -> CorpusState:
    """Return the state of a corpus whose index should serve it.

    Raises:
        StoreUnavailableError: the index is behind.
        StoreError: the corpus cannot be read.
    """
    state = corpus.read_state(database)
    if not state.index_is_current(folder):
        raise StoreUnavailableError(f"{folder}: the index is behind the corpus: run sphinx-build")
    return state


@contextmanager
def opened_index(folder: Path, state: CorpusState) -> Iterator[chroma.ChromaGeneration]:
    """Lend the generation in use.

    Raises:
        StoreUnavailableError: it is broken.
    """
    place = generation.place(folder, state.generation)
    with closing(chroma.open_generation(place, state.collection or chroma.DEFAULT_COLLECTION)) as (
        index
    ):
        yield index


def changed_files(folder: Path, state: CorpusState) -> tuple[str, ...]:
    """Return the graph files that are not as they were written, whatever their time says.

    Chroma must not be asked before: a damaged file ends the process that opens it.

    Raises:
        StoreError: a file cannot be read.
    """
    known = _checksums(state.manifest)
    found = _checksums(generation.manifest(folder, state.generation))
    return tuple(sorted(file for file in known | found if known.get(file) != found.get(file)))


def _checksums(manifest: str) -> dict[str, str]:
    return {file: str(stamp[-1]) for file, stamp in json.loads(manifest).items()}


def _compare(folder: Path, database: Database, state: CorpusState, seed: int) -> Comparison:
    wanted = searched_texts(database, state.fingerprint)
    if not wanted and not state.generation:
        return Comparison(0)
    files = changed_files(folder, state)
    if files:
        return Comparison(len(wanted), files=files)
    with opened_index(folder, state) as index:
        held = index.records()
        reached = index.reached(state.dimension, len(held)) if held else set()
        sampled = sample(wanted & held, SAMPLED_VECTORS, seed)
        indexed = index.vectors(sampled)
    stored = corpus.read_vectors(database, state.fingerprint, sampled)
    differing = {key for key in sampled if not _is_same(stored.get(key), indexed.get(key))}
    return Comparison(
        len(wanted),
        len(sampled),
        missing=_named(database, wanted - held),
        extra=_named(database, held - wanted),
        differing=_named(database, differing),
        unreachable=_named(database, held & wanted - reached),
    )


def searched_texts(database: Database, fingerprint: str) -> set[str]:
    """Return the text hashes that an index of a fingerprint holds.

    Raises:
        StoreError: the corpus cannot be read.
    """
    with database.reading() as connection:
        rows = connection.execute(f"SELECT text_hash {SEARCHED}", (fingerprint,)).fetchall()
    return {text_hash for (text_hash,) in rows}


def sample(text_hashes: Collection[str], count: int, seed: int) -> list[str]:
    """Return some of them, the same ones for the same seed, in order."""
    ordered = sorted(text_hashes)
    if len(ordered) <= count:
        return ordered
    return sorted(random.Random(seed).sample(ordered, count))  # noqa: S311 - no secret


def _is_same(stored: Vector | None, indexed: Vector | None) -> bool:
    if stored is None or indexed is None or len(stored) != len(indexed):
        return False
    left, right = array("f", stored), array("f", indexed)
    lengths = math.hypot(*left) * math.hypot(*right)
    # An index of cosines keeps directions alone.
    product = math.fsum(a * b for a, b in zip(left, right, strict=True))
    return abs(product - lengths) <= SAME_DIRECTION * lengths


def _named(database: Database, text_hashes: Collection[str]) -> tuple[str, ...]:
    chunks = corpus.chunks_of_texts(database, text_hashes)
    nameless = set(text_hashes) - {text_hash for _, text_hash in chunks}
    return tuple(sorted({chunk_id for chunk_id, _ in chunks} | nameless))
