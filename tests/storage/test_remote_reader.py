"""Asking a store on a Chroma server: in the order of exact search, and as the Pi extension does."""

from __future__ import annotations

import dataclasses as dc
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from chroma_server import chroma_server, faulty_proxy
from store_samples import DIMENSION, MODEL, OTHER_MODEL, chunk, publish, vector

from doxtr_rag.core.documents import ScopedChunk
from doxtr_rag.core.errors import ConfigError, IndexNotBuiltError, ParityError
from doxtr_rag.core.identity import chunk_id
from doxtr_rag.core.ports import PoolRequest, SearchableStore
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import exact
from doxtr_rag.storage.remote.address import RemoteAccess, RemoteAddress
from doxtr_rag.storage.remote.reader import RemoteReader
from doxtr_rag.storage.remote.reading import chunk_place
from doxtr_rag.storage.remote.store import RemoteStore

EXTENSION = Path(__file__).parents[2] / "doxtr_rag" / "pi_extension"
SUPPORT = Path(__file__).parents[1] / "support"
ACCESS = RemoteAccess("DOXTR_RAG_SHARED_STORE_HEADERS")
CROWD = [
    chunk(f"n{at:03}", f"text {at}", document=f"{'crowd' if at % 9 else 'lonely'}/{at % 5}")
    for at in range(400)
]
BARE = {"source_file": "memo.txt", "breadcrumb": "no json", "provenance": '["page", 4, null]'}


def address(uri, collection="tiny_8", database="doxtr_shared"):
    return RemoteAddress.of_uri(
        uri, tenant="default_tenant", database=database, collection=collection
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with a store of ours, and two records that another program put into it."""
    with chroma_server(tmp_path_factory.mktemp("chroma")) as running:
        with RemoteStore(
            tmp_path_factory.mktemp("m"), Scope.SHARED_ORG, "shared", address(running.uri), ACCESS
        ) as store:
            publish(store, CROWD)
            store.seal(MODEL, DIMENSION)
            store.refresh_index()
        folder = f"{address(running.uri).database_path}/collections"
        found = running.ask("GET", f"{folder}/tiny_8")["id"]
        bare = {
            "ids": ["memo", "tour/x%23y#a~2"],
            "embeddings": [memoryview(vector(text)).cast("f").tolist() for text in ("m", "n")],
            "documents": ["A memo.", "A tour."],
            "metadatas": [BARE, {"project": "tour", "access_scope": "LOCAL_PRIVATE"}],
        }
        running.ask("POST", f"{folder}/{found}/upsert", bare)
        yield running


@pytest.fixture
def reader(server):
    with RemoteReader(Scope.SHARED_ORG, "shared", address(server.uri), ACCESS) as opened:
        yield opened


def request(text, **changes):
    return dc.replace(PoolRequest(text, vector(text), MODEL, size=50, best=10), **changes)


def exact_order(text, among=CROWD):
    block = [(s.chunk.chunk_id, vector(s.chunk.text)) for s in among]
    return [key for key, _ in exact.nearest([block], vector(text), len(block))]


def test_a_reader_is_a_searchable_store(reader):
    store: SearchableStore = reader
    assert (store.name, store.scope) == ("shared", Scope.SHARED_ORG)
    assert reader.fingerprint() == MODEL
    assert reader.count() == len(CROWD) + 2


@pytest.mark.parametrize("question", ["text 7", "text 200", "elsewhere", "anything"])
def test_the_nearest_are_those_of_exact_search(reader, question):
    found = reader.pools(request(question))
    ours = [hit.chunk_id for hit in found.rankings["dense"] if hit.chunk_id.startswith("guide/")]
    assert ours == exact_order(question)[: len(ours)]
    assert len(found.rankings["dense"]) == 50
    scores = [hit.score for hit in found.rankings["dense"]]
    assert scores == sorted(scores, reverse=True)
    assert found.chunks.keys() == {hit.chunk_id for hit in found.rankings["dense"]}
    assert not found.degraded


def test_the_score_is_the_cosine(reader):
    (hit,) = reader.dense(vector("text 7"), 1)
    assert (hit.chunk_id, hit.store) == (CROWD[7].chunk.chunk_id, "shared")
    assert hit.score == pytest.approx(1.0, abs=1e-6)


def test_a_filter_sifts_the_nearest(reader):
    found = reader.pools(request("text 9", documents="lonely/*"))
    lonely = [s for s in CROWD if s.chunk.document.startswith("lonely")]
    assert [hit.chunk_id for hit in found.rankings["dense"]] == exact_order("text 9", lonely)[:50]


def test_a_filter_that_lets_too_few_through_says_so(reader, monkeypatch):
    monkeypatch.setattr("doxtr_rag.storage.remote.reader.SIFTED_WINDOW", 20)
    found = reader.pools(request("text 9", documents="lonely", size=4, best=40))
    assert [each.code for each in found.degraded] == ["filter_truncated"]


def test_a_chunk_comes_back_as_it_was_stored(reader):
    wanted = CROWD[3].chunk
    (found,) = reader.fetch([wanted.chunk_id, "guide/unknown#x"]).values()
    for field in ("chunk_id", "project", "document", "anchor", "text", "breadcrumb", "url"):
        assert getattr(found, field) == getattr(wanted, field)
    assert (found.locator, found.text_hash) == (wanted.locator, wanted.text_hash)
    assert (found.scope, found.source_file) == (Scope.SHARED_ORG, wanted.source_file)
    assert found.content_hash == CROWD[3].content_hash


def test_fetch_keeps_the_order_asked_for(reader):
    wanted = [CROWD[at].chunk.chunk_id for at in (9, 3, 200)]
    assert list(reader.fetch(wanted)) == wanted
    assert reader.fetch([]) == {}


@pytest.mark.parametrize("name", ["crowd/1", "guide/crowd/1", "crowd/1.rst"])
def test_a_document_is_found_by_each_of_its_names(reader, name):
    found = reader.document(name).chunks
    assert {chunk.document for chunk in found} == {"crowd/1"}
    assert len(found) == sum(s.chunk.document == "crowd/1" for s in CROWD)


def test_a_document_is_in_reading_order_whatever_was_sent_last(server, tmp_path):
    place = address(server.uri, "order_8")
    parts = [dc.replace(chunk(f"p{at}", f"part {at}").chunk, position=at) for at in range(12)]
    scoped = [ScopedChunk(part, CROWD[0].decision) for part in parts]
    with RemoteStore(tmp_path, Scope.SHARED_ORG, "shared", place, ACCESS) as store:
        for some in (scoped[6:], scoped[:6]):
            publish(store, some)
            store.seal(MODEL, DIMENSION)
            store.refresh_index()
    with RemoteReader(Scope.SHARED_ORG, "shared", place, ACCESS) as reader:
        assert [c.chunk_id for c in reader.document("intro").chunks] == [
            part.chunk_id for part in parts
        ]


def test_records_of_other_programs_are_read_as_far_as_they_go(reader):
    memo, tour = reader.fetch(["memo", "tour/x%23y#a~2"]).values()
    assert (memo.document, memo.anchor, memo.project, memo.text) == ("memo", "", "", "A memo.")
    assert (memo.breadcrumb, memo.text_hash, str(memo.locator)) == ((), "memo", "page 4")
    assert (memo.scope, tour.scope) == (Scope.SHARED_ORG, Scope.LOCAL_PRIVATE)
    assert (tour.document, tour.anchor) == ("x#y", "a")
    assert reader.document("memo.txt").chunks == (memo,)


@pytest.mark.parametrize(
    ("document", "anchor"),
    [("a", ""), ("x#y", "b~c"), ("a%23", "%7E"), ("a%2523b", "100%"), ("/", "#")],
)
def test_a_place_is_what_the_chunk_id_was_made_of(document, anchor):
    assert chunk_place(chunk_id("guide", document, anchor, 3), "guide") == (document, anchor)


def test_a_question_of_another_model_is_refused(reader):
    with pytest.raises(ParityError, match="another model"):
        reader.pools(request("x", fingerprint=OTHER_MODEL))
    with pytest.raises(ParityError, match="4 dimensions, the shared store 8"):
        reader.pools(request("x", vector=vector("x", 4)))


def test_nothing_was_stored(server):
    with (
        RemoteReader(Scope.SHARED_ORG, "shared", address(server.uri, "none_8"), ACCESS) as reader,
        pytest.raises(IndexNotBuiltError, match="no collection none_8 in doxtr_shared"),
    ):
        reader.pools(request("x"))


def test_the_other_scope_is_refused(server):
    with (
        RemoteReader(Scope.LOCAL_PRIVATE, "private", address(server.uri), ACCESS) as reader,
        pytest.raises(ConfigError, match="holds SHARED_ORG chunks"),
    ):
        reader.pools(request("x"))


def test_a_question_takes_two_requests(server):
    with (
        faulty_proxy(server) as proxy,
        RemoteReader(Scope.SHARED_ORG, "shared", address(proxy.uri), ACCESS) as reader,
    ):
        reader.pools(request("text 1"))
        assert proxy.names() == ["GET tiny_8", "POST query"]


def test_a_reader_proves_that_everything_is_found(reader):
    reader.verify()
    assert reader.degradations() == []


def test_a_sample_is_an_input_that_is_proven(reader):
    found, text, numbers = reader.sample()
    (sampled,) = (s.chunk for s in CROWD if s.chunk.chunk_id == found)
    assert text == sampled.embedding_text
    wanted = memoryview(vector(sampled.text)).cast("f").tolist()
    assert memoryview(numbers).cast("f").tolist() == pytest.approx(wanted, abs=1e-6)


@pytest.fixture
def typescript(is_ci):
    if not (EXTENSION / "node_modules" / "vitest").is_dir():
        (pytest.fail if is_ci else pytest.skip)("the extension's tools are missing: make tstest")


@pytest.mark.usefixtures("typescript")
def test_the_extension_finds_the_same(server, reader, tmp_path):
    questions = [
        (text, filter_text, 5)
        for text in ("text 7", "m", "n", "elsewhere")
        for filter_text in ("", "lonely/*", "memo", "nothing")
    ]
    documents = ["crowd/1.rst", "memo.txt", "unknown"]
    place = reader.address
    asked, answers = tmp_path / "asked.json", tmp_path / "answers.json"
    asked.write_text(
        json.dumps(
            {
                "embedding": {"model": "tiny", "dimension": DIMENSION, "fingerprint": MODEL},
                "store": {
                    "name": "shared",
                    "scope": "SHARED_ORG",
                    "headerKeys": [],
                    "host": place.host,
                    "port": place.port,
                    "ssl": False,
                    "tenant": place.tenant,
                    "database": place.database,
                    "collection": place.collection,
                },
                "questions": [
                    {
                        "vector": memoryview(vector(text)).cast("f").tolist(),
                        "topK": top_k,
                        "documents": filter_text,
                    }
                    for text, filter_text, top_k in questions
                ],
                "documents": documents,
            }
        )
    )
    # Vitest leaves a cache beside the tests that it runs.
    shutil.copy(SUPPORT / "remote_answers.test.ts", tmp_path)
    variables = {
        "DOXTR_EXTENSION": str(EXTENSION),
        "DOXTR_ASK": str(asked),
        "DOXTR_ANSWERS": str(answers),
    }
    done = subprocess.run(
        [shutil.which("npx") or "npx", "vitest", "run", "--globals", "--root", str(tmp_path)],
        cwd=EXTENSION,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(answers.read_text())
    for (text, filter_text, top_k), theirs in zip(questions, said["pools"], strict=True):
        ours = reader.pools(
            request(text, documents=filter_text, size=max(50, 8 * top_k), best=2 * top_k)
        )
        (ranking,) = theirs["rankings"]
        assert [hit["chunkId"] for hit in ranking] == [h.chunk_id for h in ours.rankings["dense"]]
        assert [hit["textHash"] for hit in ranking] == [h.text_hash for h in ours.rankings["dense"]]
        assert theirs["chunks"] == [as_typescript(c) for c in ours.chunks.values()]
        assert theirs["degraded"] == [dc.asdict(each) for each in ours.degraded]
    for name, theirs in zip(documents, said["documents"], strict=True):
        assert theirs == [as_typescript(c) for c in reader.document(name).chunks]


def as_typescript(stored):
    locator = stored.locator
    return {
        "id": stored.chunk_id,
        "project": stored.project,
        "document": stored.document,
        "anchor": stored.anchor,
        "text": stored.text,
        "breadcrumb": list(stored.breadcrumb),
        "url": stored.url,
        "sourceFile": stored.source_file,
        "locator": None if locator is None else dc.asdict(locator),
        "scope": stored.scope.value,
        "textHash": stored.text_hash,
        "page": None,
    }
