"""A program of somebody else on a port where ours might ask."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Stranger:
    """Answers everything with {}; `heard` is what it was sent."""

    def __init__(self, host: str, port: int = 0) -> None:
        self.heard: list[str] = []
        stranger = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                stranger.heard.append(f"{self.requestline}\n{self.headers}\n{body!r}")
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_GET = do_POST = answer  # noqa: N815 - names of the standard library

        self._server = ThreadingHTTPServer((host, port), Handler)
        self.port = self._server.server_address[1]
        self.origin = f"http://{host}:{self.port}"

    def __enter__(self) -> Stranger:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
