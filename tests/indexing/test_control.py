"""Stopping a run where it can be left as it is, and what a run tells of itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

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
from doxtr_rag.core.errors import CorruptDocumentError, EmbeddingError
from doxtr_rag.core.runs import RunCanceledError
from doxtr_rag.core.scope import Scope, ScopeSignal
from doxtr_rag.indexing.engine import IngestionEngine, RunOptions
from doxtr_rag.indexing.plan import ChunkPlan
from doxtr_rag.indexing.vectors import Model, VectorSupply
from doxtr_rag.testing import HashEmbedder, MemoryCache, MemoryStore, ProgressLog, WordCounter

LIMITS = ChunkLimits(target_tokens=40, cap_tokens=60, max_chars=2000, overlap_chars=0)


@dataclass
class Stop:
    """Stops a run at its n-th checkpoint, and notes what it is told."""

    at: int = 10**6
    seen: int = 0
    begun: int = 0
    counts: Counter = field(default_factory=Counter)
    journal: list = field(default_factory=list)

    def begin(self):
        self.begun += 1

    def checkpoint(self, settle=None):
        self.seen += 1
        self.journal.append(("control", "checkpoint"))
        if self.seen >= self.at:
            if settle is not None:
                settle()
            raise RunCanceledError("as asked")

    def count(self, kind, more):
        self.counts[kind] += more


def page(name, *texts, scope=Scope.SHARED_ORG, load=None):
    sections = tuple(
        Section(f"s{n}", (name.title(), f"Part {n}"), (Block(BlockKind.TEXT, text),))
        for n, text in enumerate(texts)
    )
    signal = ScopeSignal("path", scope, "by the test")
    context = DocumentContext((), f"{name}.html", f"source/{name}.rst", (signal,))
    return DocumentInput(name, repr(texts), context, load or (lambda: sections))


def harvest(*pages, kept=()):
    return Harvest("demo", "sphinx", pages, {item.document: item.context for item in kept}, True)


@dataclass
class World:
    """One knowledge base in memory."""

    journal: list = field(default_factory=list)
    cache: MemoryCache = field(default_factory=MemoryCache)
    embedder: HashEmbedder = field(default_factory=HashEmbedder)

    def __post_init__(self):
        self.stores = {scope: MemoryStore(scope, journal=self.journal) for scope in Scope}

    def run(self, found, control=None, embedder=None, donor=None, known_pace=None):
        self.embedder = embedder or HashEmbedder(journal=self.journal)
        model = Model(
            self.embedder.fingerprint,
            self.embedder.dimension,
            WordCounter,
            lambda: self.embedder,
            donor,
            known_pace,
        )
        engine = IngestionEngine(
            model=model,
            stores=self.stores,
            cache=self.cache,
            options=RunOptions(LIMITS, control=control or Stop()),
            refresh_indexes=lambda stores: [store.refresh_index() for store in stores],
            progress=ProgressLog(),
        )
        return engine.ingest(found)

    def contents(self):
        return {
            scope: {key: scoped.content_hash for key, scoped in store.chunks.items()}
            for scope, store in self.stores.items()
        }


def pages(count):
    scopes = (Scope.SHARED_ORG, Scope.LOCAL_PRIVATE)
    return [page(f"p{n}", f"one {n}", f"two {n}", scope=scopes[n % 2]) for n in range(count)]


def test_a_run_without_changes_is_never_begun():
    world, control = World(), Stop()
    world.run(harvest(*pages(4)), control)
    assert control.begun == 1
    world.run(harvest(*pages(4)), control)
    assert control.begun == 1


def test_wherever_a_run_is_stopped_the_next_one_goes_on_and_embeds_nothing_twice():
    whole, control = World(), Stop()
    whole.run(harvest(*pages(12)), control)
    expected = sorted(whole.embedder.embedded)
    assert control.seen > 20
    for at in range(1, control.seen + 1):
        world = World()
        with pytest.raises(RunCanceledError):
            world.run(harvest(*pages(12)), Stop(at))
        first = list(world.embedder.embedded)
        world.run(harvest(*pages(12)))
        assert sorted(first + world.embedder.embedded) == expected, at
        assert world.contents() == whole.contents(), at


def test_what_turned_private_is_withdrawn_before_a_run_can_be_stopped():
    world = World()
    world.run(harvest(*pages(4)))
    turned = [page(f"p{n}", f"one {n}", f"two {n}", scope=Scope.LOCAL_PRIVATE) for n in range(4)]
    with pytest.raises(RunCanceledError):
        world.run(harvest(*turned), Stop(1))
    assert not world.stores[Scope.SHARED_ORG].chunks


def test_a_run_tells_what_it_does():
    world, control = World(), Stop()

    def broken():
        raise CorruptDocumentError("bad", "unreadable")

    kept = page("kept", "not read in this build")
    items = [page("a", "one", "two"), page("bad", "x", load=broken)]
    world.run(harvest(*items, kept=[kept]), control)
    assert control.counts == {"embedded": 2, "failed": 1, "skipped": 1}
    again = [page("b", "one", "two"), page("c", "three"), *items]
    control = Stop()
    report = world.run(harvest(*again, kept=[kept]), control)
    assert control.counts["embedded"] == report.embedded == len(world.embedder.embedded)


def test_what_was_embedded_before_the_model_failed_is_saved():
    world = World()
    found = harvest(page("a", *(f"text {n}" for n in range(20))))
    with pytest.raises(EmbeddingError):
        world.run(found, embedder=HashEmbedder(fails_after=8))
    assert len(world.stores[Scope.SHARED_ORG].saved) == 8
    world.run(found)
    assert len(world.embedder.embedded) == 12


class Gift:
    """A sibling that has what another world has."""

    def __init__(self, world, spoil=lambda vector: vector):
        self._saved = {
            key: spoil(vector)
            for store in world.stores.values()
            for (_, key), vector in store.saved.items()
        }
        self.asked = []
        self.used = ("sibling",)

    def vectors(self, fingerprint, text_hashes):
        self.asked += text_hashes
        return {key: self._saved[key] for key in text_hashes if key in self._saved}


def test_nothing_is_embedded_that_a_sibling_has():
    sibling = World()
    sibling.run(harvest(*pages(6)))
    world = World()
    changed = [*pages(6), page("new", "only here")]
    report = world.run(harvest(*changed), donor=Gift(sibling))
    assert world.embedder.embedded == [text for text in world.embedder.embedded if "only" in text]
    assert report.embedded == 1
    assert report.reused_from == {"sibling": 12}
    assert report.donors == ("sibling",)
    scratch = World()
    scratch.run(harvest(*changed))
    assert world.contents() == scratch.contents()
    for scope, store in world.stores.items():
        assert store.saved == scratch.stores[scope].saved


def test_a_sibling_is_asked_for_nothing_that_is_at_hand():
    world = World()
    world.run(harvest(*pages(6)))
    gift = Gift(World())
    moved = [page("moved", "one 0", "two 0"), *pages(6)[1:]]
    report = world.run(harvest(*moved), donor=gift)
    assert len(gift.asked) == report.embedded == 2


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda vector: vector[:-4], id="short"),
        pytest.param(lambda vector: b"", id="empty"),
        pytest.param(lambda vector: vector[:-3], id="torn"),
        pytest.param(lambda vector: b"\0\0\xc0\x7f" + vector[4:], id="not-a-number"),
        pytest.param(lambda vector: b"\0\0\x80\x7f" + vector[4:], id="infinite"),
        pytest.param(lambda vector: bytes(len(vector)), id="zero"),
        pytest.param(lambda vector: vector[: len(vector) // 2] * 2, id="mixed"),
    ],
)
def test_a_damaged_vector_of_a_sibling_is_made_again(spoil):
    sibling = World()
    sibling.run(harvest(page("p", "some words of a page that spread over many buckets of hash")))
    world = World()
    report = world.run(
        harvest(page("p", "some words of a page that spread over many buckets of hash")),
        donor=Gift(sibling, spoil),
    )
    assert (report.embedded, report.reused) == (1, 0)
    assert world.stores[Scope.SHARED_ORG].saved == sibling.stores[Scope.SHARED_ORG].saved


def test_reuse_is_counted_by_where_it_came_from():
    world = World()
    same = Section("", ("Title",), (Block(BlockKind.TEXT, "same"),))
    twice = [page(name, "same", load=lambda: (same,)) for name in ("x", "y")]
    first = world.run(harvest(*twice, page("a", "one"), page("b", "two")))
    assert first.reused_from == {"same run": 1}
    private = page("b", "two", scope=Scope.LOCAL_PRIVATE)
    second = world.run(harvest(*twice, page("a", "one"), private, page("c", "new")))
    # The withdrawal gave the vector to the private store before it looked.
    assert second.reused_from == {"same store": 1}
    opened = page("b", "two")
    third = world.run(harvest(*twice, page("a", "one"), opened, page("c", "new")))
    assert (third.embedded, third.reused_from) == (0, {"other scope": 1})
    report = third.to_json()["reuse"]
    assert (report["hits"], report["misses"], report["rate"]) == (1, 0, 1.0)


class Watch:
    """A clock of which a batch takes two seconds and everything else a hundred."""

    def __init__(self):
        self.now, self.calls = 0.0, 0

    def __call__(self):
        self.calls += 1
        self.now += 2.0 if self.calls % 2 == 0 else 100.0
        return self.now


def test_the_pace_is_the_model_s_alone_and_without_pauses():
    world = World()
    world.run(harvest(page("a", *(f"text {n}" for n in range(8)))))
    changed = tuple(world.stores[Scope.SHARED_ORG].chunks.values())
    embedder = HashEmbedder(batch_size=4)
    model = Model(embedder.fingerprint, embedder.dimension, WordCounter, lambda: embedder)
    stores = {scope: MemoryStore(scope) for scope in Scope}
    supply = VectorSupply(model, stores, ProgressLog(), Stop(), Watch())
    supplied = supply.provide({Scope.SHARED_ORG: ChunkPlan(changed, (), (), len(changed))})
    assert (supplied.embedding_s, supplied.pace_s) == (4.0, 0.5)


def test_seconds_are_saved_at_the_pace_of_an_earlier_run_when_nothing_was_embedded():
    sibling = World()
    sibling.run(harvest(*pages(2)))
    report = World().run(harvest(*pages(2)), donor=Gift(sibling), known_pace=lambda: 0.25)
    assert report.saved_s == 1.0
    assert "about 1.0 s saved" in report.lines()[-1]
    report = World().run(harvest(*pages(2)), donor=Gift(sibling))
    assert report.saved_s is None
    assert report.lines()[-1] == "vectors reused from: 4 sibling"
