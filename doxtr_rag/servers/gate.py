"""What every request passes first: Host, proof, token, size. Nothing behind it sees a stranger."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from doxtr_rag.core.version import VERSION
from doxtr_rag.servers.failures import RequestError
from doxtr_rag.servers.identity import NONCE, proof, same

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 8 * 1024 * 1024
LOOPBACK_NAMES = {"127.0.0.1", "localhost", "[::1]"}


class Gate:
    """An ASGI application that lets through only who may, to the application of the port.

    `token` None lets everyone through who comes with the right Host; `host_names` None every Host.
    `seen` is the monotonic time of the last request that got through.
    """

    def __init__(
        self,
        apps: Mapping[int, App],
        *,
        kb_id: str,
        token: str | None,
        host_names: frozenset[str] | None = frozenset(LOOPBACK_NAMES),
    ) -> None:
        self._apps = apps
        self._kb_id = kb_id
        self._token = token
        self._host_names = host_names
        self.seen = time.monotonic()
        self.under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        try:
            port = int(scope["server"][1])
            headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
            self._check_host([value for name, value in scope["headers"] if name == b"host"])
            if self._token is not None and scope["path"] == "/identity":
                await respond(send, 200, self._identity(scope, port, self._token))
                return
            self._check_token(headers.get(b"authorization", ""))
            body = await _whole_body(receive)
        except RequestError as error:
            await respond(send, error.status, {"error": error.kind, "message": str(error)})
            return
        self.under_way += 1
        try:
            await self._apps[port](scope, _replayed(body, receive), send)
        finally:
            self.under_way -= 1
            self.seen = time.monotonic()

    def _check_host(self, hosts: Sequence[bytes]) -> None:
        host = hosts[0].decode("latin-1") if len(hosts) == 1 else ""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if self._host_names is not None and name.lower() not in self._host_names:
            raise RequestError(403, "forbidden_host", "this server answers on loopback only")

    def _check_token(self, authorization: str) -> None:
        scheme, _, token = authorization.partition(" ")
        if self._token is None or (scheme.lower() == "bearer" and same(token.strip(), self._token)):
            return
        raise RequestError(
            401, "unauthorized", "send Authorization: Bearer with the token of .doxtr/server.token"
        )

    def _identity(self, scope: Scope, port: int, token: str) -> dict[str, Any]:
        nonce = parse_qs(scope["query_string"].decode("latin-1")).get("nonce", [""])[0]
        if scope["method"] != "GET" or not NONCE.fullmatch(nonce):
            raise RequestError(400, "bad_input", "nonce: expected 64 hexadecimal digits")
        return {
            "kb_id": self._kb_id,
            "version": VERSION,
            "proof": proof(token, self._kb_id, port, nonce),
        }


async def respond(send: Send, status: int, value: object) -> None:
    """Send a JSON answer."""
    await send_bytes(send, status, as_json(value))


async def send_bytes(send: Send, status: int, body: bytes) -> None:
    """Send an answer that is JSON already."""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def as_json(value: object) -> bytes:
    """Return a value as JSON; what no encoding can hold becomes a question mark."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


async def _whole_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise RequestError(400, "bad_input", "the request ended early")
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY:
            raise RequestError(413, "body_too_large", f"send at most {MAX_BODY} bytes at once")
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    is_told = False

    async def again() -> Message:
        nonlocal is_told
        if is_told:
            return await receive()
        is_told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
