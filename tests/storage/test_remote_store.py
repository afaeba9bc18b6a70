"""A store whose index is a collection of a Chroma server; every server is a real one."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter

import pytest
from chroma_server import ChromaServer, Fault, chroma_server, fail_times, faulty_proxy
from store_samples import (
    DIMENSION,
    MODEL,
    ORIGIN,
    OTHER_MODEL,
    PROJECT,
    chunk,
    publish,
    save,
    vector,
)

from doxtr_rag.core.errors import (
    ConfigError,
    ParityError,
    ScopeViolationError,
    StoreAccessError,
    StoreReadOnlyError,
    StoreUnreachableError,
)
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage.remote import connection as wire
from doxtr_rag.storage.remote import index as remote_index
from doxtr_rag.storage.remote.address import RemoteAccess, RemoteAddress
from doxtr_rag.storage.remote.store import RemoteStore

COLLECTION = "tiny_8"
FOLDER = "/api/v2/tenants/default_tenant/databases/doxtr_shared/collections"


@pytest.fixture(scope="module")
def common_server(tmp_path_factory):
    with chroma_server(tmp_path_factory.mktemp("chroma")) as running:
        yield running


class Place:
    """A database of its own on a server, behind a proxy that counts."""

    def __init__(self, server, proxy, database):
        self.server = server
        self.proxy = proxy
        self.database = database

    def address(self, collection=COLLECTION):
        return RemoteAddress.of_uri(
            self.proxy.uri, tenant="acme", database=self.database, collection=collection
        )

    def raw(self, method, rest, body=None):
        return self.server.ask(method, self.address().database_path + "/collections" + rest, body)

    def records(self, collection=COLLECTION):
        """What the server holds, by id."""
        found = self.raw("GET", f"/{collection}")
        if "id" not in found:
            return {}
        said = self.raw(
            "POST", f"/{found['id']}/get", {"include": ["documents", "metadatas", "embeddings"]}
        )
        rows = zip(
            said["ids"], said["documents"], said["metadatas"], said["embeddings"], strict=True
        )
        return {key: rest for key, *rest in rows}


@pytest.fixture
def place(common_server, request, monkeypatch):
    monkeypatch.setattr(wire, "PAUSES_S", (0.01, 0.01))
    with faulty_proxy(common_server) as proxy:
        yield Place(common_server, proxy, f"d{abs(hash(request.node.nodeid))}")


@pytest.fixture
def opened(place, tmp_path):
    """Return a function that opens a store of a machine; all are closed in the end."""
    with contextlib.ExitStack() as stack:

        def open_store(machine="one", scope=Scope.SHARED_ORG, collection=COLLECTION):
            return stack.enter_context(
                RemoteStore(
                    tmp_path / machine,
                    scope,
                    "shared",
                    place.address(collection),
                    RemoteAccess("DOXTR_RAG_SHARED_STORE_HEADERS", {"Authorization": "Bearer x"}),
                )
            )

        yield open_store


@pytest.fixture
def store(opened):
    return opened()


THREE = [chunk("a", "one"), chunk("b", "two"), chunk("c", "three")]


def fill(store, chunks, deletes=(), *, project=PROJECT, model=MODEL, origin=ORIGIN):
    publish(store, chunks, deletes, project=project, model=model, origin=origin)
    store.seal(model, DIMENSION)
    if not store.is_current():
        store.refresh_index()


def ids(*anchors):
    return {f"guide/intro#{anchor}" for anchor in anchors}


def writes(names):
    """Count what a list of requests did to chunks."""
    counted = Counter(name.partition(" ")[2] for name in names)
    return counted["upsert"], counted["delete"]


def test_a_first_run_makes_tenant_database_and_collection(place, store):
    fill(store, THREE)
    found = place.records()
    assert found.keys() == ids("a", "b", "c")
    assert [found[key][0] for key in sorted(found)] == ["one", "two", "three"]
    assert store.is_current()


def test_records_have_the_fields_of_the_interface(place, store):
    fill(store, THREE)
    _, metadata, embedding = place.records()["guide/intro#a"]
    assert (
        metadata.items()
        >= {
            "source_file": "intro.rst",
            "section_title": "About a",
            "breadcrumb": '["Manual", "Intro", "About a"]',
            "access_scope": "SHARED_ORG",
            "content_hash": THREE[0].content_hash,
            "provenance": '{"kind": "line", "value": 3, "end": 9}',
            "project": "guide",
            "url": "intro.html#a",
            "text_hash": THREE[0].chunk.text_hash,
        }.items()
    )
    assert embedding == pytest.approx(memoryview(vector("one")).cast("f").tolist(), abs=1e-6)
    head = place.raw("GET", f"/{COLLECTION}")
    assert head["metadata"] == {"fingerprint": MODEL, "access_scope": "SHARED_ORG"}
    assert head["configuration_json"]["hnsw"]["space"] == "cosine"


def test_a_machine_that_knows_no_ids_looks_them_up(place, opened):
    fill(opened(), THREE)
    place.proxy.names()
    assert opened("other").is_current()
    assert place.proxy.names() == [
        f"GET {COLLECTION}", "GET count", f"GET {COLLECTION}_manifest", "POST get"
    ]  # fmt: skip


def test_a_run_without_a_change_asks_two_questions(place, opened):
    fill(opened(), THREE)
    place.proxy.names()
    again = opened()
    again.withdraw(PROJECT, [])
    again.check_identity(PROJECT, MODEL)
    assert again.hashes(PROJECT, ORIGIN).keys() == ids("a", "b", "c")
    again.seal(MODEL, DIMENSION)
    assert again.is_current()
    assert place.proxy.names() == ["GET count", "POST get"]


def test_one_change_is_one_upsert(place, opened):
    fill(opened(), THREE)
    place.proxy.seen.clear()
    fill(opened(), [chunk("b", "two again")])
    assert [seen.name for seen in place.proxy.seen] == [
        "GET count", "POST get",  # how is it there?
        "GET count", "POST get",  # and at this moment?
        f"GET {COLLECTION}",
        "POST upsert",  # we write
        "GET pre-flight-checks",
        "POST upsert",
        "POST get",  # nobody else did
        "POST upsert",  # what we left
    ]  # fmt: skip
    assert [s.json["ids"] for s in place.proxy.seen if b"two again" in s.body] == [
        ["guide/intro#b"]
    ]
    assert place.records()["guide/intro#b"][0] == "two again"


def test_what_is_gone_is_deleted_after_what_is_new_was_sent(place, store):
    fill(store, THREE)
    place.proxy.names()
    fill(store, [chunk("d", "four")], deletes=["guide/intro#a"])
    names = place.proxy.names()
    assert place.records().keys() == ids("b", "c", "d")
    chunks_upsert = [at for at, name in enumerate(names) if name == "POST upsert"][1]
    assert chunks_upsert < names.index("POST delete")


def test_projects_share_a_collection_and_prune_their_own(place, opened):
    one, two = opened("one"), opened("two")
    fill(one, THREE)
    fill(two, [chunk("a", "other", project="tour")], project="tour")
    fill(one, [], deletes=list(ids("a", "b", "c")))
    assert place.records().keys() == {"tour/intro#a"}
    assert two.is_current()
    assert opened("two").is_current()


def test_origins_of_a_project_prune_their_own(place, opened):
    """A build machine knows nothing of what somebody added by hand on another one."""
    by_hand = opened("hand")
    fill(by_hand, [chunk("h", "by hand", document="memo")], origin="hand")
    fill(opened("ci"), THREE)
    assert place.records().keys() == {"guide/memo#h"} | ids("a", "b", "c")
    assert opened("hand").is_current()


def test_reading_everything_prunes_no_other_origin(place, opened):
    fill(opened("hand"), [chunk("h", "by hand", document="memo")], origin="hand")
    fill(opened("ci"), THREE)
    found = place.raw("GET", f"/{COLLECTION}")["id"]
    place.raw("POST", f"/{found}/delete", {"ids": ["guide/intro#a"]})
    opened("ci").refresh_index()
    assert place.records().keys() == {"guide/memo#h"} | ids("a", "b", "c")


def test_a_collection_of_as_many_records_is_not_taken_for_ours(place, opened):
    """Somebody dropped it and put three others there, under the same names."""
    fill(opened(), THREE)
    place.raw("DELETE", f"/{COLLECTION}")
    made = {"name": COLLECTION, "metadata": {"fingerprint": MODEL}}
    hnsw = {"configuration": {"hnsw": {"space": "cosine"}}}
    found = place.raw("POST", "", made | hnsw)["id"]
    others = {
        "ids": sorted(ids("x", "y", "z")),
        "embeddings": [[1.0] * 8] * 3,
        "metadatas": [{"project": PROJECT, "origin": ORIGIN}] * 3,
    }
    place.raw("POST", f"/{found}/upsert", others)
    again = opened()
    assert not again.is_current()
    again.refresh_index()
    assert place.records().keys() == ids("a", "b", "c")


def test_a_collection_that_another_machine_made_anew_is_found_by_its_name(place, opened):
    fill(opened("one"), THREE)
    two = opened("two")
    save(two, THREE)
    fill(two, THREE)
    two.rebuild()
    place.proxy.names()
    assert opened("one").is_current()
    assert place.proxy.names() == ["GET count", f"GET {COLLECTION}", "GET count", "POST get"]


def test_a_wiped_server_is_filled_again_without_embedding(place, opened):
    fill(opened(), THREE)
    for name in (COLLECTION, f"{COLLECTION}_manifest"):
        place.raw("DELETE", f"/{name}")
    again = opened()
    assert not again.is_current()
    again.refresh_index()
    assert place.records().keys() == ids("a", "b", "c")
    assert again.is_current()


def test_a_collection_that_was_dropped_alone_is_filled_again(place, opened):
    fill(opened(), THREE)
    place.raw("DELETE", f"/{COLLECTION}")
    again = opened()
    assert not again.is_current()
    again.refresh_index()
    assert place.records().keys() == ids("a", "b", "c")


def test_records_that_somebody_removed_are_sent_again(place, opened):
    fill(opened(), THREE)
    found = place.raw("GET", f"/{COLLECTION}")["id"]
    place.raw("POST", f"/{found}/delete", {"ids": ["guide/intro#b"]})
    again = opened()
    assert not again.is_current()
    place.proxy.seen.clear()
    again.refresh_index()
    assert place.records().keys() == ids("a", "b", "c")
    sent = [seen.json["ids"] for seen in place.proxy.seen if seen.name == "POST upsert"]
    assert ["guide/intro#b"] in sent


def test_nobody_elses_records_are_ours_to_worry_about(place, opened):
    """Records that no manifest explains cost a count, and change nothing."""
    fill(opened(), THREE)
    found = place.raw("GET", f"/{COLLECTION}")["id"]
    place.raw(
        "POST",
        f"/{found}/upsert",
        {"ids": ["x"], "embeddings": [[1.0] * 8], "metadatas": [{"project": "stranger"}]},
    )
    again = opened()
    place.proxy.names()
    assert again.is_current()
    assert place.proxy.names() == ["GET count", "POST get", "POST get"]


def test_text_that_turned_private_leaves_the_server_before_anything_else(place, store):
    fill(store, THREE)
    place.proxy.names()
    store.withdraw(PROJECT, ["guide/intro#b"])
    assert place.proxy.names() == ["POST delete", "POST get"]
    assert place.records().keys() == ids("a", "c")
    store.seal(MODEL, DIMENSION)
    store.refresh_index()
    assert place.records().keys() == ids("a", "c")
    assert store.is_current()


def test_a_withdrawal_that_failed_is_the_first_thing_the_next_run_does(place, opened):
    store = opened()
    fill(store, THREE)
    place.proxy.judge = fail_times(99, Fault(503))
    with pytest.raises(StoreUnreachableError, match="what turned private may still be found at"):
        store.withdraw(PROJECT, ["guide/intro#b"])
    assert store.corpus.hashes(PROJECT, ORIGIN).keys() == ids("a", "c")
    assert place.records().keys() == ids("a", "b", "c")
    with pytest.raises(StoreUnreachableError):
        opened().withdraw(PROJECT, [])
    place.proxy.judge = lambda _: None
    place.proxy.names()
    again = opened()
    assert not again.is_current()
    again.withdraw(PROJECT, [])
    assert place.proxy.names() == ["POST delete", "POST get"]
    assert place.records().keys() == ids("a", "c")


def test_what_is_still_to_be_withdrawn_goes_before_anything_is_sent(place, opened):
    fill(opened(), THREE)
    store = opened()
    place.proxy.judge = fail_times(3, Fault(503))
    with pytest.raises(StoreUnreachableError):
        store.withdraw(PROJECT, ["guide/intro#b"])
    place.proxy.names()
    fill(store, [chunk("d", "four")])
    written = [name for name in place.proxy.names() if name in ("POST delete", "POST upsert")]
    assert written[0] == "POST delete"
    assert place.records().keys() == ids("a", "c", "d")
    assert store.is_current()


def test_a_deletion_that_did_nothing_is_noticed(place, store):
    """A proxy that says yes and does nothing."""
    fill(store, THREE)
    place.proxy.judge = fail_times(1, Fault(200), "delete")
    with pytest.raises(Exception, match="still has 1 chunks that turned private"):
        store.withdraw(PROJECT, ["guide/intro#b"])
    assert store.corpus.hashes(PROJECT, ORIGIN).keys() == ids("a", "c")


def test_an_unreachable_server_is_caught_up_later(place, opened):
    fill(opened(), THREE)
    place.proxy.judge = fail_times(999, Fault(503))
    place.proxy.names()
    store = opened()
    store.withdraw(PROJECT, [])
    store.check_identity(PROJECT, MODEL)
    fresh = chunk("d", "four")
    assert store.hashes(PROJECT, ORIGIN).keys() == ids("a", "b", "c")
    assert store.missing(MODEL, [fresh.chunk.text_hash]) == {fresh.chunk.text_hash}
    publish(store, [fresh])
    store.seal(MODEL, DIMENSION)
    assert not store.is_current()
    with pytest.raises(StoreUnreachableError):
        store.refresh_index()
    # Three attempts to learn how it is, and three to write.
    assert place.proxy.names() == ["GET count"] * 6
    place.proxy.judge = lambda _: None
    again = opened()
    assert not again.is_current()
    again.refresh_index()
    assert place.records().keys() == ids("a", "b", "c", "d")


@pytest.mark.parametrize("verb", ["upsert", "delete", "get"])
@pytest.mark.parametrize("is_lost", [True, False])
def test_a_run_that_broke_off_is_continued(place, opened, verb, is_lost):
    """Whatever request fails for good, and whether or not it had its effect."""
    fill(opened(), THREE)
    store = opened()
    publish(store, [chunk("d", "four"), chunk("a", "one again")], ["guide/intro#b"])
    store.seal(MODEL, DIMENSION)
    for survived in range(4):
        counter = [0]

        def judge(seen, counter=counter, survived=survived):
            counter[0] += verb in seen.name
            return Fault(503, passes_on=not is_lost) if counter[0] > survived else None

        place.proxy.judge = judge
        with contextlib.suppress(StoreUnreachableError):
            store.refresh_index()
    place.proxy.judge = lambda _: None
    again = opened()
    again.refresh_index()
    assert place.records().keys() == ids("a", "c", "d")
    assert place.records()["guide/intro#a"][0] == "one again"
    assert opened().is_current()


def test_a_busy_server_is_written_in_the_end(place, store):
    place.proxy.judge = fail_times(2, Fault(429), "upsert")
    fill(store, THREE)
    assert place.records().keys() == ids("a", "b", "c")


def test_a_wrong_token_is_said_once(place, store):
    publish(store, THREE)
    store.seal(MODEL, DIMENSION)
    place.proxy.judge = fail_times(99, Fault(401))
    assert not store.is_current()
    place.proxy.names()
    with pytest.raises(StoreAccessError, match="DOXTR_RAG_SHARED_STORE_HEADERS"):
        store.refresh_index()
    assert len(place.proxy.names()) == 1


@pytest.mark.parametrize("status", [403, 405])
def test_a_server_that_refuses_writes_is_known_beforehand(place, opened, status):
    assert opened().is_writable()
    fill(opened(), THREE)
    before = place.records()
    place.proxy.judge = lambda seen: Fault(status) if "upsert" in seen.name else None
    store = opened("reader")
    assert not store.is_writable()
    publish(store, [chunk("d", "four")])
    store.seal(MODEL, DIMENSION)
    with pytest.raises(StoreReadOnlyError):
        store.refresh_index()
    assert place.records() == before


def test_asking_whether_we_may_write_leaves_nothing(place, opened):
    assert opened().is_writable()
    assert place.raw("GET", "") == []


def test_a_machine_without_a_corpus_embeds_nothing(place, opened):
    fill(opened("laptop"), THREE)
    ci = opened("ci")
    wanted = {scoped.chunk.text_hash for scoped in THREE}
    stored = ci.hashes(PROJECT, ORIGIN)
    assert stored.keys() == ids("a", "b", "c")
    assert {found.document for found in stored.values()} == {"intro"}
    assert {found.text_hash for found in stored.values()} == wanted
    assert not any(found.content_hash for found in stored.values())
    assert ci.missing(MODEL, wanted | {"0" * 64}) == {"0" * 64}
    ci.publish(PROJECT, ORIGIN, MODEL, THREE, [])
    ci.seal(MODEL, DIMENSION)
    place.proxy.names()
    assert ci.is_current()
    assert writes(place.proxy.names()) == (0, 0)
    found = ci.vectors(MODEL, wanted)
    for scoped in THREE:
        ours = memoryview(found[scoped.chunk.text_hash]).cast("f").tolist()
        assert ours == pytest.approx(
            memoryview(vector(scoped.chunk.text)).cast("f").tolist(), abs=1e-6
        )


def test_a_machine_without_a_corpus_prunes_and_withdraws(place, opened):
    fill(opened("laptop"), [*THREE, chunk("s", "secret", document="plan")])
    ci = opened("ci")
    going = ci.hashes(PROJECT, ORIGIN, ["plan"])
    assert going.keys() == {"guide/plan#s"}
    assert ci.vectors(MODEL, [going["guide/plan#s"].text_hash])
    ci.withdraw(PROJECT, list(going))
    assert place.records().keys() == ids("a", "b", "c")
    ci.missing(MODEL, [s.chunk.text_hash for s in THREE])
    ci.publish(PROJECT, ORIGIN, MODEL, THREE[:2], list(ids("c")))
    ci.seal(MODEL, DIMENSION)
    assert not ci.is_current()
    ci.refresh_index()
    assert place.records().keys() == ids("a", "b")


def test_a_machine_that_emptied_its_documents_empties_the_server(place, opened):
    fill(opened("laptop"), THREE)
    ci = opened("ci")
    ci.publish(PROJECT, ORIGIN, MODEL, [], list(ci.hashes(PROJECT, ORIGIN)))
    ci.seal(MODEL, DIMENSION)
    ci.refresh_index()
    assert place.records() == {}


def test_hashes_of_texts_that_the_server_lacks_are_not_told_to_it(place, opened):
    fill(opened("laptop"), THREE)
    ci = opened("ci")
    ci.hashes(PROJECT, ORIGIN)
    place.proxy.seen.clear()
    private = "d" * 64
    assert ci.vectors(MODEL, [private]) == {}
    assert not any(private.encode() in seen.body for seen in place.proxy.seen)


def test_vectors_of_another_model_are_not_adopted(place, opened):
    fill(opened("laptop"), THREE)
    wanted = {scoped.chunk.text_hash for scoped in THREE}
    assert opened("ci").missing(OTHER_MODEL, wanted) == wanted


def test_two_models_do_not_meet_in_one_collection(place, opened):
    fill(opened("one"), THREE)
    two = opened("two")
    with pytest.raises(ParityError, match="guide"):
        two.check_identity("tour", OTHER_MODEL)
    opened("one").check_identity(PROJECT, OTHER_MODEL)
    publish(two, [chunk("a", "other", project="tour")], project="tour", model=OTHER_MODEL)
    two.seal(OTHER_MODEL, DIMENSION)
    with pytest.raises(ParityError, match="guide"):
        two.refresh_index()
    assert place.records().keys() == ids("a", "b", "c")
    assert opened("one").is_current()


def test_another_model_replaces_the_whole_collection(place, opened):
    fill(opened(), THREE)
    before = place.raw("GET", f"/{COLLECTION}")["id"]
    store = opened()
    fill(store, THREE, model=OTHER_MODEL)
    head = place.raw("GET", f"/{COLLECTION}")
    assert head["id"] != before
    assert head["metadata"]["fingerprint"] == OTHER_MODEL
    embedding = place.records()["guide/intro#a"][2]
    wanted = memoryview(vector("one", model=OTHER_MODEL)).cast("f").tolist()
    assert embedding == pytest.approx(wanted, abs=1e-6)
    assert {found["name"] for found in place.raw("GET", "")} == {
        COLLECTION,
        f"{COLLECTION}_manifest",
    }
    assert opened().is_current()


def test_metadata_that_is_not_ours_goes_with_the_next_upsert(place, opened):
    fill(opened(), THREE)
    found = place.raw("GET", f"/{COLLECTION}")["id"]
    place.raw(
        "POST",
        f"/{found}/update",
        {
            "ids": ["guide/intro#a"],
            "metadatas": [{"stale": "yes", "content_hash": "0", "project": "guide"}],
        },
    )
    place.raw("POST", f"/{found}/delete", {"ids": ["guide/intro#b"]})
    opened().refresh_index()
    records = place.records()
    assert "stale" not in records["guide/intro#a"][1]
    assert records["guide/intro#a"][1]["content_hash"] == THREE[0].content_hash


def test_records_of_ours_that_name_no_origin_are_pruned(place, opened):
    """As another program, or somebody by hand, would have put them there."""
    fill(opened(), THREE)
    found = place.raw("GET", f"/{COLLECTION}")["id"]
    place.raw(
        "POST",
        f"/{found}/upsert",
        {
            "ids": ["guide/old#x"],
            "embeddings": [[1.0] * 8],
            "metadatas": [{"project": "guide"}],
        },
    )
    fill(opened(), [chunk("a", "one again")])
    place.raw("POST", f"/{found}/delete", {"ids": ["guide/intro#b", "guide/intro#c"]})
    opened().refresh_index()
    assert place.records().keys() == ids("a", "b", "c")


def test_a_private_chunk_is_not_sent(place, opened, tmp_path):
    """Not even when the corpus itself was tampered with."""
    store = opened()
    publish(store, THREE)
    store.seal(MODEL, DIMENSION)
    with contextlib.closing(sqlite3.connect(tmp_path / "one" / "corpus.sqlite3")) as database:
        database.execute("UPDATE chunks SET scope = 'LOCAL_PRIVATE' WHERE id = 'guide/intro#b'")
        database.commit()
    with pytest.raises(ScopeViolationError):
        store.refresh_index()
    assert place.records() == {}


def test_a_collection_of_the_other_scope_is_refused(place, opened):
    fill(opened("one"), THREE)
    private = opened("two", Scope.LOCAL_PRIVATE)
    save(private, [chunk("p", "mine", scope=Scope.LOCAL_PRIVATE)])
    publish(private, [chunk("p", "mine", scope=Scope.LOCAL_PRIVATE)])
    private.seal(MODEL, DIMENSION)
    with pytest.raises(ConfigError, match="holds SHARED_ORG chunks"):
        private.refresh_index()
    assert place.records().keys() == ids("a", "b", "c")


def test_a_collection_of_another_measure_is_refused(place, opened):
    place.server.ask("POST", "/api/v2/tenants", {"name": "acme"})
    place.server.ask("POST", "/api/v2/tenants/acme/databases", {"name": place.database})
    place.raw("POST", "", {"name": COLLECTION, "metadata": {"fingerprint": MODEL}})
    store = opened()
    publish(store, THREE)
    store.seal(MODEL, DIMENSION)
    with pytest.raises(ParityError, match="measured by l2"):
        store.refresh_index()


def test_a_run_that_another_one_crossed_compares_again(place, opened, monkeypatch):
    """The other run writes between our first upsert and our end."""
    fill(opened("one"), THREE)
    other = opened("two")
    save(other, THREE)
    other.publish(PROJECT, ORIGIN, MODEL, [*THREE[:2]], [])
    publish(other, [chunk("z", "crossing")])
    other.seal(MODEL, DIMENSION)
    store = opened("one")
    publish(store, [chunk("d", "four")])
    store.seal(MODEL, DIMENSION)
    crossed = []

    def judge(seen):
        if seen.name == "POST upsert" and b"four" in seen.body and not crossed:
            crossed.append(True)
            place.proxy.judge = lambda _: None
            other.refresh_index()

    place.proxy.judge = judge
    store.refresh_index()
    assert crossed
    assert place.records().keys() == ids("a", "b", "c", "d")
    assert opened("one").is_current()
    assert not opened("two").is_current()


def test_runs_that_never_stop_crossing_are_given_up(place, opened, monkeypatch):
    fill(opened(), THREE)
    store = opened()
    publish(store, [chunk("d", "four")])
    store.seal(MODEL, DIMENSION)
    monkeypatch.setattr(
        "doxtr_rag.storage.remote.manifest.ManifestCollection.is_held", lambda *_: False
    )
    with pytest.raises(Exception, match="another run keeps writing"):
        store.refresh_index()


def test_rebuild_leaves_deleted_text_behind_in_another_collection(place, opened):
    fill(opened(), THREE)
    before = place.raw("GET", f"/{COLLECTION}")["id"]
    assert opened().rebuild() is True
    assert place.raw("GET", f"/{COLLECTION}")["id"] != before
    assert place.records().keys() == ids("a", "b", "c")
    assert opened().is_current()


def test_rebuild_beside_another_project_sends_everything_again(place, opened):
    fill(opened("one"), THREE)
    fill(opened("two"), [chunk("a", "other", project="tour")], project="tour")
    before = place.raw("GET", f"/{COLLECTION}")["id"]
    place.proxy.names()
    assert opened("one").rebuild() is False
    assert place.raw("GET", f"/{COLLECTION}")["id"] == before
    assert place.records().keys() == ids("a", "b", "c") | {"tour/intro#a"}
    assert opened("one").is_current()


@pytest.mark.parametrize(
    "left", [[remote_index.NEXT], [remote_index.OLD], [remote_index.NEXT, remote_index.OLD]]
)
def test_a_replacement_that_was_interrupted_is_done_again(place, opened, left):
    fill(opened(), THREE)
    for suffix in left:
        place.raw("POST", "", {"name": COLLECTION + suffix})
    place.raw("DELETE", f"/{COLLECTION}")
    opened().refresh_index()
    names = {found["name"] for found in place.raw("GET", "")}
    assert names == {COLLECTION, f"{COLLECTION}_manifest"}
    assert place.records().keys() == ids("a", "b", "c")


def test_another_address_is_filled_and_the_old_one_not_counted_on(place, opened):
    fill(opened(), THREE)
    moved = opened(collection="tiny_9")
    assert not moved.is_current()
    moved.refresh_index()
    assert place.records("tiny_9").keys() == ids("a", "b", "c")


def test_text_that_could_not_be_withdrawn_from_an_old_address_is_remembered(place, opened):
    store = opened()
    fill(store, THREE)
    assert not store.left_behind
    place.proxy.judge = fail_times(99, Fault(503))
    with pytest.raises(StoreUnreachableError):
        store.withdraw(PROJECT, ["guide/intro#b"])
    place.proxy.judge = lambda _: None
    assert opened(collection="tiny_9").left_behind.endswith("/tiny_8)")


def test_an_older_copy_of_the_server_is_noticed(tmp_path, monkeypatch):
    """The server's folder is put back to what it was some runs ago."""
    import shutil  # noqa: PLC0415 - this test alone

    def store():
        address = RemoteAddress.of_uri(
            server.uri, tenant="default_tenant", database="doxtr_shared", collection=COLLECTION
        )
        return RemoteStore(tmp_path / "m", Scope.SHARED_ORG, "shared", address, RemoteAccess("V"))

    server = ChromaServer(tmp_path / "chroma").start()
    try:
        with store() as first:
            fill(first, THREE)
        server.stop()
        shutil.copytree(tmp_path / "chroma", tmp_path / "backup")
        server.start()
        with store() as second:
            fill(second, [chunk("d", "four"), chunk("a", "one again")], ["guide/intro#b"])
        server.stop()
        shutil.rmtree(tmp_path / "chroma")
        shutil.copytree(tmp_path / "backup", tmp_path / "chroma")
        server.start()
        with store() as third:
            assert not third.is_current()
            third.refresh_index()
            assert third.is_current()
        head = server.ask("GET", f"{FOLDER}/{COLLECTION}")
        said = server.ask("POST", f"{FOLDER}/{head['id']}/get", {})
        assert dict(zip(said["ids"], said["documents"], strict=True)) == {
            "guide/intro#a": "one again",
            "guide/intro#c": "three",
            "guide/intro#d": "four",
        }
    finally:
        server.stop()
