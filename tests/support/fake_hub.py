"""A model hub on loopback: enough of its protocol to fetch files, fail and break off on request."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType


@dataclass(slots=True)
class Request:
    """One request as the hub saw it."""

    method: str
    path: str
    range: str | None


@dataclass(slots=True)
class FakeHub:
    """Serves `files` of one repository; a context manager.

    `break_after` cuts that many answers after so many bytes, first come first cut. `stall_after`
    sends so many bytes, then nothing until the hub closes. `refusal` is a status and an error code
    that every request gets. `storage` is the endpoint of another hub, to which this one redirects.
    """

    repository: str
    revision: str
    files: dict[str, bytes]
    break_after: list[int] = field(default_factory=list)
    stall_after: int | None = None
    refusal: tuple[int, str] | None = None
    storage: str | None = None
    requests: list[Request] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    stalled: threading.Event = field(default_factory=threading.Event)
    _server: _Server | None = None
    _thread: threading.Thread | None = None

    def __enter__(self) -> FakeHub:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.hub = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        """The address to fetch from."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def ranges(self, name: str) -> list[str]:
        """Return the Range headers of the downloads of a file, in order; "" for none."""
        return [
            request.range or ""
            for request in self.requests
            if request.method == "GET" and request.path.endswith(f"/{name}")
        ]


class _Server(ThreadingHTTPServer):
    hub: FakeHub


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Stay silent."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        hub, wanted = self.server.hub, self.headers.get("Range")
        hub.requests.append(Request(self.command, self.path, wanted))
        root = f"/{hub.repository}/resolve/{hub.revision}/"
        body = hub.files.get(self.path.removeprefix(root))
        if hub.refusal is not None:
            self._refuse(*hub.refusal)
        elif body is None or not self.path.startswith(root):
            self._refuse(404, "EntryNotFound")
        elif hub.storage is not None:
            self._redirect(body, hub.storage)
        else:
            self._serve(body, int(wanted[6:].partition("-")[0]) if wanted else 0)

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _redirect(self, body: bytes, storage: str) -> None:
        self.send_response(302)
        self.send_header("Location", storage + self.path)
        self.send_header("X-Linked-Size", str(len(body)))
        self.send_header("X-Linked-ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", self.server.hub.revision)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _serve(self, body: bytes, start: int) -> None:
        rest = body[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(rest)))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", self.server.hub.revision)
        self.end_headers()
        if self.command == "GET":
            self._send(rest)

    def _send(self, rest: bytes) -> None:
        hub = self.server.hub
        if hub.stall_after is not None:
            self.wfile.write(rest[: hub.stall_after])
            self.wfile.flush()
            hub.stalled.set()
            hub.closing.wait()
            self.close_connection = True
        elif hub.break_after:
            self.wfile.write(rest[: hub.break_after.pop(0)])
            self.close_connection = True
        else:
            self.wfile.write(rest)
