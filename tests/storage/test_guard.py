import sqlite3

import pytest
from store_samples import ORIGIN, PROJECT, chunk, decision, publish, save

from doxtr_rag.core.documents import ScopedChunk
from doxtr_rag.core.errors import ScopeViolationError
from doxtr_rag.core.scope import Scope, ScopeDecision
from doxtr_rag.storage import open_store
from doxtr_rag.storage.codec import ROW_COLUMNS, row_of
from doxtr_rag.storage.guard import ScopeGuard

SHARED, PRIVATE = Scope.SHARED_ORG, Scope.LOCAL_PRIVATE
UNAFFIRMED = ScopeDecision(SHARED, decision(PRIVATE).decided_by)


@pytest.mark.parametrize(
    ("store_scope", "made"),
    [
        pytest.param(SHARED, decision(PRIVATE), id="private-chunk-to-the-shared-store"),
        pytest.param(PRIVATE, decision(SHARED), id="shared-chunk-to-the-private-store"),
        pytest.param(SHARED, UNAFFIRMED, id="shared-by-a-signal-that-does-not-affirm-it"),
    ],
)
def test_a_chunk_of_another_scope_stops_the_whole_publication(tmp_path, store_scope, made):
    fits = chunk("fits", "fits", scope=store_scope)
    strays = ScopedChunk(chunk("strays", "strays").chunk, made)
    with open_store(tmp_path, store_scope, "any") as store:
        with pytest.raises(ScopeViolationError, match="guide/intro#strays"):
            publish(store, [fits, strays])
        assert not store.hashes(PROJECT, ORIGIN)


def test_the_guard_admits_its_own_scope():
    mine = [chunk("a", "one", scope=PRIVATE), chunk("b", "two", scope=PRIVATE)]
    assert [admitted.scoped for admitted in ScopeGuard(PRIVATE).admit(mine)] == mine


def test_the_corpus_itself_refuses_a_row_that_slipped_past_the_guard(store, folder):
    private = chunk("secret", "secret", scope=PRIVATE)
    save(store, [private])
    connection = sqlite3.connect(folder / "corpus.sqlite3")
    try:
        with pytest.raises(sqlite3.IntegrityError, match="another scope"):
            connection.execute(
                f"INSERT INTO chunks ({', '.join(ROW_COLUMNS)}) "  # noqa: S608
                f"VALUES ({', '.join('?' * len(ROW_COLUMNS))})",
                row_of(private, ORIGIN),
            )
    finally:
        connection.close()
