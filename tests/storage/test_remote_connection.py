"""Requests to a Chroma server: how long, how often, and what is said when they fail."""

import logging
import time

import pytest
from chroma_server import Fault, chroma_server, fail_times, faulty_proxy
from loopback import free_ports

from doxtr_rag.core.errors import (
    ConfigError,
    StoreAccessError,
    StoreError,
    StoreReadOnlyError,
    StoreUnavailableError,
    StoreUnreachableError,
)
from doxtr_rag.storage.remote import connection as wire
from doxtr_rag.storage.remote.address import RemoteAccess, RemoteAddress
from doxtr_rag.storage.remote.connection import RemoteConnection

SECRET = "Bearer open-sesame"  # noqa: S105 - nobody's
VARIABLE = "DOXTR_RAG_SHARED_STORE_HEADERS"
HEARTBEAT = "/api/v2/heartbeat"
TENANTS = "/api/v2/tenants"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with chroma_server(tmp_path_factory.mktemp("chroma"), official=True) as running:
        yield running


@pytest.fixture
def proxy(server):
    with faulty_proxy(server) as running:
        yield running


@pytest.fixture
def connection(proxy, monkeypatch):
    monkeypatch.setattr(wire, "PAUSES_S", (0.01, 0.01))
    made = connected(proxy.uri, {"Authorization": SECRET})
    yield made
    made.close()


def address(uri, **names):
    known = {"tenant": "default_tenant", "database": "doxtr_shared", "collection": "bge_m3_8"}
    return RemoteAddress.of_uri(uri, **(known | names))


def connected(uri, headers=None):
    return RemoteConnection(address(uri), RemoteAccess(VARIABLE, headers or {}))


@pytest.mark.parametrize(
    ("uri", "origin"),
    [
        ("http://kb.example:8000", "http://kb.example:8000"),
        ("https://kb.example/", "https://kb.example:443"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_an_address_is_scheme_host_and_port(uri, origin):
    assert address(uri).origin == origin


@pytest.mark.parametrize(
    "uri",
    [
        "http://kb.example/chroma",
        "ftp://kb.example",
        "http://me:pw@kb.example",
        "http://kb.example?x=1",
        "http://kb.example:70000",
        "kb.example",
    ],
)
def test_an_address_that_chroma_clients_cannot_use_is_refused(uri):
    with pytest.raises(ConfigError):
        address(uri)


def test_names_cannot_leave_their_place_in_a_path():
    assert address("http://a", tenant="../x y").tenant_path == "/api/v2/tenants/..%2Fx%20y"


@pytest.mark.parametrize("uri", ["https://kb.example", "http://127.0.0.1:1", "http://localhost:1"])
def test_headers_go_over_tls_and_loopback(uri):
    connected(uri, {"Authorization": SECRET}).close()


def test_headers_are_not_sent_in_the_clear():
    with pytest.raises(
        ConfigError, match=f"headers of {VARIABLE} are not sent without TLS"
    ) as told:
        connected("http://kb.example:8000", {"Authorization": SECRET})
    assert SECRET not in str(told.value)


def test_an_access_does_not_show_its_values():
    assert "sesame" not in repr(RemoteAccess(VARIABLE, {"Authorization": SECRET}))


def test_headers_reach_the_server(connection, proxy):
    assert connection.get(HEARTBEAT).status == 200
    assert proxy.seen[0].headers["Authorization"] == SECRET


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
@pytest.mark.parametrize(("failures", "succeeds"), [(2, True), (3, False)])
def test_a_busy_server_is_asked_three_times_at_most(connection, proxy, status, failures, succeeds):
    proxy.judge = fail_times(failures, Fault(status))
    if succeeds:
        assert connection.get(HEARTBEAT).status == 200
    else:
        with pytest.raises(StoreUnreachableError, match=rf"status {status} \(3 attempts\)"):
            connection.get(HEARTBEAT)
    assert len(proxy.seen) == 3


def test_a_server_may_say_when_to_come_back(connection, proxy):
    proxy.judge = fail_times(1, Fault(429, headers=(("Retry-After", "1"),)))
    start = time.monotonic()
    connection.get(HEARTBEAT)
    assert time.monotonic() - start >= 1


@pytest.mark.parametrize(
    ("said", "pause"), [("3600", 5.0), ("2", 2.0), ("", None), ("Wed, 21 Oct 2015", None)]
)
def test_our_patience_with_a_server_ends(said, pause):
    assert wire._seconds(said) == pause


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_token_is_not_tried_again(connection, proxy, status):
    proxy.judge = fail_times(9, Fault(status))
    with pytest.raises(StoreAccessError, match=f"set {VARIABLE} to what the server wants") as told:
        connection.get(HEARTBEAT)
    assert len(proxy.seen) == 1
    assert "sesame" not in str(told.value)


@pytest.mark.parametrize("status", [403, 405])
def test_a_server_that_refuses_writes_is_read_only(connection, proxy, status):
    proxy.judge = fail_times(9, Fault(status))
    with pytest.raises(StoreReadOnlyError, match="refuses writes"):
        connection.write("POST", TENANTS, {"name": "default_tenant"})
    assert len(proxy.seen) == 1


def test_other_refusals_are_said_once_and_without_secrets(connection, proxy):
    proxy.judge = fail_times(9, Fault(422))
    with pytest.raises(StoreError, match="status 422: by the test"):
        connection.get(HEARTBEAT)
    assert len(proxy.seen) == 1
    assert connection._shown(f"you sent {SECRET}\n") == "you sent …"


def test_redirects_are_not_followed(connection, proxy):
    elsewhere = (("Location", f"{proxy.uri}/elsewhere"),)
    proxy.judge = fail_times(1, Fault(307, headers=elsewhere))
    with pytest.raises(StoreUnavailableError, match="redirects elsewhere"):
        connection.get(HEARTBEAT)
    assert len(proxy.seen) == 1


def test_a_slow_server_is_given_up(connection, proxy, monkeypatch):
    monkeypatch.setattr(wire, "READ_S", 0.15)
    proxy.judge = fail_times(9, Fault(200, delay_s=0.5))
    with pytest.raises(StoreUnreachableError, match="does not answer in time"):
        connection.get(HEARTBEAT)
    assert len(proxy.seen) == 3


def test_nobody_listens(monkeypatch):
    monkeypatch.setattr(wire, "PAUSES_S", (0.01, 0.01))
    (port,) = free_ports(1)
    with pytest.raises(StoreUnreachableError, match=r"cannot be reached \(ConnectError"):
        connected(f"http://127.0.0.1:{port}").get(HEARTBEAT)


def test_the_limits_are_those_that_are_documented():
    assert (wire.CONNECT_S, wire.READ_S, wire.RETRIES) == (5.0, 10.0, 2)


def test_a_large_answer_is_not_read_to_its_end(connection, monkeypatch):
    monkeypatch.setattr(wire, "LARGEST_ANSWER", 10)
    with pytest.raises(StoreError, match="was not read"):
        connection.get(HEARTBEAT)


def test_header_values_are_not_logged(connection, caplog):
    with caplog.at_level(logging.DEBUG):
        connection.get(HEARTBEAT)
    assert caplog.records
    assert "sesame" not in caplog.text


def test_a_ca_bundle_that_is_none_is_said(tmp_path):
    broken = tmp_path / "ca.pem"
    broken.write_text("no certificate")
    access = RemoteAccess(VARIABLE, ca_bundle=broken)
    with pytest.raises(StoreUnavailableError, match="no CA bundle"):
        RemoteConnection(address("https://kb.example"), access).get(HEARTBEAT)
