"""A knowledge base ready to be asked: through its server when one runs, else opened here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock

from doxtr_rag.bootstrap.lending import connect, query_embedder
from doxtr_rag.bootstrap.pages import pages_folder
from doxtr_rag.bootstrap.project import STORE_NAMES, Project
from doxtr_rag.core.errors import DoxtrRagError, StoreError
from doxtr_rag.core.ports import Degradation, SearchableStore
from doxtr_rag.core.scope import Scope
from doxtr_rag.retrieval.retriever import Retriever
from doxtr_rag.servers.client import JsonClient, ServedStore
from doxtr_rag.storage import open_reader


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """What a question needs; `pages` is where the last build wrote its pages."""

    retriever: Retriever
    stores: Sequence[SearchableStore]
    pages: Path | None
    client: JsonClient | None = None

    def answers(self) -> bool:
        """Say whether the server that this one goes through still runs; without one, always."""
        if self.client is None:
            return True
        try:
            self.client.get("/health")
        except DoxtrRagError:
            return False
        return True


@contextmanager
def knowledge_base(project: Project, scopes: Sequence[Scope]) -> Iterator[KnowledgeBase]:
    """Open the stores of some scopes for questions; one that cannot be opened degrades answers.

    Raises:
        StoreError: none of them could be opened; IndexNotBuiltError when none was ever filled.
    """
    with ExitStack() as stack:
        client = connect(project)
        failures: list[StoreError] = []
        if client is None:
            stores, failures = _readers(project, scopes, stack)
        else:
            stack.callback(client.close)
            stores = [ServedStore(client, STORE_NAMES[scope], scope) for scope in scopes]
        asked = Retriever(
            fingerprint=project.profile.fingerprint,
            embedder=cache(lambda: query_embedder(project, client, stack)),
            stores=stores,
            degraded=[Degradation(error.kind, str(error)) for error in failures],
        )
        yield KnowledgeBase(asked, stores, pages_folder(project), client)


def _readers(
    project: Project, scopes: Sequence[Scope], stack: ExitStack
) -> tuple[list[SearchableStore], list[StoreError]]:
    stores: list[SearchableStore] = []
    failures: list[StoreError] = []
    for scope in scopes:
        try:
            reader = open_reader(project.settings.store_path(scope), scope, STORE_NAMES[scope])
        except StoreError as error:
            failures.append(error)
        else:
            stores.append(stack.enter_context(reader))
    if not stores:
        raise failures[0]
    return stores, failures


class StandingKnowledgeBase:
    """A knowledge base for a process that lives long: opened once, and again when its server goes.

    `find` and `prepare` run before each opening: the project as it is then, and a server for it
    where one is wanted.
    """

    def __init__(self, find: Callable[[], Project], prepare: Callable[[Project], None]) -> None:
        self._find = find
        self._prepare = prepare
        self._opening = Lock()
        self._open = ExitStack()
        self._base: KnowledgeBase | None = None

    def current(self) -> KnowledgeBase:
        """Return the knowledge base as it can be asked at this moment.

        Raises:
            ConfigError: the project's settings are unusable.
            StoreError: no store could be opened.
        """
        with self._opening:
            if self._base is None or not self._base.answers():
                self.close()
                project = self._find()
                self._prepare(project)
                opened = knowledge_base(project, list(Scope))
                self._base = self._open.enter_context(opened)
            return self._base

    def close(self) -> None:
        """Let go of stores and model."""
        self._base = None
        self._open.close()
