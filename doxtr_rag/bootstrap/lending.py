"""What a running server lends: its stores and its model, which it alone holds in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from doxtr_rag.bootstrap.project import Project, model
from doxtr_rag.core.documents import Vector
from doxtr_rag.core.errors import DoxtrRagError, ServerGoneError
from doxtr_rag.core.ports import Embedder, EmbeddingCounts
from doxtr_rag.core.version import VERSION
from doxtr_rag.indexing.vectors import Model
from doxtr_rag.servers.client import JsonClient, ServedEmbedder, prove
from doxtr_rag.servers.endpoints import FILE_NAME, read_endpoints, read_token
from doxtr_rag.storage import lock_holder

LOCK_FILE = "server.lock"


def connect(project: Project, *, of_any_version: bool = False) -> JsonClient | None:
    """Return a client of this knowledge base's running server, proven to be it; None without one.

    A server of another version of this package or of another model does not count, unless it is
    asked for. Without DOXTR_RAG_ENDPOINTS the server's lock has to be held here: a folder that is
    a copy of another has that one's endpoints and token.
    """
    given, state_dir = project.environment.endpoints, project.settings.state_dir
    if given is None and lock_holder(state_dir, LOCK_FILE) is None:
        return None
    place = given or state_dir / FILE_NAME
    try:
        endpoints, token = read_endpoints(place.parent, place.name), read_token(place.parent)
    except DoxtrRagError:
        return None
    if endpoints is None or endpoints.api_url is None or token is None:
        return None
    if endpoints.fingerprint != project.profile.fingerprint and not of_any_version:
        return None
    client = JsonClient(endpoints.api_url)
    try:
        version = prove(client, endpoints.kb_id, token)
    except DoxtrRagError:
        version = ""
    if version and (of_any_version or version == VERSION):
        return client
    client.close()
    return None


def query_embedder(project: Project, client: JsonClient | None, stack: ExitStack) -> Embedder:
    """Return what embeds a question: the address in the environment, the server, a model here."""
    return _served_embedder(project, client, stack) or model(project).embedder()


def lent_model(project: Project, stack: ExitStack) -> Model:
    """Return the project's model for a build; a server that runs does the embedding.

    `stack` closes the connection to it.
    """
    own = model(project)

    def embedder() -> Embedder:
        client = connect(project)
        if client is not None:
            stack.callback(client.close)
        served = _served_embedder(project, client, stack)
        return own.embedder() if served is None else LentEmbedder(served, own.embedder)

    return Model(own.fingerprint, own.dimension, own.counter, embedder)


def _served_embedder(
    project: Project, client: JsonClient | None, stack: ExitStack
) -> ServedEmbedder | None:
    url = project.environment.embed_url
    if url is not None:
        client = JsonClient(url.removesuffix("/").removesuffix("/embed"))
        stack.callback(client.close)
    if client is None:
        return None
    profile = project.profile
    return ServedEmbedder(client, fingerprint=profile.fingerprint, dimension=profile.dimension)


class LentEmbedder:
    """A server's model for as long as the server answers, then one loaded here."""

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
        except ServerGoneError:
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
        except ServerGoneError:
            return self._own().embed_query(text)
