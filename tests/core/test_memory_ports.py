"""The in-memory ports keep the promises of the real ones."""

import struct

import pytest

from doxtr_rag.core.documents import DocumentChunk, ScopedChunk
from doxtr_rag.core.errors import EmbeddingError, ParityError, ScopeViolationError, StoreError
from doxtr_rag.core.ports import DocumentRecord, PoolRequest, RunMark
from doxtr_rag.core.scope import Scope, ScopeDecision, ScopeSignal
from doxtr_rag.testing import HashEmbedder, MemoryCache, MemoryStore, ProgressLog, WordCounter


def scoped(chunk_id, text="text", scope=Scope.SHARED_ORG, project="p"):
    chunk = DocumentChunk(chunk_id, project, "doc", "", text)
    return ScopedChunk(chunk, ScopeDecision(scope, ScopeSignal("test", scope, "said so")))


def published(*chunks, store=None, embedder=None, origin="sphinx"):
    store = store or MemoryStore(Scope.SHARED_ORG)
    embedder = embedder or HashEmbedder()
    texts = [c.chunk.embedding_text for c in chunks]
    for batch in embedder.embed(texts):
        store.save_vectors(
            embedder.fingerprint, {chunks[at].chunk.text_hash: vector for at, vector in batch}
        )
    store.publish(chunks[0].chunk.project, origin, embedder.fingerprint, chunks, ())
    return store


def test_private_chunk_is_refused_and_nothing_is_written():
    good, bad = scoped("a"), scoped("b", scope=Scope.LOCAL_PRIVATE)
    with pytest.raises(ScopeViolationError):
        published(good, bad, store=(store := MemoryStore(Scope.SHARED_ORG)))
    assert not store.chunks


def test_chunk_without_vector_is_refused():
    with pytest.raises(StoreError, match="no vector"):
        MemoryStore(Scope.SHARED_ORG).publish("p", "sphinx", "f", [scoped("a")], ())


def test_other_project_cannot_bring_another_model():
    store = published(scoped("a"))
    with pytest.raises(ParityError):
        published(scoped("b", project="q"), store=store, embedder=HashEmbedder(fingerprint="other"))


def asked(store, query):
    vector = HashEmbedder().embed_query(query)
    return store.pools(PoolRequest(query, vector, "hash-embedder", size=5, best=5))


def test_index_is_current_only_after_seal_and_refresh():
    store = published(scoped("a", "one"))
    assert not store.is_current()
    store.seal("hash-embedder", 32)
    store.refresh_index()
    assert store.is_current()
    published(scoped("b", "two"), store=store)
    assert not store.is_current()
    assert [d.code for d in asked(store, "two").degraded] == ["index_dirty"]


def test_withdrawn_chunk_is_in_no_index_and_changes_the_revision():
    store = published(scoped("a", "one"), scoped("b", "two"))
    store.seal("hash-embedder", 32)
    store.refresh_index()
    before = store.revision("p")
    store.withdraw("p", ["a", "unknown"])
    assert set(store.chunks) == set(store.indexed) == {"b"}
    assert store.revision("p") not in {before, ""}
    store.withdraw("p", ["b"])
    assert store.revision("p") == ""


def test_other_projects_chunks_are_not_touched():
    store = published(scoped("a"))
    store.withdraw("q", ["a"])
    store.publish("q", "sphinx", "hash-embedder", (), ["a"])
    assert set(store.chunks) == {"a"}
    assert store.projects() == {"p"}


def test_seal_drops_vectors_nothing_refers_to_and_refuses_gaps():
    store = published(scoped("a", "one"), scoped("b", "two"))
    store.publish("p", "sphinx", "hash-embedder", (), ["a"])
    store.seal("hash-embedder", 32)
    left = scoped("b", "two").chunk.text_hash
    assert set(store.saved) == {("hash-embedder", left)}
    assert store.missing("hash-embedder", ["x", left]) == {"x"}
    with pytest.raises(ParityError, match="another model"):
        store.seal("other", 32)


def test_search_finds_shared_words_first():
    store = published(scoped("a", "red apples"), scoped("b", "green pears"))
    assert [hit.chunk_id for hit in asked(store, "green pears").rankings["dense"]] == ["b", "a"]
    assert [hit.chunk_id for hit in asked(store, "apples?").rankings["lexical"]] == ["a"]
    assert store.fetch(["a", "unknown"])["a"].text == "red apples"
    assert set(store.hashes("p", "sphinx", ["doc"])) == {"a", "b"}
    assert not store.hashes("p", "other")


def test_failure_and_order_can_be_staged():
    journal = []
    store = MemoryStore(Scope.SHARED_ORG, journal=journal, failures={"seal": StoreError("full")})
    published(scoped("a"), store=store, embedder=HashEmbedder(journal=journal))
    with pytest.raises(StoreError, match="full"):
        store.seal("hash-embedder", 32)
    actions = [action for _, action in journal]
    assert actions == ["embed", "save_vectors", "publish", "seal"]


def test_embedder_is_deterministic_normal_and_out_of_order():
    embedder = HashEmbedder(batch_size=2)
    batches = list(embedder.embed(["a", "longer text", "b", "a"]))
    vectors = dict(pair for batch in batches for pair in batch)
    assert batches[0][0][0] == 1
    assert vectors[0] == vectors[3] != vectors[2]
    assert sum(x * x for x in struct.unpack("<32f", vectors[0])) == pytest.approx(1)
    assert embedder.counts.texts == 4


def test_embedder_can_stop_in_the_middle():
    embedder = HashEmbedder(batch_size=1, fails_after=2)
    with pytest.raises(EmbeddingError):
        list(embedder.embed(["a", "b", "c"]))
    assert len(embedder.embedded) == 2


def test_cache_remembers_by_project_and_origin():
    cache = MemoryCache()
    record = DocumentRecord("hash", Scope.SHARED_ORG, 1, "a.rst")
    cache.record("p", "sphinx", RunMark("s"), {"a": record, "b": record}, ())
    cache.record("p", "sphinx", RunMark("s2"), {}, ["b"])
    assert cache.documents("p", "sphinx") == {"a": record}
    assert cache.mark("p", "sphinx") == RunMark("s2")
    assert cache.mark("q", "sphinx") is None


def test_counter_and_progress():
    assert WordCounter().count(["", "one two", "x" * 17]) == [2, 4, 5]
    log = ProgressLog()
    log("embed", 1, 2)
    assert log.reports == [("embed", 1, 2)]
