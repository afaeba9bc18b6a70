"""One question over several stores: fusion, receipts, and what happens when a store fails."""

import pytest

from doxtr_rag.core.documents import DocumentChunk, ScopedChunk
from doxtr_rag.core.errors import ParityError, StoreUnavailableError
from doxtr_rag.core.scope import Scope, ScopeDecision, ScopeSignal
from doxtr_rag.retrieval.retriever import Retriever
from doxtr_rag.testing import HashEmbedder, MemoryStore

EMBEDDER = HashEmbedder(dimension=256)


def chunk(name, text, *, document="guide", part=""):
    return DocumentChunk(
        chunk_id=f"demo/{document}#{name}{part}",
        project="demo",
        document=document,
        anchor=name,
        text=text,
        header=f"Guide > {name}",
        breadcrumb=("Guide", name),
        url=f"{document}.html",
    )


def store(scope, *chunks, name):
    made = MemoryStore(scope, name=name)
    texts = [c.embedding_text for c in chunks]
    vectors = {i: v for batch in EMBEDDER.embed(texts) for i, v in batch}
    made.save_vectors(EMBEDDER.fingerprint, {c.text_hash: vectors[i] for i, c in enumerate(chunks)})
    decision = ScopeDecision(scope, ScopeSignal("path", scope, "test"))
    scoped = [ScopedChunk(c, decision) for c in chunks]
    made.publish("demo", "sphinx", EMBEDDER.fingerprint, scoped, [])
    made.seal(EMBEDDER.fingerprint, EMBEDDER.dimension)
    made.refresh_index()
    return made


def retriever(*stores, fingerprint=EMBEDDER.fingerprint):
    return Retriever(fingerprint=fingerprint, embedder=lambda: EMBEDDER, stores=stores)


@pytest.fixture
def shared():
    return store(
        Scope.SHARED_ORG,
        chunk("exclude", "Exclude files with exclude_patterns.\nA list of globs."),
        chunk("theme", "Pick a theme with html_theme."),
        name="shared",
    )


@pytest.fixture
def private():
    return store(
        Scope.LOCAL_PRIVATE,
        chunk("secret", "The release checklist excludes nothing.", document="notes"),
        name="private",
    )


def test_both_stores_are_asked_and_the_best_comes_first(shared, private):
    answer = retriever(shared, private).retrieve("exclude files with exclude_patterns", top_k=3)
    assert answer.passages[0].chunk.anchor == "exclude"
    assert answer.passages[0].score == 1.0
    assert [p.rank for p in answer.passages] == [1, 2, 3]
    assert {p.store for p in answer.passages} == {"shared", "private"}
    assert answer.degraded == ()


def test_one_store_alone_gives_its_own_chunks_only(shared):
    answer = retriever(shared).retrieve("release checklist", top_k=5)
    assert {p.chunk.scope for p in answer.passages} == {Scope.SHARED_ORG}


def test_a_section_is_shown_once_under_its_best_part():
    parts = store(
        Scope.SHARED_ORG,
        chunk("long", "alpha beta gamma"),
        chunk("long", "delta epsilon", part="~2"),
        name="shared",
    )
    answer = retriever(parts).retrieve("delta epsilon", top_k=5)
    assert [p.chunk.chunk_id for p in answer.passages] == ["demo/guide#long~2"]


def test_a_text_in_both_stores_counts_once(shared):
    twin = store(
        Scope.LOCAL_PRIVATE,
        chunk("exclude", "Exclude files with exclude_patterns.\nA list of globs."),
        name="private",
    )
    answer = retriever(shared, twin).retrieve("exclude_patterns", top_k=5)
    assert [p.chunk.anchor for p in answer.passages].count("exclude") == 1


def test_a_store_that_fails_is_named_and_the_other_answers(shared, private):
    private.failures["pools"] = StoreUnavailableError("corpus is damaged")
    answer = retriever(shared, private).retrieve("theme", top_k=3)
    assert {p.store for p in answer.passages} == {"shared"}
    assert [(d.code, d.detail) for d in answer.degraded] == [
        ("store_unavailable", "private: corpus is damaged")
    ]


class Unreadable(MemoryStore):
    """A store whose corpus cannot even say which model made it."""

    def pools(self, request):
        raise StoreUnavailableError("corpus is damaged")


def test_a_store_that_cannot_be_read_is_named_and_the_other_answers(shared):
    damaged = Unreadable(Scope.LOCAL_PRIVATE, name="private")
    answer = retriever(damaged, shared).retrieve("theme", top_k=3)
    assert {p.store for p in answer.passages} == {"shared"}
    assert [d.detail for d in answer.degraded] == ["private: corpus is damaged"]
    with pytest.raises(StoreUnavailableError):
        retriever(damaged).retrieve("theme", top_k=3)


def test_every_store_failing_is_an_error(shared, private):
    for failing in (shared, private):
        failing.failures["pools"] = StoreUnavailableError("no")
    with pytest.raises(StoreUnavailableError):
        retriever(shared, private).retrieve("theme", top_k=3)


def test_vectors_of_another_model_are_refused(shared):
    with pytest.raises(ParityError, match="another model"):
        retriever(shared, fingerprint="other").retrieve("theme", top_k=3)


def test_one_store_of_another_model_degrades(shared, private):
    private.sealed = "other"
    answer = retriever(shared, private).retrieve("theme", top_k=3)
    assert [d.code for d in answer.degraded] == ["identity_mismatch"]


def test_a_store_behind_its_corpus_says_so(shared):
    shared.indexed.clear()
    answer = retriever(shared).retrieve("theme", top_k=1)
    assert [d.code for d in answer.degraded] == ["index_dirty"]


@pytest.mark.parametrize("query", ["", "  \t\n", "\0\x1b", "\u3000"])
def test_a_blank_question_asks_nobody(shared, query):
    shared.failures["pools"] = AssertionError("asked")

    def load():
        raise AssertionError("loaded")

    asked = Retriever(fingerprint=EMBEDDER.fingerprint, embedder=load, stores=[shared])
    answer = asked.retrieve(query, top_k=3)
    assert (answer.passages, answer.degraded) == ((), ())
