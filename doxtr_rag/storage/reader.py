"""The reading side of an embedded store; writes nothing and needs no lock."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from doxtr_rag.core.addressing import document_matcher
from doxtr_rag.core.documents import StoredChunk, Vector
from doxtr_rag.core.errors import ConfigError, ParityError, StoreError, StoreUnavailableError
from doxtr_rag.core.ports import Degradation, DocumentText, PoolRequest, Pools
from doxtr_rag.core.ranking import Hit, best_sections, reciprocal_rank_fusion
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import corpus, exact, generation, lexical
from doxtr_rag.storage.closing import Closing
from doxtr_rag.storage.corpus import CorpusState
from doxtr_rag.storage.database import Database, open_existing, open_for_reading
from doxtr_rag.storage.index_check import MAX_UNREACHABLE
from doxtr_rag.storage.lexical import FieldWeights

if TYPE_CHECKING:
    from doxtr_rag.storage.chroma import ChromaGeneration

logger = logging.getLogger(__name__)

FLOAT_BYTES = 4
NEAR_NAMES = 5
POOL_TRIES = 5
"""A commit between two statements of one answer tears it apart: then it is made again."""

STALE = Degradation(
    "index_dirty",
    "the index is behind the corpus, every vector was compared instead: run sphinx-build",
)


class StoreReader(Closing):
    """Searches one store while others write it; methods may be called from any thread."""

    def __init__(
        self, folder: Path, scope: Scope, name: str, weights: FieldWeights | None = None
    ) -> None:
        self.folder = folder
        self._scope = scope
        self._name = name
        self._weights = weights or FieldWeights()
        self._database = open_for_reading(folder)
        self._index_lock = threading.Lock()
        self._index: ChromaGeneration | None = None
        self._opened = ""
        self._indexed = 0
        self._broken: dict[str, str] = {}
        stored = corpus.read_state(self._database).scope
        if stored != scope.value:
            self.close()
            raise ConfigError(
                f"{folder}: this store holds {stored} chunks and was opened for {scope.value}"
            )

    @property
    def name(self) -> str:
        """The store's name in answers."""
        return self._name

    @property
    def scope(self) -> Scope:
        """The audience this store serves."""
        return self._scope

    @property
    def database(self) -> Database:
        """The corpus, for other views of it."""
        return self._database

    def fingerprint(self) -> str | None:
        """Return the fingerprint of the vectors that are searched; None when nothing is stored."""
        return _held(corpus.read_state(self._database))

    def pools(self, request: PoolRequest) -> Pools:
        """Return what every pool of this store has to say to a question.

        Raises:
            ParityError: the question was embedded by another model.
            StoreError: the corpus cannot be read.
        """
        for _ in range(POOL_TRIES):
            revision = corpus.read_revision(self._database)
            found = self._pools(request)
            if corpus.read_revision(self._database) == revision:
                break
        return found

    def _pools(self, request: PoolRequest) -> Pools:
        state = corpus.read_state(self._database)
        held = _held(state)
        if held is not None and held != request.fingerprint:
            raise ParityError(
                f"the vectors of the {self._name} store were made by another model (fingerprint "
                f"{held[:12]}, the question's is {request.fingerprint[:12]}): run sphinx-build"
            )
        documents = self._documents(request.documents)
        rankings = {
            "dense": tuple(self._dense(state, request.vector, request.size, documents)),
            "lexical": tuple(self.lexical(request.query, request.size, documents)),
        }
        best = best_sections(reciprocal_rank_fusion(rankings.values()), request.best)
        chunks = self.fetch([hit.chunk_id for hit in best])
        return Pools(rankings, chunks, tuple(self._degradations(state)))

    def _documents(self, filter_text: str) -> list[str] | None:
        """Return the documents that pass a filter, qualified by their project; None for all."""
        if not filter_text.strip():
            return None
        passes = document_matcher(filter_text)
        return [
            f"{project}/{document}"
            for project, document, source_file in corpus.document_names(self._database)
            if passes(document) or passes(source_file)
        ]

    def document(self, name: str) -> DocumentText:
        """Return a document by its name, `project/document`, or its source file.

        Raises:
            StoreError: the corpus cannot be read.
        """
        chunks = corpus.read_document(self._database, name)
        if chunks:
            return DocumentText(tuple(chunks))
        names = [document for _, document, _ in corpus.document_names(self._database)]
        return DocumentText((), tuple(get_close_matches(name, dict.fromkeys(names), n=NEAR_NAMES)))

    def dense(self, vector: Vector, top_k: int) -> list[Hit]:
        """Return the nearest chunks by cosine similarity, best first.

        Raises:
            ParityError: the question was embedded with another dimension.
            StoreError: the corpus cannot be read.
        """
        return self._dense(corpus.read_state(self._database), vector, top_k, None)

    def _dense(
        self, state: CorpusState, vector: Vector, top_k: int, documents: Collection[str] | None
    ) -> list[Hit]:
        """Return the nearest chunks; of some documents, each `project/document`, exactly."""
        if top_k <= 0 or not state.fingerprint or not state.chunks:
            return []
        if len(vector) != FLOAT_BYTES * state.dimension:
            raise ParityError(
                f"{self.folder}: the question has {len(vector) // FLOAT_BYTES} dimensions, "
                f"the store {state.dimension}: use the model the store was built with"
            )
        if documents is not None:
            blocks = corpus.vectors_of_documents(self._database, state.fingerprint, documents)
            return self._hits(dict(exact.nearest(blocks, vector, top_k)), top_k, documents)
        found = self._by_index(state, vector, top_k)
        if found is None:
            blocks = corpus.searched_vectors(self._database, state.fingerprint)
            found = exact.nearest(blocks, vector, top_k)
        return self._hits(dict(found), top_k)

    def lexical(
        self, query: str, top_k: int, documents: Collection[str] | None = None
    ) -> list[Hit]:
        """Return the best chunks by BM25, best first; any text is a valid query.

        Raises:
            StoreError: the corpus cannot be read.
        """
        with self._database.reading() as connection:
            wanted = corpus.listed_or_none(documents)
            found = lexical.search(connection, query, top_k, self._weights, wanted)
        return [Hit(chunk_id, text, self._name, score) for chunk_id, text, score in found]

    def fetch(self, chunk_ids: Sequence[str]) -> dict[str, StoredChunk]:
        """Return chunks by id; unknown ids are left out.

        Raises:
            StoreError: the corpus cannot be read.
        """
        return corpus.read_chunks(self._database, chunk_ids)

    def sample(self) -> tuple[str, str, Vector] | None:
        """Return id, embedding input and vector of a chunk; None when there is none.

        Raises:
            StoreError: the corpus cannot be read.
        """
        return corpus.sample(self._database, corpus.read_state(self._database).fingerprint)

    def degradations(self) -> list[Degradation]:
        """Say what this store cannot do as it should; empty when nothing is."""
        return self._degradations(corpus.read_state(self._database))

    def _degradations(self, state: CorpusState) -> list[Degradation]:
        if state.generation in self._broken and state.generation:
            return [Degradation("index_corrupt", self._broken[state.generation])]
        return [] if state.index_is_current(self.folder) else [STALE]

    def verify(self) -> None:
        """Open the index and ask it for everything it should hold.

        Raises:
            StoreUnavailableError: the index is behind, or broken.
        """
        state = corpus.read_state(self._database)
        if not state.index_is_current(self.folder):
            raise StoreUnavailableError(f"{self.folder}: {STALE.detail}")
        if not state.chunks:
            return
        wanted = corpus.count_searched(self._database, state.fingerprint)
        with self._index_lock:
            index = self._open(state)
            if len(index.records()) != wanted or index.count() != wanted:
                raise StoreUnavailableError(f"{self.folder}: the index lacks vectors")
            lost = wanted - index.reachable(state.dimension, wanted)
            if lost > MAX_UNREACHABLE * wanted:
                raise StoreUnavailableError(
                    f"{self.folder}: {lost} of {wanted} vectors cannot be reached through the index"
                )

    def close(self) -> None:
        """Let go of the index and the corpus."""
        with self._index_lock:
            self._drop_index()
        self._database.close()

    def _by_index(
        self, state: CorpusState, vector: Vector, top_k: int
    ) -> list[tuple[str, float]] | None:
        if state.generation in self._broken or not state.index_is_current(self.folder):
            return None
        with self._index_lock:
            try:
                index = self._open(state)
                found = index.nearest(vector, min(top_k, self._indexed))
            except StoreUnavailableError as error:
                self._give_up(state, error)
                return None
        return found

    def _open(self, state: CorpusState) -> ChromaGeneration:
        from doxtr_rag.storage import chroma  # noqa: PLC0415 - pays for itself only in a search

        if self._index is not None and self._opened == state.generation:
            return self._index
        self._drop_index()
        place = generation.place(self.folder, state.generation)
        if not generation.is_intact(self.folder, state.generation, state.manifest):
            raise StoreUnavailableError(f"{place}: not the files that were written")
        index = chroma.open_generation(place, state.collection or chroma.DEFAULT_COLLECTION)
        self._index, self._opened = index, state.generation
        wanted = corpus.count_searched(self._database, state.fingerprint)
        self._indexed = index.count()
        if self._indexed != wanted:
            raise StoreUnavailableError(f"{place}: holds {self._indexed} vectors of {wanted}")
        return index

    def _give_up(self, state: CorpusState, error: StoreUnavailableError) -> None:
        """Leave a broken generation alone and ask the next writer for another."""
        self._drop_index()
        if not corpus.read_state(self._database).index_is_current(self.folder):
            # Replaced while it was asked.
            return
        self._broken[state.generation] = f"{error}; every vector was compared instead"
        logger.warning("%s: index cannot be used: %s", self.folder, error)
        try:
            _mark_dirty(self.folder, state.generation)
        except StoreError as refusal:
            logger.debug("%s: not marked for a rebuild: %s", self.folder, refusal)

    def _drop_index(self) -> None:
        index, self._index, self._opened = self._index, None, ""
        if index is not None:
            try:
                index.close()
            except StoreUnavailableError as error:
                logger.debug("%s: index closed badly: %s", self.folder, error)

    def _hits(
        self, scores: dict[str, float], top_k: int, documents: Collection[str] | None = None
    ) -> list[Hit]:
        found = corpus.chunks_of_texts(self._database, scores, documents)
        hits = [Hit(chunk_id, key, self._name, scores[key]) for chunk_id, key in found]
        return sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id))[:top_k]


def _held(state: CorpusState) -> str | None:
    return state.fingerprint if state.fingerprint and state.chunks else None


def _mark_dirty(folder: Path, name: str) -> None:
    database = open_existing(folder, wait_s=0.2)
    try:
        with database.writing() as connection:
            connection.execute("UPDATE index_state SET dirty = 1 WHERE generation = ?", (name,))
    finally:
        database.close()
