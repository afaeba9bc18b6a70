"""JSON requests to a Chroma server, with bounds: time, size, retries, no redirects."""

from __future__ import annotations

import json
import random
import ssl
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from doxtr_rag.core.errors import (
    StoreAccessError,
    StoreError,
    StoreReadOnlyError,
    StoreUnavailableError,
    StoreUnreachableError,
)
from doxtr_rag.storage.remote.address import RemoteAccess, RemoteAddress

if TYPE_CHECKING:
    import httpx

CONNECT_S = 5.0
READ_S = 10.0
WRITE_S = 60.0
"""A write waits while the server persists its graph, and for the writers before it."""

RETRIES = 2
PAUSES_S = (0.25, 1.0)
LONGEST_PAUSE_S = 5.0
RETRIED = frozenset({429, 500, 502, 503, 504})
LARGEST_ANSWER = 64 * 1024 * 1024
SHOWN_CHARACTERS = 200

OK = 200
REDIRECTS, ERRORS, SERVER_ERRORS = 300, 400, 500
UNAUTHORIZED, FORBIDDEN, NOT_FOUND, NOT_ALLOWED = 401, 403, 404, 405


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said."""

    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class _Silence:
    """Why an attempt brought no answer that counts, and for how long to wait."""

    reason: str
    pause_s: float | None = None


class RemoteConnection:
    """One server; methods may be called from any thread.

    Every request that is made through this class may be repeated: each has the same effect once
    and twice.
    """

    def __init__(self, address: RemoteAddress, access: RemoteAccess) -> None:
        access.require_private_transport(address)
        self.address = address
        self._access = access
        self._http: httpx.Client | None = None

    def get(self, path: str, *, accept: Collection[int] = ()) -> Answer:
        """Return the answer to a GET request; statuses of errors only where they are accepted.

        Raises:
            StoreAccessError: the headers are missing or wrong.
            StoreUnreachableError: no answer, or 5xx, three times.
            StoreError: any other error of the server.
        """
        return self._ask("GET", path, None, READ_S, accept)

    def post(self, path: str, body: object, *, accept: Collection[int] = ()) -> Answer:
        """Return the answer to a POST request that only reads.

        Raises:
            StoreError: as `get` does.
        """
        return self._ask("POST", path, body, READ_S, accept)

    def write(
        self, method: str, path: str, body: object, *, accept: Collection[int] = ()
    ) -> Answer:
        """Return the answer to a request that changes something.

        Raises:
            StoreReadOnlyError: the server, or what stands before it, lets us only read.
            StoreError: as `get` does.
        """
        refusals = {FORBIDDEN, NOT_ALLOWED}
        answer = self._ask(method, path, body, WRITE_S, {*accept, *refusals})
        if answer.status in refusals:
            raise StoreReadOnlyError(
                f"{self.address.origin} refuses writes (status {answer.status}): it is searched, "
                f"and not written; where it should be, give {self._access.variable} the headers "
                "of somebody who may write"
            )
        return answer

    def close(self) -> None:
        """Let go of the connections."""
        if self._http is not None:
            self._http.close()

    def _ask(
        self, method: str, path: str, body: object, limit_s: float, accept: Collection[int]
    ) -> Answer:
        content = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        silence = _Silence("")
        for attempt in range(1 + RETRIES):
            if attempt:
                time.sleep(_pause(silence, attempt))
            answer = self._attempt(method, path, content, limit_s)
            if isinstance(answer, Answer):
                return self._judged(answer, accept)
            silence = answer
        raise StoreUnreachableError(
            f"{self.address.origin} {silence.reason} ({1 + RETRIES} attempts): see whether the "
            "Chroma server runs and is reached from here; the next run catches up"
        )

    def _attempt(
        self, method: str, path: str, content: bytes | None, limit_s: float
    ) -> Answer | _Silence:
        import httpx  # noqa: PLC0415 - see _client

        deadline = time.monotonic() + limit_s
        try:
            with self._client().stream(
                method,
                self.address.origin + path,
                content=content,
                timeout=httpx.Timeout(limit_s, connect=CONNECT_S),
            ) as response:
                raw = _limited(response.iter_bytes(), deadline)
                status, pause = response.status_code, response.headers.get("retry-after", "")
        except (httpx.TimeoutException, TimeoutError):
            return _Silence("does not answer in time")
        except httpx.HTTPError as error:
            return _Silence(
                f"cannot be reached ({self._shown(f'{type(error).__name__}: {error}')})"
            )
        if status in RETRIED:
            return _Silence(f"answers with status {status}", _seconds(pause))
        return Answer(status, _parsed(raw))

    def _client(self) -> httpx.Client:
        import httpx  # noqa: PLC0415 - a tenth of a second, which a build without stores saves

        if self._http is None:
            headers = {"content-type": "application/json", **self._access.headers}
            self._http = httpx.Client(
                # Bytes, since an error about one that is not ASCII would show the value.
                headers=[(name.encode(), value.encode()) for name, value in headers.items()],
                verify=self._trust(),
                follow_redirects=False,
                # Loopback is never reached through the proxy of the environment.
                trust_env=not self.address.is_loopback,
            )
        return self._http

    def _trust(self) -> ssl.SSLContext:
        """Return whose certificates count; without TLS none are read, which takes its time."""
        if not self.address.ssl:
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        bundle = self._access.ca_bundle
        is_folder = bundle is not None and bundle.is_dir()
        try:
            return ssl.create_default_context(
                cafile=None if bundle is None or is_folder else str(bundle),
                capath=str(bundle) if is_folder else None,
            )
        except (OSError, ssl.SSLError) as error:
            raise StoreUnavailableError(
                f"{bundle}: no CA bundle ({error}): correct SSL_CERT_FILE or REQUESTS_CA_BUNDLE"
            ) from error

    def _judged(self, answer: Answer, accept: Collection[int]) -> Answer:
        if answer.status in accept or OK <= answer.status < REDIRECTS:
            return answer
        origin, status = self.address.origin, answer.status
        if status in (UNAUTHORIZED, FORBIDDEN):
            raise StoreAccessError(
                f"{origin} lets nobody in with these headers (status {status}): set "
                f"{self._access.variable} to what the server wants, as k=v;k=v"
            )
        if REDIRECTS <= status < ERRORS:
            raise StoreUnavailableError(
                f"{origin} redirects elsewhere, which is not followed: name the server itself"
            )
        said = answer.body.get("message", "") if isinstance(answer.body, dict) else ""
        raise StoreError(f"{origin} answers with status {status}: {self._shown(str(said))}")

    def _shown(self, said: str) -> str:
        """Return words of others for a message; an echo of headers must not betray them."""
        for value in filter(None, self._access.headers.values()):
            said = said.replace(value, "…")
        return "".join(c for c in said if c.isprintable())[:SHOWN_CHARACTERS]


def _pause(silence: _Silence, attempt: int) -> float:
    """Return the seconds before another attempt, spread since many clients may wait."""
    if silence.pause_s is not None:
        return silence.pause_s
    return PAUSES_S[attempt - 1] * random.uniform(0.75, 1.25)  # noqa: S311 - no secret


def _seconds(retry_after: str) -> float | None:
    """Return what a server asks for in seconds, as far as we have patience; None for a date."""
    return min(float(retry_after), LONGEST_PAUSE_S) if retry_after.isdecimal() else None


def _limited(parts: Iterable[bytes], deadline: float) -> bytes:
    answer = bytearray()
    for part in parts:
        answer += part
        if len(answer) > LARGEST_ANSWER:
            raise StoreError(f"an answer of more than {LARGEST_ANSWER >> 20} MiB was not read")
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(answer)


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
