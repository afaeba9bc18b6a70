"""A knowledge base ready to be asked: through its server when one runs, else opened here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from threading import Lock

from doxtr_rag.bootstrap.lending import connect, query_embedder
from doxtr_rag.bootstrap.pages import BuiltPages, document_url, file_stamp, page_url
from doxtr_rag.bootstrap.project import STORE_NAMES, Project
from doxtr_rag.bootstrap.remotes import searchable
from doxtr_rag.config.conf_file import SETTINGS_NAME
from doxtr_rag.core.documents import StoredChunk
from doxtr_rag.core.errors import StoreError
from doxtr_rag.core.ports import Degradation, SearchableStore
from doxtr_rag.core.scope import Scope
from doxtr_rag.retrieval.retriever import Retriever
from doxtr_rag.servers.client import JsonClient, ServedStore
from doxtr_rag.servers.endpoints import FILE_NAME, TOKEN_NAME
from doxtr_rag.storage import corpus_stamp


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """What a question needs, and where its answers open."""

    retriever: Retriever
    stores: Sequence[SearchableStore]
    pages: BuiltPages
    client: JsonClient | None = None

    def page_url(self, chunk: StoredChunk) -> str:
        """Return where a chunk opens, as of the last build."""
        return page_url(chunk, self.pages.folder())

    def document_url(self, first: StoredChunk) -> str:
        """Return where a document opens that starts with a chunk; "" when nobody knows."""
        return document_url(first, self.pages.folder())

    def answers(self) -> bool:
        """Say whether the server that this one goes through is still there; without one, always."""
        return self.client is None or self.client.is_answered()


@contextmanager
def knowledge_base(project: Project, scopes: Sequence[Scope]) -> Iterator[KnowledgeBase]:
    """Open the stores of some scopes for questions; one that cannot be opened degrades answers.

    Raises:
        StoreError: none of them could be opened; IndexNotBuiltError when none was ever filled.
    """
    with ExitStack() as stack:
        client = connect(project)
        if client is not None:
            stack.callback(client.close)
        stores, failures = _opened(project, scopes, client, stack)
        asked = Retriever(
            fingerprint=project.profile.fingerprint,
            embedder=cache(lambda: query_embedder(project, client, stack)),
            stores=stores,
            degraded=[Degradation(error.kind, str(error)) for error in failures],
        )
        yield KnowledgeBase(asked, stores, BuiltPages(project), client)


def _opened(
    project: Project, scopes: Sequence[Scope], client: JsonClient | None, stack: ExitStack
) -> tuple[list[SearchableStore], list[StoreError]]:
    """Return the stores that can be asked, and why others cannot."""
    stores: list[SearchableStore] = []
    failures: list[StoreError] = []
    for scope in scopes:
        is_ours = project.settings.server_uri(scope) is None
        if client is not None and is_ours:
            stores.append(ServedStore(client, STORE_NAMES[scope], scope))
            continue
        try:
            reader = searchable(project, scope)
        except StoreError as error:
            failures.append(error)
        else:
            stack.enter_context(reader)
            stores.append(reader)
    if not stores:
        raise failures[0]
    return stores, failures


@dataclass(eq=False, slots=True)
class _Lease:
    """An open knowledge base, what it was opened from, and the number of questions that use it."""

    base: KnowledgeBase
    project: Project
    stamp: object
    resources: ExitStack
    users: int = 0


class StandingKnowledgeBase:
    """A knowledge base for a process that lives long: lent to each question as it is then.

    It is opened again when the project was configured anew, a store was replaced, or a server came
    or went. `find` and `prepare` run before each opening: the project as it is then, and a server
    for it where one is wanted.
    """

    def __init__(
        self,
        find: Callable[[], Project],
        prepare: Callable[[Project], None],
        scopes: Sequence[Scope] = tuple(Scope),
    ) -> None:
        self._find = find
        self._prepare = prepare
        self._scopes = scopes
        self._opening = Lock()
        self._counting = Lock()
        self._lease: _Lease | None = None

    @contextmanager
    def current(self) -> Iterator[KnowledgeBase]:
        """Lend the knowledge base of this moment; one that was replaced closes after its last use.

        Raises:
            ConfigError: the project's settings are unusable.
            StoreError: no store could be opened.
        """
        lease = self._taken()
        try:
            yield lease.base
        finally:
            self._give_back(lease)

    def close(self) -> None:
        """Let go of stores and model, as soon as no question uses them."""
        with self._opening:
            self._retire()

    def _taken(self) -> _Lease:
        with self._opening:
            lease = self._lease
            if lease is None or lease.stamp != _stamp(lease.project) or not lease.base.answers():
                self._retire()
                lease = self._opened()
            with self._counting:
                self._lease = lease
                lease.users += 1
            return lease

    def _opened(self) -> _Lease:
        project = self._find()
        self._prepare(project)
        # Taken first: what changes while it is opened is seen by the next question.
        stamp = _stamp(project)
        with ExitStack() as stack:
            base = stack.enter_context(knowledge_base(project, self._scopes))
            return _Lease(base, project, stamp, stack.pop_all())

    def _give_back(self, lease: _Lease) -> None:
        with self._counting:
            lease.users -= 1
            is_over = not lease.users and lease is not self._lease
        if is_over:
            lease.resources.close()

    def _retire(self) -> None:
        with self._counting:
            lease, self._lease = self._lease, None
            is_over = lease is not None and not lease.users
        if lease is not None and is_over:
            lease.resources.close()


def _stamp(project: Project) -> object:
    """Return what tells a project's settings, stores and server from what was there before."""
    settings = project.settings
    given = project.environment.endpoints
    endpoints = given or settings.state_dir / FILE_NAME
    files = [settings.state_dir / SETTINGS_NAME, endpoints, endpoints.with_name(TOKEN_NAME)]
    stores = [corpus_stamp(settings.store_path(scope)) for scope in Scope]
    return [file_stamp(file) for file in files], stores
