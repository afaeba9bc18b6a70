"""A running server and what arrives over TCP: strangers, odd requests, slow and huge ones."""

import json
import logging
import socket
import threading
import time

import httpx
import pytest
from running_server import KB_ID
from store_samples import MODEL

from doxtr_rag.core.contract import contract
from doxtr_rag.servers.gate import MAX_BODY
from doxtr_rag.servers.identity import proof

SECRET = "SECRET-QUESTION"  # noqa: S105 - what must never come back


def raw(port, *parts, seconds=5.0):
    """Return what a server says to bytes, until it closes or nothing comes."""
    with socket.create_connection(("127.0.0.1", port), seconds) as connection:
        said = b""
        try:
            for part in parts:
                connection.sendall(part)
            while part := connection.recv(65536):
                said += part
        except OSError:
            pass  # it may close before it has heard everything
    return said


def request(line, *headers, body=b""):
    head = "\r\n".join([f"{line} HTTP/1.1", *headers, "Connection: close"])
    return head.encode("latin-1") + b"\r\n\r\n" + body


def status(said):
    return int(said.split()[1]) if said else None


@pytest.fixture
def authorization(running):
    return f"Authorization: Bearer {running.token}"


@pytest.fixture(autouse=True)
def _nothing_leaks(running, caplog):
    """After whatever a test sent, the next good request is answered and the log quotes nothing."""
    caplog.set_level(logging.DEBUG, "uvicorn")
    yield
    assert running.is_well()
    assert running.token not in caplog.text
    assert SECRET not in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (["Host: 127.0.0.1"], 200),
        (["Host: 127.0.0.1:99"], 200),
        (["Host: LocalHost:99"], 200),
        (["Host: [::1]"], 200),
        (["Host: [::1]:99"], 200),
        ([], 403),
        (["Host:"], 403),
        (["Host: evil.com"], 403),
        (["Host: 127.0.0.1.evil.com"], 403),
        (["Host: 127.0.0.1@evil.com"], 403),
        (["Host: localhost.evil.com:80"], 403),
        (["Host: 0.0.0.0"], 403),
        (["Host: 127.1"], 403),
        (["Host: ::1"], 403),
        (["Host: 127.0.0.1:port"], 403),
        (["Host: 127.0.0.1\xff"], 403),
        (["Host: evil.com", "X-Forwarded-Host: 127.0.0.1"], 403),
    ],
)
def test_the_host_is_this_machine(running, authorization, headers, expected):
    said = raw(running.api_port, request("GET /health", *headers, authorization))
    assert status(said) == expected


@pytest.mark.parametrize(
    "header",
    [
        "X: y",
        "Authorization:",
        "Authorization: Bearer",
        "Authorization: Bearer ",
        "Authorization: Bearer {wrong}",
        "Authorization: Bearer {token}0",
        "Authorization: Bearer {token}, Bearer {token}",
        "Authorization: Basic {token}",
        "Authorization: {token}",
        "Authorization: Bearer\t{token}",
        "Authorization: Bearer \xff\xfe",
        "X-Authorization: Bearer {token}",
        "Cookie: token={token}",
    ],
)
@pytest.mark.parametrize("port", ["api_port", "chroma_port"])
def test_without_the_token_nothing_is_answered(running, header, port):
    given = header.format(token=running.token, wrong="0" * 64)
    path = "/health" if port == "api_port" else "/api/v2/heartbeat"
    said = raw(getattr(running, port), request(f"GET {path}", "Host: localhost", given))
    assert status(said) == 401
    assert json.loads(said.partition(b"\r\n\r\n")[2])["error"] == "unauthorized"
    assert running.token.encode() not in said


def test_every_vector_of_the_contract_is_proven_so():
    vectors = contract("vectors/identity")
    assert len(vectors) > 10
    for case in vectors:
        token, nonce = (_spelled(case[name]) for name in ("token", "nonce"))
        assert proof(token, case["kb_id"], case["port"], nonce) == case["proof"], case["name"]


def _spelled(value):
    if isinstance(value, str):
        return value
    return "".join(
        part if isinstance(part, str) else part["repeat"] * part["times"] for part in value["parts"]
    )


def test_the_proof_is_for_the_port_that_was_asked(running):
    nonce = "0f" * 32
    for port in (running.api_port, running.chroma_port):
        said = httpx.get(f"http://127.0.0.1:{port}/identity?nonce={nonce}").json()
        assert said["kb_id"] == KB_ID
        assert said["proof"] == proof(running.token, KB_ID, port, nonce)


@pytest.mark.parametrize(
    "query",
    [
        "", "?", "?nonce", "?nonce=", f"?nonce={'0' * 63}", f"?nonce={'0' * 65}",
        f"?nonce={'F' * 64}", f"?nonce={'%30' * 63}", f"?nonce=%00{'0' * 63}",
        f"?Nonce={'0' * 64}", f"?nonce={'0' * 64}%0a", f"?nonce={SECRET}",
    ],
    ids=range(12),
)  # fmt: skip
def test_only_64_small_hexadecimal_digits_are_a_nonce(running, query):
    said = raw(running.api_port, request(f"GET /identity{query}", "Host: 127.0.0.1"))
    assert status(said) == 400
    assert b"proof" not in said
    assert SECRET.encode() not in said


@pytest.mark.parametrize("method", ["OPTIONS", "GET", "POST"])
@pytest.mark.parametrize("has_token", [True, False])
def test_no_page_of_a_browser_may_read_an_answer(running, authorization, method, has_token):
    wishes = ["Origin: https://evil.com", "Access-Control-Request-Method: POST"]
    headers = ["Host: 127.0.0.1", *wishes, *([authorization] if has_token else [])]
    said = raw(running.api_port, request(f"{method} /health", *headers))
    assert b"access-control" not in said.lower()


@pytest.mark.parametrize("is_chunked", [True, False])
def test_one_byte_more_than_the_limit_is_refused(running, is_chunked):
    body = b"x" * (MAX_BODY + 1)
    content = (body[at : at + 1_000_000] for at in range(0, len(body), 1_000_000))
    asked = httpx.post(
        f"{running.url}/embed",
        content=content if is_chunked else body,
        headers=running.authorization,
        timeout=20,
    )
    assert (asked.status_code, asked.json()["error"]) == (413, "body_too_large")


def test_a_body_of_just_the_limit_is_read(running):
    body = json.dumps({"input": "a"}).encode().ljust(MAX_BODY)
    asked = httpx.post(
        f"{running.url}/embed", content=body, headers=running.authorization, timeout=20
    )
    assert asked.status_code == 200


@pytest.mark.parametrize(
    ("length", "expected"),
    [("9" * 30, 400), ("-1", 400), ("x", 400), ("5, 6", 400)],
)
def test_a_length_that_is_none_is_refused(running, authorization, length, expected):
    said = raw(
        running.api_port,
        request("POST /embed", "Host: localhost", authorization, f"Content-Length: {length}"),
    )
    assert status(said) == expected


def test_two_lengths_are_none(running, authorization):
    headers = ["Host: localhost", authorization, "Content-Length: 2"]
    both = request("POST /embed", *headers, "Transfer-Encoding: chunked", body=b"0\r\n\r\n")
    assert status(raw(running.api_port, both)) == 400


@pytest.mark.parametrize(
    "said",
    [
        f"{SECRET}\r\n\r\n".encode(),
        b"\0" * 1000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",  # a TLS greeting
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        f"GET /{SECRET} HTTP/1.1\r\nHost\r\n\r\n".encode(),
        f"GET /{SECRET}\0 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
    ],
    ids=range(6),
)
def test_what_is_no_http_is_refused_and_not_quoted(running, said):
    answer = raw(running.api_port, said, seconds=2)
    assert status(answer) in {400, None}
    assert SECRET.encode() not in answer


def test_a_web_socket_is_not_opened(running):
    upgrade = ["Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA=="]
    said = raw(running.api_port, request(f"GET /{SECRET}", "Host: localhost", *upgrade))
    assert status(said) in {400, 401}


def test_slow_and_silent_clients_hold_up_nobody(running, authorization):
    head = f"POST /embed HTTP/1.1\r\nHost: localhost\r\n{authorization}\r\n"
    beginnings = [
        b"",
        b"GET ",
        head.encode(),
        f"{head}Content-Length: 99999999999\r\n\r\n{{".encode(),
    ]
    with _open(running.api_port, 80) as connections:
        for at, connection in enumerate(connections):
            connection.sendall(beginnings[at % len(beginnings)])
        before = time.monotonic()
        for _ in range(20):
            assert running.is_well()
        assert time.monotonic() - before < 5


class _open:  # noqa: N801 - reads as a verb
    """So many connections that say nothing by themselves."""

    def __init__(self, port, count):
        self._connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]

    def __enter__(self):
        return self._connections

    def __exit__(self, *_):
        for connection in self._connections:
            connection.close()


def test_a_client_that_leaves_early_leaves_nothing_behind(running, authorization):
    body = json.dumps({"input": [f"{SECRET} {at}" for at in range(200)]}).encode()
    head = request("POST /embed", "Host: localhost", authorization, f"Content-Length: {len(body)}")
    for cut in (len(body), len(body) // 2, 0):
        with socket.create_connection(("127.0.0.1", running.api_port), 5) as connection:
            connection.sendall(head + body[:cut])


def test_requests_that_follow_one_another_are_answered_in_turn(running, authorization):
    line = f"GET /health HTTP/1.1\r\nHost: localhost\r\n{authorization}\r\n\r\n".encode()
    stranger = b"GET /health HTTP/1.1\r\nHost: evil.com\r\n\r\n"
    last = request("GET /nowhere", "Host: localhost", authorization)
    said = raw(running.api_port, line + stranger + line + last)
    assert [int(part[:3]) for part in said.split(b"HTTP/1.1 ")[1:]] == [200, 403, 200, 404]


BAD_BODIES = [
    b"",
    b"null",
    b"[]",
    b"1",
    b'{"input": NaN}',
    b'{"input": -Infinity}',
    b'{"input": "a"} trailing',
    b'{"input": "\xff"}',
    b"[" * 200_000,
    b'{"a":' * 200_000,
    b'{"query": ' + b"9" * 10_000 + b"}",
    f'{{"query": "{SECRET}"'.encode(),
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
@pytest.mark.parametrize("path", ["/embed", "/search/shared", "/chunks/shared", "/document/shared"])
def test_a_body_is_one_json_object(running, path, body):
    asked = httpx.post(running.url + path, content=body, headers=running.authorization)
    assert asked.status_code == 400
    assert set(asked.json()) == {"error", "message"}
    assert SECRET not in asked.text


@pytest.mark.parametrize(
    "changes",
    [
        {"size": 0}, {"size": -1}, {"size": 10**9}, {"size": 10**30}, {"size": 1.5},
        {"size": True}, {"size": "5"}, {"size": None}, {"best": 0}, {"best": 201},
        {"best": True}, {"best": "5"}, {"query": 1}, {"query": [SECRET]}, {"query": None},
        {"vector": SECRET}, {"vector": "AA=="}, {"vector": None}, {"vector": [0.1] * 8},
        {"fingerprint": None}, {"documents": [SECRET]},
    ],
    ids=str,
)  # fmt: skip
def test_a_bad_question_is_not_quoted(running, changes):
    good = {"query": SECRET, "vector": "AAAA" * 10 + "AAA=", "fingerprint": MODEL}
    body = {**good, "size": 5, "best": 2, **changes}
    asked = httpx.post(f"{running.url}/search/shared", json=body, headers=running.authorization)
    assert asked.status_code == 400
    assert SECRET not in asked.text


@pytest.mark.parametrize("query", ["", "\0", "\ud800", "x" * 100_000, '"' * 1000, "NEAR(a b"])
def test_any_query_is_a_question(running, query):
    vector = "AAAA" * 10 + "AAA="
    body = {"query": query, "vector": vector, "fingerprint": MODEL, "size": 5, "best": 2}
    asked = httpx.post(
        f"{running.url}/search/shared", content=json.dumps(body), headers=running.authorization
    )
    assert asked.status_code == 200


def test_many_at_once_lose_none(running):
    found = []

    def ask(at):
        asked = httpx.post(
            f"{running.url}/embed",
            json={"input": f"text {at}"},
            headers=running.authorization,
            timeout=30,
        )
        found.append(asked.status_code)

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [200] * 32
