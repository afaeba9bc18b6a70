"""The routes of a server behind its gate: what is answered, and what is refused."""

import base64
import json
import math
import re
import struct

import pytest
from starlette.testclient import TestClient
from store_samples import DIMENSION, MODEL, chunk, fill, vector

from doxtr_rag.core.errors import WeightsMissingError
from doxtr_rag.core.scope import Scope
from doxtr_rag.servers.app import Threads, api_app, chroma_app, embedding_app
from doxtr_rag.servers.chroma_api import ChromaRoutes, CollectionNames
from doxtr_rag.servers.gate import MAX_BODY, Gate
from doxtr_rag.servers.identity import make_nonce, make_token, proof
from doxtr_rag.servers.model import ModelHost, ModelNames
from doxtr_rag.servers.stores import OpenStore, ServedStore, StoreHealth
from doxtr_rag.storage import CollectionView, corpus_stamp, open_reader, open_store, stats
from doxtr_rag.testing import HashEmbedder

API, SHARED = 8789, 8787
TOKEN = make_token()
NAMES = CollectionNames("default_tenant", "doxtr_shared", "tiny_8")
COLLECTIONS = "/api/v2/tenants/default_tenant/databases/doxtr_shared/collections"


def served(folder):
    def opened():
        reader = open_reader(folder, Scope.SHARED_ORG, "shared")
        return OpenStore(reader, CollectionView(reader), reader.close)

    def look():
        found = stats(folder)
        return StoreHealth(found.index, "", found.documents, found.chunks, found.fingerprint)

    return ServedStore(
        "shared",
        Scope.SHARED_ORG,
        open_store=opened,
        stamp=lambda: corpus_stamp(folder),
        look=look,
    )


def model_host(load=None):
    names = ModelNames("tiny", "tiny-model", DIMENSION, MODEL)
    make = load or (lambda: lambda: HashEmbedder(DIMENSION, fingerprint=MODEL))
    return ModelHost(names, make)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def filled(folder):
    chunks = [
        chunk("a", "red apples", document="fruit"),
        chunk("b", "green apples", document="fruit"),
        chunk("c", "green peas", document="pods"),
    ]
    with open_store(folder, Scope.SHARED_ORG, "shared") as store:
        fill(store, chunks)
    return folder


@pytest.fixture
def gate(folder):
    threads, store, host = Threads(), served(folder), model_host()
    api = api_app(
        host,
        {"shared": store},
        page_of=lambda chunk: f"file:///pages/{chunk.url}",
        health=lambda: {"stores": store.health().state, "model": host.state()[0]},
        threads=threads,
    )
    apps = {API: api, SHARED: chroma_app(ChromaRoutes(store, NAMES), threads)}
    yield Gate(apps, kb_id="kb", token=TOKEN)
    threads.close()
    store.close()


def client(gate, port=API, token=TOKEN):
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return TestClient(gate, base_url=f"http://127.0.0.1:{port}", headers=headers)


@pytest.fixture
def api(gate):
    return client(gate)


@pytest.fixture
def chroma(gate):
    return client(gate, SHARED)


def question(text="green peas", **changes):
    packed = base64.b64encode(vector(text)).decode()
    return {"query": text, "vector": packed, "fingerprint": MODEL, "size": 5, "best": 2} | changes


def packed(number):
    return base64.b64encode(struct.pack(f"<{DIMENSION}f", *[number] * DIMENSION)).decode()


# --- the gate


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], f"{TOKEN} ", "ü" * 64])
def test_without_the_token_nothing_is_told(gate, token):
    headers = {} if token is None else {"authorization": f"Bearer {token}".encode()}
    asked = TestClient(gate, base_url=f"http://127.0.0.1:{API}").get("/health", headers=headers)
    if token == f"{TOKEN} ":
        assert asked.status_code == 200
        return
    assert asked.status_code == 401
    assert asked.json()["error"] == "unauthorized"
    assert TOKEN not in asked.text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("localhost", 200),
        ("[::1]:8789", 200),
        ("LOCALHOST:8789", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example:8789", 403),
        ("", 403),
    ],
)
def test_only_loopback_names_are_answered(api, host, status):
    assert api.get("/health", headers={"host": host}).status_code == status


def test_of_two_hosts_none_is_believed(api):
    hosts = [("host", "evil.example"), ("host", "127.0.0.1")]
    assert api.get("/health", headers=hosts).status_code == 403


@pytest.mark.parametrize("nonce", ["", "abc", "g" * 64, "A" * 64, "a" * 65])
def test_a_proof_is_given_for_proper_nonces_alone(api, nonce):
    assert api.get(f"/identity?nonce={nonce}").status_code == 400


def test_the_proof_needs_no_token_and_names_the_port(gate):
    for port in (API, SHARED):
        nonce = make_nonce()
        said = client(gate, port, token=None).get(f"/identity?nonce={nonce}").json()
        assert said["proof"] == proof(TOKEN, "kb", port, nonce)
        assert TOKEN not in json.dumps(said)


def test_no_page_of_another_site_may_read_an_answer(api):
    asked = api.options("/health", headers={"origin": "https://evil.example"})
    assert not [name for name in asked.headers if name.startswith("access-control")]


def test_a_body_has_a_limit_whatever_it_claims(api):
    assert api.post("/embed", content=b"x" * (MAX_BODY + 1)).status_code == 413
    parts = (b"x" * 1_000_000 for _ in range(9))
    assert api.post("/embed", content=parts).status_code == 413
    assert api.get("/health").status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b'{"input": NaN}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"input": 1e999}',
    ],
)
def test_what_is_no_json_object_is_refused(api, body):
    asked = api.post("/embed", content=body)
    assert asked.status_code == 400
    assert asked.json()["error"] in {"bad_json", "bad_input"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/health/", 404),
        ("POST", "/search/shared/", 404),
        ("POST", "//search/shared", 404),
        ("GET", "/embed", 405),
        ("POST", "/health", 405),
    ],
)
def test_unknown_routes_and_methods_are_named(api, method, path, status):
    asked = api.request(method, path, follow_redirects=False)
    assert asked.status_code == status
    assert set(asked.json()) == {"error", "message"}


def test_what_nobody_foresaw_is_answered_without_its_words():
    def health():
        raise ZeroDivisionError("SECRET WORDS")

    threads = Threads()
    app = embedding_app(model_host(), health=health, threads=threads)
    asking = TestClient(
        Gate({API: app}, kb_id="", token=None),
        base_url=f"http://127.0.0.1:{API}",
        raise_server_exceptions=False,
    )
    asked = asking.get("/health")
    assert (asked.status_code, asked.json()["error"]) == (500, "failed")
    assert "SECRET" not in asked.text
    threads.close()


# --- /embed


def test_a_single_text_has_its_vector_at_the_top(api):
    said = api.post("/embed", json={"input": "apples", "model": "tiny"}).json()
    assert said["embedding"] == said["data"][0]["embedding"]
    assert len(said["embedding"]) == DIMENSION == said["dimension"]
    assert (said["model"], said["fingerprint"]) == ("tiny", MODEL)


def test_base64_holds_the_same_numbers_in_the_order_asked(api):
    texts = ["apples", "a longer text about peas", "apples"]
    body = {"input": texts, "encoding_format": "base64", "input_type": "passage"}
    said = api.post("/embed", json=body).json()
    vectors = [base64.b64decode(entry["embedding"]) for entry in said["data"]]
    embedder = HashEmbedder(DIMENSION, fingerprint=MODEL)
    assert vectors == [embedder.embed_query(text) for text in texts]
    assert "embedding" not in said
    assert said["usage"]["prompt_tokens"] > 0


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({}, 400, "bad_input"),
        ({"input": ""}, 400, "bad_input"),
        ({"input": " \n"}, 400, "bad_input"),
        ({"input": []}, 400, "bad_input"),
        ({"input": ["a", 1]}, 400, "bad_input"),
        ({"input": {"a": 1}}, 400, "bad_input"),
        ({"input": "a", "model": "gpt"}, 404, "unknown_model"),
        ({"input": "a", "model": ["tiny"]}, 404, "unknown_model"),
        ({"input": "a", "encoding_format": "hex"}, 400, "bad_input"),
        ({"input": "a", "input_type": []}, 400, "bad_input"),
        ({"input": ["a"] * 257}, 413, "too_many_texts"),
        ({"input": "a" * 2_000_001}, 413, "too_many_texts"),
    ],
)
def test_bad_inputs_of_embed(api, body, status, kind):
    asked = api.post("/embed", json=body)
    assert (asked.status_code, asked.json()["error"]) == (status, kind)


@pytest.mark.parametrize("text", ["nul \0 byte", "lone \ud800 surrogate", "x" * 100_000])
def test_odd_texts_are_embedded(api, text):
    body = json.dumps({"input": text})
    assert api.post("/embed", content=body).status_code == 200


def test_a_model_that_cannot_load_says_so_and_is_tried_again(monkeypatch):
    answers = [WeightsMissingError("run doxtr-rag fetch-weights")]

    def load():
        if answers:
            raise answers.pop()
        return lambda: HashEmbedder(DIMENSION)

    host, threads = model_host(load), Threads()
    app = embedding_app(host, health=lambda: {"model": host.state()}, threads=threads)
    asking = client(Gate({API: app}, kb_id="", token=None), token=None)
    refused = asking.post("/embed", json={"input": "a"})
    assert (refused.status_code, refused.json()["error"]) == (503, "weights_missing")
    assert asking.get("/health").json()["model"][0] == "failed"
    assert asking.post("/embed", json={"input": "a"}).status_code == 503
    monkeypatch.setattr("doxtr_rag.servers.model.RETRY_S", 0.0)
    assert asking.post("/embed", json={"input": "a"}).status_code == 200
    threads.close()


# --- /search, /chunks, /document


def test_a_search_returns_pools_and_the_texts_of_the_best(filled, api):
    said = api.post("/search/shared", json=question()).json()
    assert [pool["pool"] for pool in said["pools"]] == ["dense", "lexical"]
    best = said["pools"][1]["hits"][0][0]
    assert best == "guide/pods#c"
    assert said["chunks"][best]["text"] == "green peas"
    assert said["chunks"][best]["page"].startswith("file:///pages/")
    assert said["scope"] == "SHARED_ORG"


def test_chunks_and_documents_are_read(filled, api):
    found = api.post("/chunks/shared", json={"ids": ["guide/pods#c", "unknown"]}).json()
    assert list(found["chunks"]) == ["guide/pods#c"]
    whole = api.post("/document/shared", json={"document": "fruit"}).json()
    assert [c["anchor"] for c in whole["chunks"]] == ["a", "b"]
    near = api.post("/document/shared", json={"document": "fruits"}).json()
    assert (near["chunks"], near["near"]) == ([], ["fruit"])


@pytest.mark.parametrize(
    ("changes", "status", "kind"),
    [
        ({"size": 0}, 400, "bad_input"),
        ({"size": -1}, 400, "bad_input"),
        ({"size": 10**9}, 400, "bad_input"),
        ({"size": True}, 400, "bad_input"),
        ({"size": "5"}, 400, "bad_input"),
        ({"best": 0}, 400, "bad_input"),
        ({"query": None}, 400, "bad_input"),
        ({"vector": "???"}, 400, "bad_input"),
        ({"vector": ""}, 400, "wrong_dimension"),
        ({"vector": base64.b64encode(b"\0" * 36).decode()}, 400, "wrong_dimension"),
        ({"vector": packed(math.nan)}, 400, "bad_input"),
        ({"vector": packed(-math.inf)}, 400, "bad_input"),
        ({"vector": packed(3e38)}, 400, "bad_input"),
        ({"fingerprint": "other"}, 409, "identity_mismatch"),
        ({"documents": 3}, 400, "bad_input"),
    ],
)
def test_bad_questions(filled, api, changes, status, kind):
    asked = api.post("/search/shared", json=question() | changes)
    assert (asked.status_code, asked.json()["error"]) == (status, kind)
    assert api.post("/search/shared", json=question()).status_code == 200


@pytest.mark.parametrize("query", ["", "\0", "\ud800", 'a" OR "b', "x" * 100_000])
def test_odd_questions_are_answered(filled, api, query):
    body = json.dumps(question() | {"query": query})
    assert api.post("/search/shared", content=body).status_code == 200


def test_a_store_that_was_never_filled_is_found_once_it_is(api, folder):
    asked = api.post("/search/shared", json=question())
    assert (asked.status_code, asked.json()["error"]) == (404, "index_not_built")
    assert api.post("/search/other", json=question()).json()["error"] == "unknown_store"
    with open_store(folder, Scope.SHARED_ORG, "shared") as store:
        fill(store, [chunk("c", "green peas", document="pods")])
    assert api.post("/search/shared", json=question()).status_code == 200
    assert api.get("/health").json()["stores"] == "ready"


def test_a_store_in_the_place_of_another_is_noticed(filled, api, folder, tmp_path):
    assert api.post("/search/shared", json=question()).status_code == 200
    folder.rename(tmp_path / "old")
    with open_store(folder, Scope.SHARED_ORG, "shared") as store:
        fill(store, [chunk("z", "green peas at last", document="fresh")])
    said = api.post("/search/shared", json=question()).json()
    assert list(said["chunks"]) == ["guide/fresh#z"]


def test_a_filter_reaches_the_store(filled, api):
    said = api.post("/search/shared", json=question(documents="fruit")).json()
    assert {hit[0] for pool in said["pools"] for hit in pool["hits"]} == {
        "guide/fruit#a",
        "guide/fruit#b",
    }


# --- Chroma


def collection_id(chroma):
    return chroma.get(f"{COLLECTIONS}/tiny_8").json()["id"]


def test_the_tree_of_chroma_leads_to_the_one_collection(filled, chroma):
    assert chroma.get("/api/v2/heartbeat").json()["nanosecond heartbeat"] > 0
    assert chroma.get("/api/v2/auth/identity").json()["databases"] == ["doxtr_shared"]
    assert chroma.get("/api/v2/tenants/default_tenant").status_code == 200
    assert chroma.get("/api/v2/tenants/other").status_code == 404
    assert chroma.get("/api/v2/tenants/default_tenant/databases/doxtr_private").status_code == 404
    assert chroma.get(COLLECTIONS).json()[0]["name"] == "tiny_8"
    assert chroma.get(f"{COLLECTIONS}_count").json() == 1
    found = collection_id(chroma)
    assert chroma.get(f"{COLLECTIONS}/by-id/{found}").json()["dimension"] == DIMENSION
    assert chroma.get(f"{COLLECTIONS}/other").json()["error"] == "NotFoundError"
    assert chroma.get(f"{COLLECTIONS}/{found}/count").json() == 3
    assert chroma.get(f"{COLLECTIONS}/tiny_8/count").status_code == 404


@pytest.mark.parametrize(
    ("page", "count"),
    [("", 1), ("?limit=100&offset=0", 1), ("?offset=1", 0), ("?limit=0", 0)],
)
def test_whoever_pages_through_the_collections_comes_to_an_end(filled, chroma, page, count):
    assert len(chroma.get(f"{COLLECTIONS}{page}").json()) == count


@pytest.mark.parametrize("page", ["?limit=x", "?offset=-1", "?limit=" + "9" * 5000])
def test_a_page_is_a_number(filled, chroma, page):
    assert chroma.get(f"{COLLECTIONS}{page}").status_code == 400


def get(chroma, **body):
    return chroma.post(f"{COLLECTIONS}/{collection_id(chroma)}/get", json=body)


def query(chroma, **body):
    asked = {"query_embeddings": [list(map(float, memoryview(vector("green peas")).cast("f")))]}
    return chroma.post(f"{COLLECTIONS}/{collection_id(chroma)}/query", json=asked | body)


ALL = ["guide/fruit#a", "guide/fruit#b", "guide/pods#c"]


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        ({}, ALL),
        ({"ids": ["guide/pods#c", "nope", "guide/fruit#a"]}, ["guide/pods#c", "guide/fruit#a"]),
        ({"limit": 1, "offset": 1}, ["guide/fruit#b"]),
        ({"limit": 0}, []),
        ({"where": {"source_file": "pods.rst"}}, ["guide/pods#c"]),
        ({"where": {"source_file": {"$ne": "pods.rst"}}}, ALL[:2]),
        ({"where": {"source_file": {"$in": ["pods.rst", "x"]}}}, ["guide/pods#c"]),
        ({"where": {"source_file": {"$nin": ["pods.rst"]}}}, ALL[:2]),
        ({"where": {"$and": [{"project": "guide"}, {"section_title": "About a"}]}}, ALL[:1]),
        ({"where": {"$or": [{"section_title": "About a"}, {"section_title": "About c"}]}},
         ["guide/fruit#a", "guide/pods#c"]),
        ({"where": {"project": {"$gt": 3}}}, []),
        ({"where_document": {"$contains": "green"}}, ALL[1:]),
        ({"where_document": {"$not_contains": "green"}}, ALL[:1]),
        ({"where_document": {"$or": [{"$contains": "red"}, {"$contains": "peas"}]}},
         ["guide/fruit#a", "guide/pods#c"]),
    ],
)  # fmt: skip
def test_records_are_got_by_ids_pages_and_filters(filled, chroma, body, ids):
    assert get(chroma, **body).json()["ids"] == ids


def test_records_are_never_left_out_unsaid(filled, chroma, monkeypatch):
    monkeypatch.setattr("doxtr_rag.servers.chroma_api.MAX_RECORDS", 2)
    asked = get(chroma)
    assert (asked.status_code, asked.json()["error"]) == (400, "InvalidArgumentError")
    assert "limit and offset" in asked.json()["message"]
    pages = [get(chroma, limit=2, offset=offset).json()["ids"] for offset in (0, 2, 4)]
    assert pages == [ALL[:2], ALL[2:], []]
    assert get(chroma, offset=1).json()["ids"] == ALL[1:]


def test_no_ids_are_no_records(filled, chroma):
    assert get(chroma, ids=[]).json()["ids"] == []
    assert query(chroma, ids=[]).json()["ids"] == [[]]


def test_a_record_has_the_fields_of_the_interface(filled, chroma):
    said = get(chroma, ids=["guide/pods#c"], include=["documents", "metadatas", "embeddings"])
    found = said.json()
    assert found["documents"] == ["green peas"]
    assert set(found["metadatas"][0]) == {
        "source_file", "section_title", "breadcrumb", "access_scope", "content_hash",
        "provenance", "project", "url", "text_hash",
    }  # fmt: skip
    assert json.loads(found["metadatas"][0]["provenance"])["kind"] == "line"
    assert found["embeddings"][0] == pytest.approx(list(memoryview(vector("green peas")).cast("f")))


def test_the_nearest_come_first_with_their_distance(filled, chroma):
    said = query(chroma, n_results=2, include=["distances", "documents"]).json()
    assert said["documents"][0][0] == "green peas"
    assert said["distances"][0][0] == pytest.approx(0, abs=1e-6)
    assert said["distances"][0] == sorted(said["distances"][0])
    assert said["metadatas"] is None
    filtered = query(chroma, where={"source_file": "fruit.rst"}, n_results=10).json()
    assert set(filtered["ids"][0]) == set(ALL[:2])
    assert query(chroma, where={"project": "other"}).json()["ids"] == [[]]


@pytest.mark.parametrize(
    "body",
    [
        {"query_embeddings": []},
        {"query_embeddings": [[1.0]]},
        {"query_embeddings": ["text"]},
        {"query_embeddings": [[1e39] * DIMENSION]},
        {"query_embeddings": [[True] * DIMENSION]},
        {"n_results": 0},
        {"n_results": 10**9},
        {"include": ["secrets"]},
        {"where": {}},
        {"where": 0},
        {"where": []},
        {"where_document": {}},
        {"where_document": {"$contains": ""}},
        {"where_document": {"$regex": "(a+)+$"}},
        {"query_embeddings": [[3e38] * DIMENSION]},
        {"where": {"a": 1, "b": 2}},
        {"where": {"a": {"$like": "x"}}},
        {"where": {"a": {"$gt": "x"}}},
        {"where": {"a": None}},
        {"where": {"$and": [{"a": 1}]}},
        {"where": {"a": {"$in": []}}},
        {"where": [1]},
        {"where_document": {"$like": "x"}},
    ],
)
def test_bad_queries_are_refused(filled, chroma, body):
    assert query(chroma, **body).status_code == 400
    assert query(chroma).status_code == 200


def test_filters_have_a_depth(filled, chroma):
    where = {"a": 1}
    for _ in range(20):
        where = {"$and": [where, {"b": 2}]}
    assert query(chroma, where=where).status_code == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", COLLECTIONS),
        ("PUT", f"{COLLECTIONS}/x"),
        ("DELETE", f"{COLLECTIONS}/tiny_8"),
        *[("POST", f"{COLLECTIONS}/x/{verb}") for verb in ("add", "upsert", "update", "delete")],
        ("POST", "/api/v2/tenants"),
        ("POST", "/api/v2/tenants/default_tenant/databases"),
        ("POST", "/api/v2/reset"),
        ("DELETE", "/api/v2/tenants/default_tenant"),
        ("PATCH", "/anything"),
    ],
)
def test_whatever_changes_something_is_refused(filled, chroma, method, path):
    asked = chroma.request(method, path, json={})
    assert asked.status_code == 405
    assert asked.json()["error"] == "read_only"
    assert get(chroma).json()["ids"] == ALL


def test_answers_say_nothing_of_files_or_tracebacks(filled, api):
    bad = [api.post("/embed", content=b"{"), api.get("/nowhere"), api.post("/search/x", json={})]
    for asked in bad:
        assert not re.search(r"Traceback|\.py|/tmp", asked.text)
