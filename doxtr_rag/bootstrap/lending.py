"""What a running server lends: its stores and its model, which it alone holds in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from doxtr_rag.bootstrap.addresses import LOCK_FILE
from doxtr_rag.bootstrap.project import Project, model
from doxtr_rag.core.documents import Vector
from doxtr_rag.core.errors import DoxtrRagError, EmbeddingError, ServerGoneError
from doxtr_rag.core.ports import Embedder, EmbeddingCounts
from doxtr_rag.core.version import VERSION
from doxtr_rag.indexing.vectors import Model
from doxtr_rag.servers.client import JsonClient, ServedEmbedder, prove
from doxtr_rag.servers.endpoints import FILE_NAME, Endpoints, read_endpoints, read_token
from doxtr_rag.storage import lock_holder, lock_identity

NOT_RUNNING = "no server of this knowledge base runs: start it with doxtr-rag serve --detach"


class NotPublishedError(ServerGoneError):
    """No server says where it answers."""


def connect(project: Project) -> JsonClient | None:
    """Return a client of this knowledge base's running server, proven to be it; None without one.

    A server of another version of this package or of another model does not count.
    """
    try:
        found = reach(project)
    except DoxtrRagError:
        return None
    if found.version == VERSION and found.endpoints.fingerprint == project.profile.fingerprint:
        return found.client
    found.client.close()
    return None


@dataclass(frozen=True, slots=True)
class ReachedServer:
    """A server that proved to be the one looked for; `client` is the caller's to close."""

    client: JsonClient
    endpoints: Endpoints
    version: str


def reach(project: Project) -> ReachedServer:
    """Return this knowledge base's running server, of whatever version and model.

    A folder that is a copy of another has that one's endpoints and token, but not its lock.
    Without DOXTR_RAG_ENDPOINTS the lock has to be held here.

    Raises:
        ConfigError: what it published is unusable.
        NotPublishedError: none runs, or it has not published where yet.
        ServerGoneError: it does not answer.
    """
    given, state_dir = project.environment.endpoints, project.settings.state_dir
    if given is None and lock_holder(state_dir, LOCK_FILE) is None:
        raise NotPublishedError(NOT_RUNNING)
    place = given or state_dir / FILE_NAME
    endpoints, token = read_endpoints(place.parent, place.name), read_token(place.parent)
    if endpoints is None or endpoints.api_url is None or token is None:
        raise NotPublishedError(NOT_RUNNING)
    beside = lock_identity(place.parent, LOCK_FILE)
    if beside is not None and endpoints.lock not in (None, beside):
        raise NotPublishedError(NOT_RUNNING)
    client = JsonClient(endpoints.api_url)
    try:
        version = prove(client, endpoints.kb_id, token)
    except DoxtrRagError:
        client.close()
        raise
    return ReachedServer(client, endpoints, version)


def query_embedder(project: Project, client: JsonClient | None, stack: ExitStack) -> Embedder:
    """Return what embeds a question: the address in the environment, the server, a model here."""
    elsewhere = _embedder_elsewhere(project, stack)
    if elsewhere or client is None:
        return elsewhere or model(project).embedder()
    return _of_server(project, client)


def lent_model(project: Project, stack: ExitStack) -> Model:
    """Return the project's model for a build; a server that runs does the embedding.

    `stack` closes the connection to it.
    """
    own = model(project)

    def embedder() -> Embedder:
        elsewhere = _embedder_elsewhere(project, stack)
        client = None if elsewhere else connect(project)
        if client is None:
            return elsewhere or own.embedder()
        stack.callback(client.close)
        return LentEmbedder(_of_server(project, client), own.embedder)

    return Model(own.fingerprint, own.dimension, own.counter, embedder)


def _embedder_elsewhere(project: Project, stack: ExitStack) -> Embedder | None:
    """Return the model at DOXTR_RAG_EMBED_URL, which no other may stand in for."""
    url = project.environment.embed_url
    if url is None:
        return None
    client = JsonClient(url.removesuffix("/").removesuffix("/embed"))
    stack.callback(client.close)
    return _of_server(project, client)


def _of_server(project: Project, client: JsonClient) -> ServedEmbedder:
    profile = project.profile
    return ServedEmbedder(client, fingerprint=profile.fingerprint, dimension=profile.dimension)


class LentEmbedder:
    """A server's model for as long as that one is of use, then one loaded here."""

    def __init__(self, served: Embedder, own: Callable[[], Embedder]) -> None:
        self._served = served
        self._own = own
        self._used: list[Embedder] = [served]

    @property
    def fingerprint(self) -> str:
        """The identity of the model."""
        return self._served.fingerprint

    @property
    def dimension(self) -> int:
        """The number of components of a vector."""
        return self._served.dimension

    @property
    def counts(self) -> EmbeddingCounts:
        """What was done since this embedder was made, wherever it was done."""
        total = EmbeddingCounts()
        for embedder in self._used:
            total += embedder.counts
        return total

    def embed(self, texts: Sequence[str]) -> Iterator[list[tuple[int, Vector]]]:
        """Yield `(index into texts, vector)` batch by batch.

        Raises:
            EmbeddingError: neither model is usable.
        """
        left = list(range(len(texts)))
        try:
            for batch in self._used[-1].embed(texts):
                yield batch
                done = {index for index, _ in batch}
                left = [index for index in left if index not in done]
        except (ServerGoneError, EmbeddingError):
            own = self._own()
            self._used.append(own)
            for batch in own.embed([texts[index] for index in left]):
                yield [(left[index], vector) for index, vector in batch]

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a question.

        Raises:
            EmbeddingError: neither model is usable.
        """
        try:
            return self._served.embed_query(text)
        except (ServerGoneError, EmbeddingError):
            return self._own().embed_query(text)
