"""Whole runs with the shared store on a server: machines come and go, the server stays or not."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from chroma_server import Fault, chroma_server, faulty_proxy
from store_samples import index

from doxtr_rag.core.chunking import ChunkLimits
from doxtr_rag.core.documents import (
    Block,
    BlockKind,
    DocumentContext,
    DocumentInput,
    Harvest,
    Section,
)
from doxtr_rag.core.errors import StoreUnreachableError
from doxtr_rag.core.scope import Scope, ScopeSignal
from doxtr_rag.indexing.engine import IngestionEngine, RunOptions
from doxtr_rag.indexing.vectors import Model
from doxtr_rag.storage import open_store
from doxtr_rag.storage.remote import connection as wire
from doxtr_rag.storage.remote.address import RemoteAccess, RemoteAddress
from doxtr_rag.storage.remote.store import RemoteStore
from doxtr_rag.testing import HashEmbedder, MemoryCache, ProgressLog, WordCounter

SHARED = ScopeSignal("path", Scope.SHARED_ORG, "under source/")
PRIVATE = ScopeSignal("document", Scope.LOCAL_PRIVATE, "access_scope says so")
LIMITS = ChunkLimits(target_tokens=40, cap_tokens=60, max_chars=2000, overlap_chars=0)


def page(name, *texts, signals=(SHARED,)):
    sections = tuple(
        Section(f"s{n}", (name.title(), f"Part {n}"), (Block(BlockKind.TEXT, text),))
        for n, text in enumerate(texts)
    )
    context = DocumentContext((), f"{name}.html", f"source/{name}.rst", signals)
    return DocumentInput(name, repr(texts), context, lambda: sections)


PAGES = (
    page("guide", "Open the door.", "Close it again."),
    page("plan", "Buy a horse."),
    page("diary", "Dear diary.", signals=(SHARED, PRIVATE)),
)
TURNED = (PAGES[0], page("plan", "Buy a horse.", signals=(SHARED, PRIVATE)), PAGES[2])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with chroma_server(tmp_path_factory.mktemp("chroma")) as running:
        yield running


class Machine:
    """A checkout with its stores; each run opens them anew, as a build does."""

    def __init__(self, folder, address):
        self.folder = folder
        self.address = address
        self.cache = MemoryCache()
        self.embedder = HashEmbedder()
        self.before_embedding = lambda: None

    def run(self, *pages):
        self.embedder = HashEmbedder()
        with ExitStack() as stack:
            private = open_store(self.folder / "private", Scope.LOCAL_PRIVATE, "private")
            shared = RemoteStore(
                self.folder / "shared", Scope.SHARED_ORG, "shared", self.address, RemoteAccess("V")
            )
            stores = {
                Scope.LOCAL_PRIVATE: stack.enter_context(private),
                Scope.SHARED_ORG: stack.enter_context(shared),
            }
            engine = IngestionEngine(
                model=Model(self.embedder.fingerprint, 32, WordCounter, self._embedder),
                stores=stores,
                cache=self.cache,
                options=RunOptions(LIMITS),
                refresh_indexes=refresh,
                progress=ProgressLog(),
            )
            return engine.ingest(Harvest("demo", "sphinx", pages))

    def _embedder(self):
        self.before_embedding()
        return self.embedder

    def private_chunks(self):
        with open_store(self.folder / "private", Scope.LOCAL_PRIVATE, "private") as store:
            return set(store.hashes("demo", "sphinx"))


def refresh(stores):
    """Bring the private store up first, so that a server that is away does not keep it back."""
    for store in sorted(stores, key=lambda store: isinstance(store, RemoteStore)):
        store.refresh_index() if isinstance(store, RemoteStore) else index(store)


@pytest.fixture
def proxy(server, monkeypatch):
    monkeypatch.setattr(wire, "PAUSES_S", (0.01, 0.01))
    with faulty_proxy(server) as running:
        yield running


@pytest.fixture
def machine(proxy, request, tmp_path):
    database = f"d{abs(hash(request.node.nodeid))}"
    address = RemoteAddress.of_uri(
        proxy.uri, tenant="default_tenant", database=database, collection="hash_32"
    )
    return lambda name: Machine(tmp_path / name, address)


@pytest.fixture
def on_server(server, machine):
    """Return the ids of what the server has."""
    folder = machine("any").address.database_path + "/collections"

    def ids():
        found = server.ask("GET", f"{folder}/hash_32")
        return set(server.ask("POST", f"{folder}/{found['id']}/get", {})["ids"])

    return ids


def test_the_first_run_shares_what_may_be_shared(machine, on_server):
    laptop = machine("laptop")
    laptop.run(*PAGES)
    assert on_server() == {"demo/guide#s0", "demo/guide#s1", "demo/plan#s0"}
    assert laptop.private_chunks() == {"demo/diary#s0"}


def test_a_run_without_a_change_makes_two_requests(machine, proxy):
    laptop = machine("laptop")
    laptop.run(*PAGES)
    proxy.names()
    assert laptop.run(*PAGES).is_unchanged
    assert proxy.names() == ["GET count", "POST get"]


def test_a_fresh_machine_embeds_only_what_the_server_lacks(machine, proxy, on_server):
    machine("laptop").run(*PAGES)
    proxy.names()
    ci = machine("ci")
    ci.run(*PAGES)
    assert [text.rpartition("\n")[2] for text in ci.embedder.embedded] == ["Dear diary."]
    assert not {"POST upsert", "POST delete"} & set(proxy.names())
    ci.run(*PAGES, page("more", "Feed the horse."))
    assert [text.rpartition("\n")[2] for text in ci.embedder.embedded] == ["Feed the horse."]
    assert "demo/more#s0" in on_server()


def test_a_fresh_machine_takes_private_text_off_the_server_first(machine, on_server):
    """Although it knows of no chunk that it would have shared."""
    machine("laptop").run(*PAGES)
    ci = machine("ci")
    seen = []
    ci.before_embedding = lambda: seen.append(on_server())
    ci.run(*TURNED)
    assert seen == [{"demo/guide#s0", "demo/guide#s1"}]
    assert ci.private_chunks() == {"demo/diary#s0", "demo/plan#s0"}
    assert on_server() == {"demo/guide#s0", "demo/guide#s1"}
    assert [text.rpartition("\n")[2] for text in ci.embedder.embedded] == ["Dear diary."]


def test_text_that_another_machine_shared_is_withdrawn_here(machine, on_server):
    """Two machines of one project, of which one has the page as private from the beginning."""
    mine = machine("mine")
    mine.run(*TURNED)
    machine("theirs").run(*PAGES)
    assert "demo/plan#s0" in on_server()
    mine.run(*TURNED)
    assert on_server() == {"demo/guide#s0", "demo/guide#s1"}


def test_a_server_that_is_away_keeps_nothing_else_back(machine, proxy, on_server):
    laptop = machine("laptop")
    laptop.run(*PAGES)
    proxy.judge = lambda _: Fault(503)
    diary = page("diary", "Dear diary.", "More.", signals=(SHARED, PRIVATE))
    changed = (page("guide", "Open the door.", "Close it."), PAGES[1], diary)
    with pytest.raises(StoreUnreachableError):
        laptop.run(*changed)
    assert laptop.private_chunks() == {"demo/diary#s0", "demo/diary#s1"}
    proxy.judge = lambda _: None
    proxy.seen.clear()
    laptop.run(*changed)
    assert laptop.embedder.embedded == []
    assert [s.json["ids"] for s in proxy.seen if b"Close it." in s.body] == [["demo/guide#s1"]]
    assert on_server() == {"demo/guide#s0", "demo/guide#s1", "demo/plan#s0"}


def test_a_page_that_turns_private_while_the_server_is_away(machine, proxy, on_server):
    laptop = machine("laptop")
    laptop.run(*PAGES)
    proxy.judge = lambda _: Fault(503)
    with pytest.raises(StoreUnreachableError, match="what turned private may still be found"):
        laptop.run(*TURNED)
    with pytest.raises(StoreUnreachableError, match="what turned private may still be found"):
        laptop.run(*TURNED)
    proxy.judge = lambda _: None
    proxy.names()
    laptop.run(*TURNED)
    written = [name for name in proxy.names() if name in ("POST upsert", "POST delete")]
    assert written[0] == "POST delete"
    assert on_server() == {"demo/guide#s0", "demo/guide#s1"}
    assert laptop.private_chunks() == {"demo/diary#s0", "demo/plan#s0"}
