"""A store as a Chroma collection: records by chunk id, with text, metadata and vector."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterator, Sequence

from doxtr_rag.core.documents import Vector
from doxtr_rag.core.ports import CollectionRecord, CollectionState
from doxtr_rag.storage import corpus, exact
from doxtr_rag.storage.reader import StoreReader

PAGE = 1000
_COLUMNS = (
    "id, text, source_file, title, breadcrumb, scope, content_hash, locator, anchor, project, url, "
    "text_hash"
)
_AFTER = f"SELECT {_COLUMNS} FROM chunks WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608 - constants
_BY_ID = (
    f"SELECT {_COLUMNS} FROM chunks "  # noqa: S608 - constants
    "WHERE id IN (SELECT value FROM json_each(?))"
)


class CollectionView:
    """Reads one store record by record; satisfies `RecordCollection`."""

    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader
        self._database = reader.database

    def state(self) -> CollectionState:
        """Return the collection's identity and size.

        Raises:
            StoreError: the corpus cannot be read.
        """
        state = corpus.read_state(self._database)
        return CollectionState(
            collection_id=str(uuid.uuid5(uuid.NAMESPACE_OID, state.store_id)),
            dimension=state.dimension or None,
            count=state.chunks,
            fingerprint=state.fingerprint,
        )

    def records(self, chunk_ids: Sequence[str] | None = None) -> Iterator[CollectionRecord]:
        """Yield the records of some chunks as they were asked for, or all by their ids.

        Raises:
            StoreError: the corpus cannot be read.
        """
        if chunk_ids is not None:
            with self._database.reading() as connection:
                rows = connection.execute(_BY_ID, (corpus.listed(chunk_ids),)).fetchall()
            found = {row[0]: _record(row) for row in rows}
            yield from (found[key] for key in dict.fromkeys(chunk_ids) if key in found)
            return
        last = ""
        while True:
            with self._database.reading() as connection:
                rows = connection.execute(_AFTER, (last, PAGE)).fetchall()
            if not rows:
                return
            yield from map(_record, rows)
            last = rows[-1][0]

    def vectors(self, records: Collection[CollectionRecord]) -> dict[str, Vector]:
        """Return the vectors of records by text hash.

        Raises:
            StoreError: the corpus cannot be read.
        """
        fingerprint = corpus.read_state(self._database).fingerprint
        return corpus.read_vectors(self._database, fingerprint, {r.text_hash for r in records})

    def nearest(
        self, vector: Vector, count: int, wanted: Sequence[CollectionRecord] | None
    ) -> list[tuple[str, float]]:
        """Return `(chunk id, cosine similarity)`, best first, among some records or all.

        Raises:
            ParityError: the vector has another dimension.
            StoreError: the corpus cannot be read.
        """
        if wanted is None:
            return [(hit.chunk_id, hit.score) for hit in self._reader.dense(vector, count)]
        pages = (wanted[start : start + PAGE] for start in range(0, len(wanted), PAGE))
        blocks = (sorted(self.vectors(page).items()) for page in pages)
        scores = dict(exact.nearest((b for b in blocks if b), vector, len(wanted) or 1))
        found = [(r.chunk_id, scores[r.text_hash]) for r in wanted if r.text_hash in scores]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:count]


def _record(row: Sequence[str]) -> CollectionRecord:
    (chunk_id, text, source_file, title, breadcrumb, scope, content_hash) = row[:7]
    (locator, anchor, project, url, text_hash) = row[7:]
    kind, value, end = json.loads(locator) if locator else ("anchor", anchor, None)
    return CollectionRecord(
        chunk_id,
        text,
        text_hash,
        {
            "source_file": source_file,
            "section_title": title,
            "breadcrumb": breadcrumb,
            "access_scope": scope,
            "content_hash": content_hash,
            "provenance": json.dumps({"kind": kind, "value": value, "end": end}),
            "project": project,
            "url": url,
            "text_hash": text_hash,
        },
    )
