"""Stores too large for one request, servers that take less than they say, and proxies with TLS."""

from __future__ import annotations

import dataclasses as dc
import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from chroma_server import Fault, chroma_server, faulty_proxy
from loopback import free_ports
from store_samples import DIMENSION, MODEL, ORIGIN, PROJECT, chunk, publish, vector

from doxtr_rag.core.errors import (
    StoreAccessError,
    StoreError,
    StoreReadOnlyError,
    StoreUnreachableError,
)
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage.remote import connection as wire
from doxtr_rag.storage.remote import upload
from doxtr_rag.storage.remote.address import RemoteAccess, RemoteAddress
from doxtr_rag.storage.remote.collection import ID_PAGE, PAGE
from doxtr_rag.storage.remote.reader import RemoteReader
from doxtr_rag.storage.remote.records import CorpusView, batches
from doxtr_rag.storage.remote.snapshot import ID_PAGE as COUNTED_PAGE
from doxtr_rag.storage.remote.store import RemoteStore

SQLITE_VARIABLES = 32_766
VARIABLE = "DOXTR_RAG_SHARED_STORE_HEADERS"
GUIDE = Path(__file__).parents[2] / "docs" / "howto" / "remote-store.md"
NGINX_HINT = "nginx is missing: apt-get install -y nginx-light"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with chroma_server(tmp_path_factory.mktemp("chroma")) as running:
        yield running


@pytest.fixture
def proxy(server, monkeypatch):
    monkeypatch.setattr(wire, "PAUSES_S", (0.01, 0.01))
    with faulty_proxy(server) as running:
        yield running


def address(uri, collection="tiny_8"):
    return RemoteAddress.of_uri(
        uri, tenant="default_tenant", database="doxtr_shared", collection=collection
    )


def opened(folder, uri, collection="tiny_8", access=None, progress=None):
    place = address(uri, collection)
    return RemoteStore(
        folder, Scope.SHARED_ORG, "shared", place, access or RemoteAccess(VARIABLE), progress
    )


def fill(store, chunks):
    publish(store, chunks)
    store.seal(MODEL, DIMENSION)
    store.refresh_index()


def batch_sizes(proxy):
    sent = [seen.json for seen in proxy.seen if seen.name == "POST upsert"]
    return [len(body["ids"]) for body in sent if body.get("documents")]


def test_more_records_than_a_page(tmp_path, proxy):
    """Filled in batches, compared page by page, and nothing is sent twice."""
    many = [chunk(f"n{at}", f"text {at}", document=f"d{at % 40}") for at in range(5200)]
    reports = []
    with opened(tmp_path / "one", proxy.uri, progress=lambda *seen: reports.append(seen)) as store:
        fill(store, many)
        assert max(batch_sizes(proxy)) == upload.MOST_RECORDS
        assert sum(batch_sizes(proxy)) == len(many)
        assert reports[-1] == ("sending SHARED_ORG", len(many), len(many))
        head = store._index._look.chunks
        head.delete([many[0].chunk.chunk_id, many[5100].chunk.chunk_id], {"project": PROJECT})
        proxy.seen.clear()
        store.refresh_index()
        assert batch_sizes(proxy) == [2]
        assert store.is_current()
    bodies = [seen.json for seen in proxy.seen if seen.name == "POST get"]
    assert sum(body.get("include") == ["metadatas"] and "where" in body for body in bodies) == 2
    assert all(body.get("limit", 0) < SQLITE_VARIABLES for body in bodies)
    assert all(body["limit"] <= PAGE for body in bodies if body["include"] and "limit" in body)
    with opened(tmp_path / "two", proxy.uri) as fresh:
        assert len(fresh.hashes(PROJECT, ORIGIN)) == len(many)
        wanted = [s.chunk.text_hash for s in many[:600]]
        assert fresh.missing(MODEL, wanted) == set()
    with RemoteReader(Scope.SHARED_ORG, "shared", address(proxy.uri), RemoteAccess("V")) as reader:
        assert len(reader.fetch([s.chunk.chunk_id for s in many])) == len(many)
        reader.verify()


def test_pages_stay_below_what_sqlite_joins():
    assert max(PAGE, ID_PAGE, COUNTED_PAGE) < SQLITE_VARIABLES


def test_a_server_that_takes_fewer_records_is_heeded(tmp_path, proxy, monkeypatch):
    monkeypatch.setattr(upload, "MOST_RECORDS", 7)
    with opened(tmp_path, proxy.uri, "few_8") as store:
        fill(store, [chunk(f"n{at}", f"text {at}") for at in range(20)])
    assert batch_sizes(proxy) == [7, 7, 6]
    assert [seen.name for seen in proxy.seen].count("GET pre-flight-checks") == 1


def test_a_body_too_large_for_what_stands_before_the_server_is_halved(tmp_path, proxy):
    def judge(seen):
        return Fault(413) if seen.name == "POST upsert" and len(seen.body) > 6000 else None

    proxy.judge = judge
    with opened(tmp_path, proxy.uri, "small_8") as store:
        fill(store, [chunk(f"n{at}", f"text {at}") for at in range(20)])
        assert store.is_current()
    assert max(batch_sizes(proxy)) == 20
    assert min(batch_sizes(proxy)) < 10


def test_a_record_that_no_proxy_takes_is_named(tmp_path, proxy):
    proxy.judge = lambda seen: Fault(413) if b"huge" in seen.body else None
    with opened(tmp_path, proxy.uri, "big_8") as store:
        publish(store, [chunk("a", "small"), chunk("b", "huge")])
        store.seal(MODEL, DIMENSION)
        with pytest.raises(StoreError, match=r"guide/intro#b: .*client_max_body_size"):
            store.refresh_index()


def test_batches_keep_to_records_and_bytes(tmp_path):
    with opened(tmp_path, "http://127.0.0.1:9") as store:
        publish(store, [chunk(f"n{at}", "x" * 1000) for at in range(10)])
        store.seal(MODEL, DIMENSION)
        ids = list(store.corpus.hashes(PROJECT, ORIGIN))
        outgoing = CorpusView(store._reading).outgoing(ids, MODEL)
    assert [len(b) for b in batches(outgoing, 4, 10**9)] == [4, 4, 2]
    size = outgoing[0].size()
    assert [len(b) for b in batches(outgoing, 99, 3 * size)] == [3, 3, 3, 1]
    assert [len(b) for b in batches(outgoing, 99, 1)] == [1] * 10
    assert list(batches([], 4, 4)) == []
    assert 1000 < size < 3000


@pytest.fixture(scope="module")
def nginx(is_ci):
    """The nginx of this machine; installed where that can be done."""
    installer = shutil.which("apt-get")
    if shutil.which("nginx") is None and os.geteuid() == 0 and installer is not None:
        subprocess.run(
            [installer, "install", "-y", "--no-install-recommends", "nginx-light"],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=240,
            check=False,
        )
    found = shutil.which("nginx")
    if found is None:
        (pytest.fail if is_ci else pytest.skip)(NGINX_HINT)
    return found


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1 that signs itself."""
    folder = tmp_path_factory.mktemp("tls")
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    program = shutil.which("openssl") or "openssl"
    subprocess.run(
        [program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names,
         "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        capture_output=True,
        check=True,
    )  # fmt: skip
    return folder


def documented_configuration(folder, port, upstream, certificate):
    """Return the nginx.conf that the guide tells an operator to use, for this machine."""
    found = re.search(r"```nginx\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)[1]
    places = "\n".join(
        f"{name}_temp_path {folder}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    for documented, local in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/nginx/tls", str(certificate)),
        ("http://chroma:8000", f"http://127.0.0.1:{upstream}"),
        ("http {", f"http {{ access_log off; {places}"),
    ):
        assert documented in found
        found = found.replace(documented, local)
    return f"pid {folder}/pid; error_log {folder}/error.log; daemon off;\n{found}"


@contextmanager
def running_nginx(program, folder, port, upstream, certificate):
    folder.mkdir()
    settings = folder / "nginx.conf"
    settings.write_text(documented_configuration(folder, port, upstream, certificate))
    process = subprocess.Popen(
        [program, "-c", settings, "-p", folder],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)


@pytest.fixture
def guarded(server, nginx, certificate, tmp_path):
    """The address of a proxy with TLS and tokens before the server."""
    (port,) = free_ports(1)
    with running_nginx(nginx, tmp_path / "nginx", port, server.port, certificate):
        yield f"https://127.0.0.1:{port}"


@pytest.fixture
def access(certificate):
    """Return the access of somebody with a token."""
    return lambda token: RemoteAccess(
        VARIABLE, {"Authorization": f"Bearer {token}"}, certificate / "cert.pem"
    )


def test_a_writer_writes_through_tls(guarded, access, tmp_path):
    with opened(tmp_path / "m", guarded, "tls_8", access("WRITER-TOKEN")) as store:
        assert store.is_writable()
        fill(store, [chunk("a", "one"), chunk("b", "two")])
        assert store.is_current()


def test_a_reader_searches_and_does_not_write(guarded, access, tmp_path):
    with opened(tmp_path / "m", guarded, "read_8", access("WRITER-TOKEN")) as store:
        fill(store, [chunk("a", "one"), chunk("b", "two")])
    reader_access = access("READER-TOKEN")
    place = address(guarded, "read_8")
    with RemoteReader(Scope.SHARED_ORG, "shared", place, reader_access) as reader:
        assert reader.dense(vector("one"), 1)[0].chunk_id == "guide/intro#a"
        assert reader.document("intro").chunks
    with opened(tmp_path / "n", guarded, "read_8", reader_access) as store:
        assert not store.is_writable()
        publish(store, [chunk("c", "three")])
        store.seal(MODEL, DIMENSION)
        with pytest.raises(StoreReadOnlyError):
            store.refresh_index()
        with pytest.raises(StoreReadOnlyError, match="what turned private"):
            store.withdraw(PROJECT, ["guide/intro#a"])


def test_nobody_gets_in(guarded, access):
    place = address(guarded)
    with (
        RemoteReader(Scope.SHARED_ORG, "shared", place, access("GUESSED")) as reader,
        pytest.raises(StoreAccessError, match=VARIABLE),
    ):
        reader.count()


def test_a_certificate_that_nobody_vouches_for(guarded, access, monkeypatch):
    monkeypatch.setattr(wire, "PAUSES_S", (0.01, 0.01))
    distrusting = dc.replace(access("WRITER-TOKEN"), ca_bundle=None)
    with (
        RemoteReader(Scope.SHARED_ORG, "shared", address(guarded), distrusting) as reader,
        pytest.raises(StoreUnreachableError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        reader.count()
