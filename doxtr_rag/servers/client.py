"""A running server as its clients see it: an embedder and stores, asked over loopback."""

from __future__ import annotations

import json
import math
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from doxtr_rag.core.documents import StoredChunk, Vector
from doxtr_rag.core.errors import (
    DoxtrRagError,
    EmbeddingError,
    ServerGoneError,
    error_of_kind,
)
from doxtr_rag.core.ports import DocumentText, EmbeddingCounts, PoolRequest, Pools
from doxtr_rag.core.scope import Scope
from doxtr_rag.servers import wire
from doxtr_rag.servers.identity import make_nonce, proof, same

CONNECT_S = 5.0
READ_S = 10.0
PROOF_S = 5.0
"""A proof is made at once: a server that takes longer hangs."""

EMBED_S = 600.0
"""A batch of long texts on a slow machine takes minutes."""

QUERY_S = 60.0
"""A question may wait for the model to be loaded."""

LARGEST_ANSWER = 64 * 1024 * 1024
FIRST_ERROR = 400
"""The lowest HTTP status that says what went wrong."""

BATCH_TEXTS = 32
BATCH_CHARACTERS = 50_000
CONNECTIONS = 100
IDLE_S = 30.0
"""Seconds that a connection is kept; the server keeps it for longer."""

FLOAT_BYTES = 4


class _NewConnectionError(Exception):
    """A request would have opened a connection to nobody knows whom."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a client expects to reach: a knowledge base, and the secret that its server has."""

    kb_id: str
    token: str


class JsonClient:
    """JSON requests to one address on this machine or elsewhere.

    Once it is authorised, the server proves itself anew before each new connection to it: whoever
    takes the port of a server that ended learns neither token nor question.
    """

    def __init__(self, url: str) -> None:
        import httpx  # noqa: PLC0415 - a tenth of a second, and a build without changes asks nobody

        self.url = url
        self._http: httpx.Client = httpx.Client(
            timeout=httpx.Timeout(READ_S, connect=CONNECT_S),
            limits=httpx.Limits(
                max_connections=CONNECTIONS,
                max_keepalive_connections=CONNECTIONS,
                keepalive_expiry=IDLE_S,
            ),
            trust_env=False,  # loopback is never reached through a proxy
            follow_redirects=False,
        )
        self._identity: Identity | None = None

    def authorise(self, identity: Identity) -> None:
        """Send a token with every request from here on, to the server that proves to have it."""
        self._identity = identity

    def check(self, identity: Identity) -> str:
        """Return the version of the server that answers, once it has proven who it is.

        Raises:
            ServerGoneError: something else answers there, or nothing.
        """
        nonce, port = make_nonce(), urlsplit(self.url).port or 0
        # Not kept: nobody else may use a connection to whom has proven nothing yet.
        path, headers = f"/identity?nonce={nonce}", {"connection": "close"}
        _, answer = self._exchange("GET", path, None, headers, PROOF_S)
        # The status is not looked at: a stranger's refusal would be raised in its own words.
        said = answer if isinstance(answer, dict) else {}
        if not same(str(said.get("proof")), proof(identity.token, identity.kb_id, port, nonce)):
            raise ServerGoneError(
                f"port {port} is not this knowledge base's server: run doxtr-rag serve --detach"
            )
        return str(said.get("version", ""))

    def is_answered(self) -> bool:
        """Say whether the server that it was authorised for answers, and proves who it is."""
        if self._identity is None:
            return False
        try:
            self.check(self._identity)
        except ServerGoneError:
            return False
        return True

    def get(self, path: str) -> dict[str, Any]:
        """Return the answer to a GET request.

        Raises:
            ServerGoneError: nothing answers, or not in JSON.
            DoxtrRagError: of the kind that the server names.
        """
        return self._send("GET", path, None, READ_S)

    def post(self, path: str, body: object, timeout_s: float = READ_S) -> dict[str, Any]:
        """Return the answer to a POST request.

        Raises:
            ServerGoneError: nothing answers, or not in JSON.
            DoxtrRagError: of the kind that the server names.
        """
        return self._send("POST", path, body, timeout_s)

    def _send(self, method: str, path: str, body: object, timeout_s: float) -> dict[str, Any]:
        identity = self._identity
        if identity is None:
            return self._successful(*self._exchange(method, path, body, {}, timeout_s))
        headers = {"authorization": f"Bearer {identity.token}"}
        try:
            said = self._exchange(method, path, body, headers, timeout_s, _refuse_new_connection)
        except _NewConnectionError:
            self.check(identity)
            said = self._exchange(method, path, body, headers, timeout_s)
        return self._successful(*said)

    def _exchange(
        self,
        method: str,
        path: str,
        body: object,
        headers: Mapping[str, str],
        timeout_s: float,
        watch: Callable[[str, object], None] | None = None,
    ) -> tuple[int, Any]:
        """Return the status and the JSON of an answer."""
        import httpx  # noqa: PLC0415 - see __init__

        try:
            with self._http.stream(
                method,
                self.url + path,
                # ASCII, so that half a surrogate pair arrives as it was given.
                content=None if body is None else json.dumps(body).encode(),
                headers={"content-type": "application/json", **headers},
                timeout=httpx.Timeout(timeout_s, connect=CONNECT_S),
                extensions={"trace": watch} if watch else None,
            ) as response:
                said = json.loads(_limited(response.iter_bytes(), time.monotonic() + timeout_s))
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as error:
            raise ServerGoneError(
                f"{self.url} does not answer ({type(error).__name__}): run doxtr-rag serve --status"
            ) from error
        return response.status_code, said

    def _successful(self, status: int, said: Any) -> dict[str, Any]:
        """Return an answer; raise the error that it names instead."""
        if status < FIRST_ERROR and isinstance(said, dict):
            return said
        fields = said if isinstance(said, dict) else {}
        unsaid = f"{self.url} answered with status {status}"
        message = str(fields.get("message", unsaid))
        error = error_of_kind(str(fields.get("error", "failed")), message)
        # A failure of no kind that we know is no answer: who asked goes on without this server.
        raise ServerGoneError(message) if type(error) is DoxtrRagError else error

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()


def prove(client: JsonClient, kb_id: str, token: str) -> str:
    """Let a server prove that it has the token before it is told, then authorise the client.

    Returns the version of the package that the server runs.

    Raises:
        ServerGoneError: something else answers there, or nothing.
    """
    identity = Identity(kb_id, token)
    version = client.check(identity)
    client.authorise(identity)
    return version


def _limited(parts: Iterable[bytes], deadline: float) -> bytes:
    """Return an answer; one that is too long or drips in too slowly is no JSON."""
    answer = bytearray()
    for part in parts:
        answer += part
        if len(answer) > LARGEST_ANSWER or time.monotonic() > deadline:
            raise ValueError("no end")
    return bytes(answer)


def _refuse_new_connection(event: str, _: object) -> None:
    if event == "connection.connect_tcp.started":
        raise _NewConnectionError


class ServedStore:
    """One store of a server; satisfies `SearchableStore`."""

    def __init__(self, client: JsonClient, name: str, scope: Scope) -> None:
        self._client = client
        self._name = name
        self._scope = scope

    @property
    def name(self) -> str:
        """The store's name in answers."""
        return self._name

    @property
    def scope(self) -> Scope:
        """The audience this store serves."""
        return self._scope

    def pools(self, request: PoolRequest) -> Pools:
        """Return what every pool of this store has to say to a question.

        Raises:
            DoxtrRagError: of the kind that the server names; ServerGoneError without an answer.
        """
        said = self._client.post(f"/search/{self._name}", wire.request_record(request))
        return wire.pools_of(said, self._name)

    def fetch(self, chunk_ids: Sequence[str]) -> dict[str, StoredChunk]:
        """Return chunks by id; unknown ids are left out.

        Raises:
            DoxtrRagError: as `pools` does.
        """
        said = self._client.post(f"/chunks/{self._name}", {"ids": list(chunk_ids)})
        return wire.chunks_of(said)

    def document(self, name: str) -> DocumentText:
        """Return a document by its name, `project/document`, or its source file.

        Raises:
            DoxtrRagError: as `pools` does.
        """
        said = self._client.post(f"/document/{self._name}", {"document": name})
        return wire.document_of(said)


class ServedEmbedder:
    """A model behind an `/embed` address; satisfies `Embedder`."""

    def __init__(self, client: JsonClient, *, fingerprint: str, dimension: int) -> None:
        self._client = client
        self.fingerprint = fingerprint
        self.dimension = dimension
        self._counts = EmbeddingCounts()

    @property
    def counts(self) -> EmbeddingCounts:
        """What was done since this embedder was made."""
        return self._counts

    def embed(self, texts: Sequence[str]) -> Iterator[list[tuple[int, Vector]]]:
        """Yield `(index into texts, vector)` batch by batch, longest texts first.

        Raises:
            EmbeddingError: the server's model is not usable, or is another one.
            ServerGoneError: the server does not answer.
        """
        order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        for batch in _batches(order, texts):
            vectors = self._vectors([texts[index] for index in batch], "passage")
            yield list(zip(batch, vectors, strict=True))

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a question.

        Raises:
            EmbeddingError: as `embed` does.
            ServerGoneError: the server does not answer.
        """
        return self._vectors([text], "query")[0]

    def _vectors(self, texts: Sequence[str], input_type: str) -> list[Vector]:
        body = {"input": list(texts), "encoding_format": "base64", "input_type": input_type}
        said = self._answer(body, QUERY_S if input_type == "query" else EMBED_S)
        try:
            fingerprint, usage = said["fingerprint"], said["usage"]
            vectors = [wire.vector_of(entry["embedding"]) for entry in said["data"]]
            counts = [usage[name] for name in ("prompt_tokens", "padded_tokens", "truncated")]
            added = EmbeddingCounts(len(texts), *map(int, counts))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise self._stranger() from error
        if fingerprint != self.fingerprint:
            raise EmbeddingError(
                f"{self._client.url} has loaded another model: run doxtr-rag serve --stop"
            )
        if len(vectors) != len(texts) or not all(map(self._is_vector, vectors)):
            raise self._stranger()
        self._counts += added
        return vectors

    def _answer(self, body: object, timeout_s: float) -> dict[str, Any]:
        try:
            return self._client.post("/embed", body, timeout_s)
        except EmbeddingError:
            raise
        except DoxtrRagError as error:
            raise EmbeddingError(str(error)) from error

    def _is_vector(self, vector: Vector) -> bool:
        has_length = len(vector) == FLOAT_BYTES * self.dimension
        return has_length and math.isfinite(math.hypot(*array("f", vector)))

    def _stranger(self) -> EmbeddingError:
        return EmbeddingError(
            f"{self._client.url} does not answer as doxtr-rag-embed-server does: correct or unset "
            "DOXTR_RAG_EMBED_URL"
        )


def _batches(order: Sequence[int], texts: Sequence[str]) -> Iterator[list[int]]:
    """Yield consecutive indexes, few enough and short enough for one request."""
    batch: list[int] = []
    characters = 0
    for index in order:
        if batch and (
            len(batch) == BATCH_TEXTS or characters + len(texts[index]) > BATCH_CHARACTERS
        ):
            yield batch
            batch, characters = [], 0
        batch.append(index)
        characters += len(texts[index])
    if batch:
        yield batch
