"""Chroma servers that tests start on loopback, and a proxy that misbehaves on request."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from loopback import free_ports

FAST_START = "import sys, chromadb_rust_bindings as b; b.cli(['chroma', *sys.argv[1:]])"
"""What the command does, without its second of imports."""

START_S = 20.0


class ChromaServer:
    """One server over one folder."""

    def __init__(self, folder: Path, port: int | None = None, *, official: bool = False) -> None:
        self.folder = folder
        self.port = port or free_ports(1)[0]
        self._official = official
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> ChromaServer:
        program = (
            [str(Path(sys.executable).parent / "chroma")]
            if self._official
            else [sys.executable, "-c", FAST_START]
        )
        address = ["--host", "127.0.0.1", "--port", str(self.port)]
        self._process = subprocess.Popen(
            [*program, "run", "--path", str(self.folder), *address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + START_S
        while time.monotonic() < end and self._process.poll() is None:
            try:
                self.ask("GET", "/api/v2/heartbeat")
            except OSError:
                time.sleep(0.01)
            else:
                return self
        self.stop()
        raise AssertionError(f"no Chroma server on port {self.port}")

    def stop(self) -> None:
        """End the server as an operator would."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait(timeout=20)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send one request past all our code; return the JSON of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"content-type": "application/json"})
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@contextmanager
def chroma_server(folder: Path, *, official: bool = False) -> Iterator[ChromaServer]:
    """Run a server for as long as it is wanted."""
    server = ChromaServer(folder, official=official).start()
    try:
        yield server
    finally:
        server.stop()


@dataclass(frozen=True, slots=True)
class Fault:
    """What a proxy does instead of passing a request on."""

    status: int = 503
    headers: tuple[tuple[str, str], ...] = ()
    delay_s: float = 0.0
    passes_on: bool = False
    """Pass the request on all the same, so that its answer alone is lost."""


@dataclass(slots=True)
class Seen:
    """One request that reached a proxy."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def name(self) -> str:
        """Its method and the last part of its path: `POST upsert`."""
        return f"{self.method} {self.path.rstrip('/').rpartition('/')[2]}"

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class FaultyProxy:
    """Passes requests on to a server, and notes them; `judge` says which of them fail."""

    port: int
    seen: list[Seen] = field(default_factory=list)
    judge: Callable[[Seen], Fault | None] = lambda _: None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def names(self) -> list[str]:
        """Return what was asked so far, and forget it."""
        names = [seen.name for seen in self.seen]
        self.seen.clear()
        return names


def fail_times(count: int, fault: Fault, verb: str = "") -> Callable[[Seen], Fault | None]:
    """Return a judge that lets the first `count` requests of a kind fail."""
    left = [count]

    def judge(seen: Seen) -> Fault | None:
        if verb not in seen.name or not left[0]:
            return None
        left[0] -= 1
        return fault

    return judge


@contextmanager
def faulty_proxy(target: ChromaServer) -> Iterator[FaultyProxy]:
    """Run a proxy before a server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet an answer, or each waits for the acknowledgement of another

        def _pass(self) -> None:
            length = int(self.headers.get("content-length", 0))
            seen = Seen(self.command, self.path, dict(self.headers), self.rfile.read(length))
            proxy.seen.append(seen)
            fault = proxy.judge(seen)
            if fault is not None:
                if fault.passes_on:
                    _forward(target.port, seen)
                time.sleep(fault.delay_s)
                self._answer(fault.status, fault.headers, b'{"error":"x","message":"by the test"}')
                return
            try:
                status, body = _forward(target.port, seen)
            except OSError:
                status, body = 502, b"{}"
            self._answer(status, (), body)

        def _answer(self, status: int, headers: Any, body: bytes) -> None:
            try:
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.wfile.flush()
            except OSError:
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_DELETE = _pass  # noqa: N815 - the names it is called by

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy = FaultyProxy(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _forward(port: int, seen: Seen) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(
            seen.method, seen.path, seen.body or None, {"content-type": "application/json"}
        )
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
