"""The client of a running server: whom it tells what, and what it makes of odd answers."""

import base64
import json
import math
import socket
import struct
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from running_server import KB_ID, running_server
from store_samples import DIMENSION, MODEL, vector

from doxtr_rag.bootstrap.lending import LentEmbedder
from doxtr_rag.core.errors import DoxtrRagError, EmbeddingError, ParityError, ServerGoneError
from doxtr_rag.core.ports import PoolRequest
from doxtr_rag.core.scope import Scope
from doxtr_rag.servers.client import JsonClient, ServedEmbedder, ServedStore, prove
from doxtr_rag.servers.identity import make_token, proof
from doxtr_rag.testing import HashEmbedder


class Program:
    """Some program on a port: gives the same answer to everything and keeps what it heard."""

    def __init__(self, answer, status=200, port=0):
        self.heard = []
        program = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                """Say nothing."""

            def answer(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                program.heard.append(f"{self.requestline}\n{self.headers}\n{body!r}")
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST = answer  # noqa: N815 - the names it looks for

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@pytest.fixture
def client_of():
    clients = []

    def make(port):
        clients.append(JsonClient(f"http://127.0.0.1:{port}"))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def question(text="green peas", **changes):
    fields = {"query": text, "vector": vector(text), "fingerprint": MODEL, "size": 5, "best": 2}
    return PoolRequest(**fields | changes)


def test_a_proven_server_is_asked(running, client_of):
    client = client_of(running.api_port)
    assert prove(client, KB_ID, running.token)
    store = ServedStore(client, "shared", Scope.SHARED_ORG)
    pools = store.pools(question())
    assert pools.rankings["lexical"][0].chunk_id == "guide/pods#c"
    assert store.fetch(["guide/pods#c"])["guide/pods#c"].text == "green peas"
    assert [chunk.anchor for chunk in store.document("fruit").chunks] == ["a", "b"]
    with pytest.raises(ParityError):
        store.pools(question(fingerprint="e" * 64))


@pytest.mark.parametrize("text", ["\udcff", "\0", "日本\U0001f600", '"\\'])
def test_any_text_may_be_asked(running, client_of, text):
    client = client_of(running.api_port)
    prove(client, KB_ID, running.token)
    store = ServedStore(client, "shared", Scope.SHARED_ORG)
    asked = question("x", query=text)
    assert store.pools(asked).rankings["dense"]
    assert store.pools(question("x", documents=text)).rankings["dense"] == ()
    assert store.document(text).chunks == ()
    assert store.fetch([text]) == {}


@pytest.mark.parametrize(
    ("kb_id", "has_token"), [("other", True), (KB_ID, False)], ids=["other project", "other token"]
)
def test_another_server_is_not_told_the_token(running, client_of, kb_id, has_token):
    client = client_of(running.api_port)
    with pytest.raises(ServerGoneError, match="not this knowledge base's server"):
        prove(client, kb_id, running.token if has_token else make_token())
    with pytest.raises(DoxtrRagError, match="Bearer"):  # and so it is refused
        client.get("/health")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b"[]",
        b"no JSON",
        b'{"proof": "00"}',
        b'{"proof": null}',
        b'{"proof": ["a"]}',
        b'{"error": "scope_violation", "message": "STRANGER"}',
    ],
)
@pytest.mark.parametrize("status", [200, 302, 500])
def test_a_program_without_proof_hears_a_nonce_and_no_more(client_of, answer, status):
    token = make_token()
    with Program(answer, status) as stranger:
        with pytest.raises(ServerGoneError) as raised:
            prove(client_of(stranger.port), KB_ID, token)
        (heard,) = stranger.heard
    assert "STRANGER" not in str(raised.value)
    assert heard.startswith("GET /identity?nonce=")
    assert "uthorization" not in heard
    assert token not in heard


def test_a_proof_for_another_port_or_nonce_is_none(client_of):
    token, replayed = make_token(), "0" * 64
    with Program(b"") as elsewhere:
        said = json.dumps({"proof": proof(token, KB_ID, elsewhere.port, replayed)}).encode()
    with (
        Program(said, port=elsewhere.port) as stranger,
        pytest.raises(ServerGoneError, match="not this knowledge base's server"),
    ):
        prove(client_of(stranger.port), KB_ID, token)


def test_whoever_takes_the_port_later_hears_neither_token_nor_question(filled_store, client_of):
    with running_server(filled_store) as server:
        client = client_of(server.api_port)
        prove(client, KB_ID, server.token)
        store = ServedStore(client, "shared", Scope.SHARED_ORG)
        assert store.pools(question()).rankings
    with Program(b'{"error": "failed"}', 404, server.api_port) as stranger:
        assert not client.is_answered()
        for _ in range(2):
            with pytest.raises(ServerGoneError):
                store.pools(question("SECRET"))
    heard = "".join(stranger.heard)
    assert "/identity?nonce=" in heard
    assert server.token not in heard
    assert "SECRET" not in heard


def test_the_same_server_on_its_port_again_is_believed(filled_store, client_of):
    """As after a moment without connections, or with more threads than before."""
    with running_server(filled_store) as server:
        client = client_of(server.api_port)
        prove(client, KB_ID, server.token)
        asked = [threading.Thread(target=client.get, args=("/health",)) for _ in range(32)]
        for thread in asked:
            thread.start()
        for thread in asked:
            thread.join(20)
        assert client.get("/health") == {"state": "ready"}


def test_a_port_where_nobody_listens_is_said(client_of):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ServerGoneError, match=f"{port} does not answer"):
        client_of(port).get("/health")


@pytest.mark.parametrize(
    "answer",
    [b"[" * 100_000, b'{"a": ' * 100_000, b"\xff", b"", b'"' + b"a" * 65 * 1024 * 1024 + b'"'],
    ids=["deep", "deeper", "no text", "empty", "long"],
)
def test_an_answer_that_is_no_answer_is_one_from_nobody(client_of, answer):
    with Program(answer) as stranger, pytest.raises(ServerGoneError, match="does not answer"):
        client_of(stranger.port).get("/health")


@pytest.mark.parametrize("answer", [{}, {"chunks": []}, {"chunks": {"a": 1}}, {"chunks": None}])
def test_chunks_that_are_none_are_from_nobody(client_of, answer):
    with Program(json.dumps(answer).encode()) as stranger:
        store = ServedStore(client_of(stranger.port), "shared", Scope.SHARED_ORG)
        with pytest.raises(ServerGoneError, match="cannot be read"):
            store.fetch(["a"])


@pytest.mark.parametrize("kind", ["failed", "new_kind", 7])
def test_a_failure_of_no_known_kind_leaves_one_store_out(client_of, kind):
    answer = json.dumps({"error": kind, "message": "its log says where"}).encode()
    with Program(answer, 500) as stranger:
        store = ServedStore(client_of(stranger.port), "shared", Scope.SHARED_ORG)
        with pytest.raises(ServerGoneError, match="its log says where"):
            store.pools(question())


def test_an_answer_that_drips_in_is_not_waited_for(client_of):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip():
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
                while True:
                    connection.sendall(b" ")
                    time.sleep(0.02)

        threading.Thread(target=drip, daemon=True).start()
        client = client_of(listener.getsockname()[1])
        with pytest.raises(ServerGoneError, match="does not answer"):
            client.post("/search/shared", {}, 0.3)


# --- /embed


def test_vectors_come_back_in_their_places(running, client_of):
    client = client_of(running.api_port)
    prove(client, KB_ID, running.token)
    served = ServedEmbedder(client, fingerprint=MODEL, dimension=DIMENSION)
    texts = [f"{'long ' * (at % 7)}text {at}" for at in range(100)]
    found = dict(pair for batch in served.embed(texts) for pair in batch)
    own = HashEmbedder(DIMENSION, fingerprint=MODEL)
    assert found == {at: own.embed_query(text) for at, text in enumerate(texts)}
    assert served.counts.texts == 100


GOOD = {
    "fingerprint": MODEL,
    "usage": {"prompt_tokens": 1, "padded_tokens": 1, "truncated": 0},
    "data": [{"embedding": base64.b64encode(b"\0" * 4 * DIMENSION).decode()}],
}
NOT_FINITE = base64.b64encode(struct.pack(f"<{DIMENSION}f", *[math.nan] * DIMENSION)).decode()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fingerprint": "e" * 64}, "another model"),
        ({"fingerprint": None}, "another model"),
        ({"usage": None}, "DOXTR_RAG_EMBED_URL"),
        ({"usage": {}}, "DOXTR_RAG_EMBED_URL"),
        ({"usage": GOOD["usage"] | {"truncated": "x"}}, "DOXTR_RAG_EMBED_URL"),
        ({"usage": GOOD["usage"] | {"truncated": math.inf}}, "DOXTR_RAG_EMBED_URL"),
        ({"data": None}, "DOXTR_RAG_EMBED_URL"),
        ({"data": []}, "DOXTR_RAG_EMBED_URL"),
        ({"data": GOOD["data"] * 2}, "DOXTR_RAG_EMBED_URL"),
        ({"data": [{"embedding": [0.5] * DIMENSION}]}, "DOXTR_RAG_EMBED_URL"),
        ({"data": [{"embedding": "???"}]}, "DOXTR_RAG_EMBED_URL"),
        ({"data": [{"embedding": ""}]}, "DOXTR_RAG_EMBED_URL"),
        ({"data": [{}]}, "DOXTR_RAG_EMBED_URL"),
        ({"data": [{"embedding": NOT_FINITE}]}, "DOXTR_RAG_EMBED_URL"),
    ],
    ids=range(14),
)
def test_an_embedding_server_of_another_kind_is_named(client_of, changes, said):
    with Program(json.dumps(GOOD | changes).encode()) as stranger:
        client = client_of(stranger.port)
        served = ServedEmbedder(client, fingerprint=MODEL, dimension=DIMENSION)
        with pytest.raises(EmbeddingError, match=said):
            served.embed_query("text")


@pytest.mark.parametrize("answer", [b"{}", b'{"error": {"message": "no"}}', b"[]"])
def test_a_refusal_says_who_refused(client_of, answer):
    with Program(answer, 404) as stranger:
        served = ServedEmbedder(client_of(stranger.port), fingerprint=MODEL, dimension=DIMENSION)
        with pytest.raises(EmbeddingError, match=f"127.0.0.1:{stranger.port} answered with status"):
            served.embed_query("text")


def test_a_server_that_cannot_embed_leaves_it_to_a_model_here(client_of):
    said = b'{"error": "failed", "message": "the server could not answer this request"}'
    own = HashEmbedder(DIMENSION, fingerprint=MODEL)
    with Program(said, 500) as server:
        served = ServedEmbedder(client_of(server.port), fingerprint=MODEL, dimension=DIMENSION)
        lent = LentEmbedder(served, lambda: own)
        assert dict(pair for batch in lent.embed(["text"]) for pair in batch) == {
            0: own.embed_query("text")
        }
