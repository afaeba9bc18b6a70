"""The write path against in-memory ports: what is embedded, stored, withdrawn and left alone."""

from dataclasses import dataclass, field, replace

import pytest

from doxtr_rag.core.chunking import ChunkLimits
from doxtr_rag.core.documents import (
    Block,
    BlockKind,
    DocumentContext,
    DocumentInput,
    Harvest,
    Section,
)
from doxtr_rag.core.errors import (
    CorruptDocumentError,
    EmbeddingError,
    ParityError,
    ShrinkRefusedError,
    StoreUnavailableError,
    WeightsMissingError,
)
from doxtr_rag.core.scope import Scope, ScopeSignal
from doxtr_rag.indexing.engine import IngestionEngine, RunOptions
from doxtr_rag.indexing.vectors import Model
from doxtr_rag.testing import HashEmbedder, MemoryCache, MemoryStore, ProgressLog, WordCounter

SHARED = ScopeSignal("path", Scope.SHARED_ORG, "under source/")
PRIVATE = ScopeSignal("document", Scope.LOCAL_PRIVATE, "access_scope says so")
LIMITS = ChunkLimits(target_tokens=40, cap_tokens=60, max_chars=2000, overlap_chars=0)


def page(name, *texts, signals=(SHARED,), breadcrumb=(), body_hash=None, withheld=()):
    sections = tuple(
        Section(f"s{n}", (name.title(), f"Part {n}"), (Block(BlockKind.TEXT, text),))
        for n, text in enumerate(texts)
    )
    return DocumentInput(
        document=name,
        body_hash=body_hash or repr(texts),
        context=DocumentContext(
            breadcrumb, f"{name}.html", f"source/{name}.rst", signals, withheld=withheld
        ),
        load=lambda: sections,
    )


def project(*pages, kept=(), is_complete=True):
    contexts = {item.document: item.context for item in kept}
    return Harvest("demo", "sphinx", pages, contexts, is_complete)


@dataclass
class World:
    """One knowledge base in memory, and the engine that converges it."""

    journal: list = field(default_factory=list)
    cache: MemoryCache = field(default_factory=MemoryCache)
    progress: ProgressLog = field(default_factory=ProgressLog)
    fingerprint: str = "hash-embedder"

    def __post_init__(self):
        self.stores = {scope: MemoryStore(scope, journal=self.journal) for scope in Scope}

    @property
    def shared(self):
        return self.stores[Scope.SHARED_ORG]

    @property
    def private(self):
        return self.stores[Scope.LOCAL_PRIVATE]

    def run(self, harvest, *, limits=LIMITS, allow_shrink=False, embedder=None, **model):
        embedder = embedder or HashEmbedder(fingerprint=self.fingerprint, journal=self.journal)
        self.embedder = embedder
        supply = Model(
            **{
                "fingerprint": self.fingerprint,
                "dimension": embedder.dimension,
                "counter": WordCounter,
                "embedder": lambda: embedder,
                **model,
            }
        )
        engine = IngestionEngine(
            model=supply,
            stores=self.stores,
            cache=self.cache,
            options=RunOptions(limits, allow_shrink=allow_shrink),
            refresh_indexes=lambda stores: [store.refresh_index() for store in stores],
            progress=self.progress,
        )
        return engine.ingest(harvest)

    def contents(self):
        return {
            scope: {
                chunk_id: (
                    scoped.content_hash,
                    store.saved[self.fingerprint, scoped.chunk.text_hash],
                )
                for chunk_id, scoped in store.chunks.items()
            }
            for scope, store in self.stores.items()
        }


@pytest.fixture
def world():
    return World()


def scratch(harvest, **options):
    fresh = World()
    fresh.run(harvest, **options)
    return fresh.contents()


def test_a_run_without_changes_embeds_and_writes_nothing(world):
    harvest = project(page("a", "one"), page("b", "two"))
    world.run(harvest)
    del world.journal[:]
    report = world.run(harvest)
    assert report.is_unchanged
    assert report.lines() == ["knowledge base is up to date (2 documents)"]
    assert world.journal == []


def test_only_new_text_is_embedded(world):
    world.run(project(page("a", "one", "two"), page("b", "three")))
    report = world.run(project(page("a", "one", "changed"), page("b", "three")))
    assert len(world.embedder.embedded) == 1
    assert "changed" in world.embedder.embedded[0]
    counts = report.scopes[Scope.SHARED_ORG]
    assert (counts.added, counts.changed, counts.removed, counts.unchanged) == (0, 1, 0, 2)


def test_equal_embedding_inputs_are_embedded_once(world):
    same = [page(name, "same") for name in ("x", "y")]
    same = [
        replace(item, load=lambda: (Section("", ("Title",), (Block(BlockKind.TEXT, "same"),)),))
        for item in same
    ]
    report = world.run(project(*same))
    assert report.embedded == 1
    assert len(world.shared.chunks) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            [page("a", "one"), page("b", "two")],
            [page("a", "one")],
            id="a-deleted-document-leaves",
        ),
        pytest.param(
            [page("a", "one", "two")], [page("a", "two")], id="a-moved-section-takes-its-new-place"
        ),
        pytest.param(
            [page("a", "one")],
            [page("a", "one", breadcrumb=("Guide",))],
            id="a-new-breadcrumb-changes-what-is-embedded",
        ),
        pytest.param(
            [page("a", "one")],
            [page("a", "one", signals=(SHARED, PRIVATE))],
            id="turning-private-moves-it",
        ),
        pytest.param(
            [page("a", "one", signals=(PRIVATE,))],
            [page("a", "one")],
            id="turning-shared-moves-it",
        ),
        pytest.param([page("a", "one")], [page("a")], id="an-emptied-document-leaves"),
    ],
)
def test_history_does_not_matter(world, first, second):
    world.run(project(*first))
    world.run(project(*second))
    assert world.contents() == scratch(project(*second))


def test_chunks_that_turn_private_leave_the_shared_store_before_anything_else(world):
    world.run(project(page("a", "secret"), page("b", "open")))
    del world.journal[:]
    world.run(project(page("a", "secret", signals=(SHARED, PRIVATE)), page("b", "other")))
    # The vectors go along, or a kill after the withdrawal would cost their embedding.
    assert world.journal[:2] == [("LOCAL_PRIVATE", "save_vectors"), ("SHARED_ORG", "withdraw")]
    assert "embed" in [action for _, action in world.journal[2:]]


def test_a_chunk_that_moves_between_stores_is_not_embedded_again(world):
    world.run(project(page("a", "secret")))
    report = world.run(project(page("a", "secret", signals=(PRIVATE,))))
    assert (report.embedded, report.withdrawn) == (0, 1)
    assert len(world.private.chunks) == 1


def test_withdrawal_happens_even_when_the_model_is_missing(world):
    world.run(project(page("a", "secret")))

    def missing():
        raise WeightsMissingError("weights missing: run doxtr-rag fetch-weights")

    with pytest.raises(WeightsMissingError):
        world.run(project(page("a", "secret", signals=(PRIVATE,))), counter=missing)
    assert world.shared.chunks == {}


def missing_model():
    raise WeightsMissingError("weights missing: run doxtr-rag fetch-weights")


def test_a_page_that_moved_to_a_private_one_is_withdrawn_without_a_model(world):
    world.run(project(page("a", "secret"), page("b", "open")))
    moved = project(page("noter/z", "secret", signals=(PRIVATE,)), page("b", "open"))
    with pytest.raises(WeightsMissingError):
        world.run(moved, counter=missing_model)
    assert {s.chunk.document for s in world.shared.chunks.values()} == {"b"}
    world.run(moved)
    assert world.contents() == scratch(moved)


def test_a_page_that_is_gone_stays_until_the_run_can_be_done(world):
    world.run(project(page("a", "one"), page("b", "two")))
    with pytest.raises(WeightsMissingError):
        world.run(project(page("b", "changed")), counter=missing_model)
    assert {s.chunk.document for s in world.shared.chunks.values()} == {"a", "b"}


def test_the_title_of_a_private_page_is_withdrawn_without_a_model(world):
    world.run(project(page("a", "child", breadcrumb=("Takeover",)), page("b", "open")))
    after = project(page("a", "child", withheld=("Takeover",)), page("b", "open"))
    with pytest.raises(WeightsMissingError):
        world.run(after, counter=missing_model)
    assert {s.chunk.document for s in world.shared.chunks.values()} == {"b"}
    world.run(after)
    assert world.contents() == scratch(after)


class BrokenCache(MemoryCache):
    def documents(self, project, origin):
        raise StoreUnavailableError("cache.db: a folder")


def test_withdrawal_needs_no_cache(world):
    world.run(project(page("a", "secret")))
    world.cache = BrokenCache()
    with pytest.raises(StoreUnavailableError, match="a folder"):
        world.run(project(page("a", "secret", signals=(PRIVATE,))))
    assert world.shared.chunks == {}


def test_withdrawal_needs_no_agreement_on_the_model(world):
    world.run(project(page("a", "secret")))
    world.run(replace(project(page("x", "theirs")), project="other"))
    world.fingerprint = "another-model"
    with pytest.raises(ParityError):
        world.run(project(page("a", "secret", signals=(PRIVATE,))))
    assert {s.chunk.project for s in world.shared.chunks.values()} == {"other"}


def test_vectors_of_withdrawn_chunks_survive_a_crash(world):
    world.run(project(page("a", "secret"), page("b", "open")))
    after = project(page("a", "secret", signals=(PRIVATE,)), page("b", "changed"))
    with pytest.raises(EmbeddingError):
        world.run(after, embedder=HashEmbedder(fails_after=0, journal=world.journal))
    report = world.run(after)
    assert report.embedded == 1
    assert world.contents() == scratch(after)


@pytest.mark.parametrize(
    ("after", "is_erased"),
    [
        pytest.param(
            [page("a", "one"), page("p", "x", "one", signals=(PRIVATE,))], True, id="gain"
        ),
        pytest.param([page("a", "one"), page("p", "x", signals=(PRIVATE,))], False, id="none"),
    ],
)
def test_what_the_private_store_gains_is_erased_from_the_shared_one(world, after, is_erased):
    world.run(project(page("a", "one", "two"), page("p", "x", signals=(PRIVATE,))))
    del world.journal[:]
    world.run(project(*after))
    assert (("SHARED_ORG", "erase_deleted") in world.journal) is is_erased


def test_missing_weights_leave_the_stores_as_they_were(world):
    world.run(project(page("a", "one")))
    before = world.contents()

    def missing():
        raise WeightsMissingError("weights missing: run doxtr-rag fetch-weights")

    with pytest.raises(WeightsMissingError):
        world.run(project(page("a", "two")), counter=missing)
    assert world.contents() == before


def test_a_document_that_is_kept_keeps_its_chunks(world):
    world.run(project(page("a", "one"), page("b", "two")))
    report = world.run(project(page("a", "changed"), kept=[page("b")]))
    assert {s.chunk.document for s in world.shared.chunks.values()} == {"a", "b"}
    assert report.kept == 1


def test_a_kept_document_that_turned_private_is_withdrawn(world):
    world.run(project(page("a", "one"), page("b", "two")))
    world.run(project(page("a", "one"), kept=[page("b", signals=(PRIVATE,))]))
    assert {s.chunk.document for s in world.shared.chunks.values()} == {"a"}


def test_a_kept_document_is_pruned_once_it_is_gone(world):
    world.run(project(page("a", "one"), page("b", "two")))
    world.run(project(page("a", "one"), kept=[page("b")]))
    world.run(project(page("a", "one")))
    assert {s.chunk.document for s in world.shared.chunks.values()} == {"a"}


def test_an_incomplete_harvest_prunes_nothing(world):
    world.run(project(page("a", "one"), page("b", "two")))
    world.run(project(page("a", "one"), is_complete=False))
    assert {s.chunk.document for s in world.shared.chunks.values()} == {"a", "b"}


def test_a_document_that_cannot_be_read_is_reported_and_tried_again(world):
    def broken():
        raise CorruptDocumentError("b", "harvested page changed on disk")

    bad = replace(page("b", "two"), load=broken)
    report = world.run(project(page("a", "one"), bad))
    assert report.failures == {"b": "harvested page changed on disk"}
    assert not report.is_complete
    healed = world.run(project(page("a", "one"), page("b", "two")))
    assert healed.is_complete
    assert world.contents() == scratch(project(page("a", "one"), page("b", "two")))


def many(count):
    return [page(f"d{n:02}", f"text {n}") for n in range(count)]


def test_losing_more_than_half_of_a_store_needs_to_be_asked_for(world):
    world.run(project(*many(20)))
    before = world.contents()
    with pytest.raises(ShrinkRefusedError, match=r"11 of 20 documents.*d09.*and 1 more"):
        world.run(project(*many(9)))
    assert world.contents() == before
    world.run(project(*many(9)), allow_shrink=True)
    assert world.contents() == scratch(project(*many(9)))


def test_losing_half_is_fine(world):
    world.run(project(*many(20)))
    world.run(project(*many(10)))
    assert len(world.shared.chunks) == 10


def test_moving_every_document_to_private_is_no_loss(world):
    world.run(project(*many(20)))
    private = [replace(p, context=replace(p.context, signals=(PRIVATE,))) for p in many(20)]
    world.run(project(*private))
    assert world.shared.chunks == {}
    assert len(world.private.chunks) == 20


def test_moving_every_document_into_a_private_folder_is_no_loss(world):
    world.run(project(*many(20)))
    moved = [page(f"noter/d{n:02}", f"text {n}", signals=(PRIVATE,)) for n in range(20)]
    world.run(project(*moved))
    assert world.shared.chunks == {}
    assert len(world.private.chunks) == 20


def test_losing_too_much_is_refused_after_the_withdrawal(world):
    world.run(project(*many(20), page("secret", "plan")))
    with pytest.raises(ShrinkRefusedError):
        world.run(project(*many(5), page("secret", "plan", signals=(PRIVATE,))))
    assert {s.chunk.document for s in world.shared.chunks.values()} == {
        item.document for item in many(20)
    }


def test_another_project_in_the_same_store_is_never_touched(world):
    world.run(project(page("a", "one")))
    other = replace(project(page("a", "theirs")), project="other")
    world.run(other)
    world.run(replace(project(), project="other"))
    assert [s.chunk.project for s in world.shared.chunks.values()] == ["demo"]


def test_another_project_with_another_model_stops_the_run(world):
    world.run(replace(project(page("a", "theirs")), project="other"))
    world.fingerprint = "another-model"
    with pytest.raises(ParityError):
        world.run(project(page("a", "one")))


def test_a_new_model_embeds_every_chunk_again(world):
    world.run(project(page("a", "one"), page("b", "two")))
    world.fingerprint = "another-model"
    report = world.run(project(page("a", "one"), page("b", "two")))
    assert report.embedded == 2
    assert world.shared.fingerprint() == "another-model"


def test_new_limits_cut_again_and_embed_only_new_texts(world):
    long = " ".join(f"Sentence number {n} is here." for n in range(40))
    world.run(project(page("a", long), page("b", "short")))
    tighter = replace(LIMITS, target_tokens=20, cap_tokens=30)
    world.run(project(page("a", long), page("b", "short")), limits=tighter)
    assert not any("short" in text for text in world.embedder.embedded)
    assert world.contents() == scratch(project(page("a", long), page("b", "short")), limits=tighter)


def test_vectors_embedded_before_a_crash_are_not_embedded_again(world):
    pages = [page(f"d{n:03}", f"text {n}") for n in range(400)]
    failing = HashEmbedder(fails_after=300, journal=world.journal)
    with pytest.raises(EmbeddingError):
        world.run(project(*pages), embedder=failing)
    report = world.run(project(*pages))
    assert report.embedded <= 400 - 256
    assert world.contents() == scratch(project(*pages))


@pytest.mark.parametrize("action", ["save_vectors", "publish", "seal", "refresh_index"])
@pytest.mark.parametrize("scope", list(Scope), ids=lambda scope: scope.value)
def test_a_store_that_fails_is_converged_by_the_next_run(world, scope, action):
    world.run(project(page("a", "one", signals=(PRIVATE,)), page("b", "two")))
    after = project(page("a", "one", "more"), page("b", "two", "more", signals=(PRIVATE,)))
    world.stores[scope].failures[action] = StoreUnavailableError("disk full")
    with pytest.raises(StoreUnavailableError):
        world.run(after)
    world.stores[scope].failures.clear()
    world.run(after)
    assert world.contents() == scratch(after)


def test_a_lost_cache_costs_a_comparison_and_no_embedding(world):
    harvest = project(page("a", "one"), page("b", "two"))
    world.run(harvest)
    world.cache = MemoryCache()
    report = world.run(harvest)
    assert report.embedded == 0
    assert report.scopes[Scope.SHARED_ORG].unchanged == 2


def test_a_wiped_store_is_filled_again(world):
    harvest = project(page("a", "one"), page("b", "two"))
    world.run(harvest)
    world.stores[Scope.SHARED_ORG] = MemoryStore(Scope.SHARED_ORG, journal=world.journal)
    world.run(harvest)
    assert world.contents() == scratch(harvest)


def test_the_reason_of_a_scope_is_remembered(world):
    world.run(project(page("a", "one", signals=(SHARED, PRIVATE))))
    record = world.cache.documents("demo", "sphinx")["a"]
    assert record.scope is Scope.LOCAL_PRIVATE
    assert record.decided_by == ("document", "LOCAL_PRIVATE", "access_scope says so")
    assert record.signals[0] == ("path", "SHARED_ORG", "under source/")


def test_progress_ends_at_the_total(world):
    world.run(project(*many(5)))
    phases = {phase: (done, total) for phase, done, total in world.progress.reports}
    assert phases["embedding"] == (5, 5)
    assert phases["chunking"] == (5, 5)
