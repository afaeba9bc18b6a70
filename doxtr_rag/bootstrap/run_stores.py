"""The stores of a run: locked and opened, or left alone for a reason that is said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from doxtr_rag.bootstrap.locking import BUILD_WAIT_S, Say, locked
from doxtr_rag.bootstrap.project import STORE_NAMES, Project
from doxtr_rag.bootstrap.remotes import (
    ONE_SERVER,
    is_one_server,
    remote_access,
    remote_address,
    searchable,
)
from doxtr_rag.core.documents import Harvest
from doxtr_rag.core.errors import IndexNotBuiltError, StoreError, StoreReadOnlyError
from doxtr_rag.core.ports import ChunkStore, Progress
from doxtr_rag.core.scope import Scope
from doxtr_rag.indexing.withdrawal import privacy
from doxtr_rag.storage import (
    EmbeddedStore,
    RunLedger,
    SkippedStore,
    is_read_only,
    open_store,
    refresh_indexes,
)
from doxtr_rag.storage.remote import RemoteStore

WrittenStore: TypeAlias = "EmbeddedStore | RemoteStore"


@dataclass(slots=True)
class RunStores:
    """The stores that a run converges; `warnings` is what the build has to tell its user."""

    private: WrittenStore
    shared: WrittenStore | SkippedStore
    warnings: list[str] = field(default_factory=list)

    @property
    def by_scope(self) -> Mapping[Scope, ChunkStore]:
        """Both stores."""
        return {Scope.LOCAL_PRIVATE: self.private, Scope.SHARED_ORG: self.shared}

    @property
    def skipped(self) -> frozenset[Scope]:
        """The scopes that the run leaves alone."""
        return frozenset([Scope.SHARED_ORG] if isinstance(self.shared, SkippedStore) else [])

    @property
    def ledger(self) -> RunLedger:
        """Where runs and failures are recorded."""
        return self.private.ledger

    def refresh(self, outdated: Sequence[ChunkStore], collection: str) -> None:
        """Bring indexes up to their corpora, those on this machine first.

        Raises:
            StoreError: one of them could not be; the others were.
        """
        stale = [store for store in (self.private, self.shared) if store in outdated]
        here = [store for store in stale if isinstance(store, EmbeddedStore)]
        there = [store for store in stale if isinstance(store, RemoteStore)]
        failures: list[StoreError] = []
        for refresh in (
            lambda: refresh_indexes(here, collection),
            *(s.refresh_index for s in there),
        ):
            try:
                refresh()
            except StoreError as error:
                failures.append(error)
        if failures:
            raise failures[0]


def open_run_stores(project: Project, stack: ExitStack, say: Say, progress: Progress) -> RunStores:
    """Lock and open both stores, the private one first so that no two builds wait in a circle.

    `progress` is told how far an upload is.

    Raises:
        StoreLockedError: another process owns a store for longer than a build waits.
        StoreError: a store cannot be opened.
    """
    private = stack.enter_context(own_store(project, Scope.LOCAL_PRIVATE, say, progress=progress))
    stores = RunStores(private, _shared_store(project, stack, say, progress))
    if isinstance(stores.shared, SkippedStore):
        say(f"doxtr_rag: {stores.shared.reason}: shared ingestion is skipped")
    if is_one_server(project):
        stores.warnings.append(ONE_SERVER)
    for store in (stores.private, stores.shared):
        if isinstance(store, RemoteStore) and store.left_behind:
            stores.warnings.append(
                f"chunks that turned private may still be at {store.left_behind}, the address of "
                f"the {store.name} store before: delete them there"
            )
    return stores


def _shared_store(
    project: Project, stack: ExitStack, say: Say, progress: Progress
) -> WrittenStore | SkippedStore:
    scope = Scope.SHARED_ORG
    folder = project.settings.store_path(scope)
    if is_read_only(folder):
        return SkippedStore(scope, f"the shared store {folder} is read-only")
    store = stack.enter_context(own_store(project, scope, say, progress=progress))
    if isinstance(store, RemoteStore) and not _lets_us_write(store):
        return SkippedStore(scope, f"the shared store at {store.address.origin} is read-only")
    return store


def _lets_us_write(store: RemoteStore) -> bool:
    try:
        return store.is_writable()
    except StoreError:
        # It cannot be asked. The corpus is filled, and the server catches up in a later run.
        return True


@contextmanager
def own_store(
    project: Project,
    scope: Scope,
    say: Say,
    wait_s: float = BUILD_WAIT_S,
    progress: Progress | None = None,
) -> Iterator[WrittenStore]:
    """Open one store and hold its lock.

    Raises:
        StoreLockedError: another process owns it for longer than that.
        StoreError: it cannot be opened.
    """
    folder, name = project.settings.store_path(scope), STORE_NAMES[scope]
    address = remote_address(project, scope)
    with locked(folder, say, wait_s), ExitStack() as stack:
        store: WrittenStore
        if address is None:
            store = stack.enter_context(open_store(folder, scope, name))
        else:
            access = remote_access(project, scope)
            store = stack.enter_context(RemoteStore(folder, scope, name, address, access, progress))
        yield store


def require_nothing_left(project: Project, stores: RunStores, harvest: Harvest) -> None:
    """Refuse a green run where a store that cannot be written still has what turned private.

    Raises:
        StoreReadOnlyError: naming the documents.
        StoreError: the store cannot be asked.
    """
    if not isinstance(stores.shared, SkippedStore):
        return
    scope = Scope.SHARED_ORG
    private = privacy(harvest, {}).private
    try:
        with searchable(project, scope) as reader:
            left = [d for d in sorted(private) if reader.document(f"{harvest.project}/{d}").chunks]
    except IndexNotBuiltError:
        return
    if left:
        raise StoreReadOnlyError(
            f"{stores.shared.reason}, and it still has documents that are private by now "
            f"({', '.join(left[:5])}): build where it can be written, at once"
        )
