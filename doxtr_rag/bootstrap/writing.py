"""Everything that changes a store: a build's ingestion, and a rebuild of what is derived."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

from doxtr_rag.bootstrap.lending import lent_model
from doxtr_rag.bootstrap.pages import PAGES_KEY
from doxtr_rag.bootstrap.project import STORE_NAMES, Project
from doxtr_rag.config.conf_file import save_settings
from doxtr_rag.config.settings import ProjectSettings
from doxtr_rag.core.documents import Harvest
from doxtr_rag.core.errors import (
    DoxtrRagError,
    IndexNotBuiltError,
    StoreError,
    StoreUnavailableError,
)
from doxtr_rag.core.ports import ChunkStore, Progress
from doxtr_rag.core.scope import Scope
from doxtr_rag.indexing.engine import IngestionEngine, RunOptions
from doxtr_rag.indexing.report import RunReport
from doxtr_rag.indexing.vectors import Model
from doxtr_rag.indexing.withdrawal import privacy, withdraw_private
from doxtr_rag.storage import (
    BuildCache,
    EmbeddedStore,
    StoreLock,
    open_reader,
    open_store,
    refresh_indexes,
    stats,
)

BUILD_WAIT_S = 60.0
"""How long a build waits for another writer (retrieval R19)."""

Say = Callable[[str], None]


def ingest(
    project: Project, harvest: Harvest, progress: Progress, pages: Path | None, say: Say
) -> RunReport:
    """Converge both stores with a harvest and remember the run.

    Raises:
        StoreLockedError: another process owns a store for longer than a build waits.
        DoxtrRagError: whatever the engine raises; the run ledger keeps it.
    """
    settings = project.settings
    with ExitStack() as stack:
        stack.enter_context(_settings_left(settings))
        try:
            stores = _own_stores(settings, stack, say)
        except DoxtrRagError as error:
            leak = _withdraw_alone(settings, harvest, say)
            if leak:
                raise StoreUnavailableError(f"{error}; {leak}") from error
            raise
        build_cache = stack.enter_context(closing(BuildCache(settings.cache_db)))
        engine = _engine(project, lent_model(project, stack), stores, build_cache, progress)
        with _recorded(stores[Scope.LOCAL_PRIVATE], harvest) as record:
            report = engine.ingest(harvest)
            record(report)
        if pages is not None:
            build_cache.set_value(PAGES_KEY, str(pages))
    return report


def _own_stores(
    settings: ProjectSettings, stack: ExitStack, say: Say
) -> dict[Scope, EmbeddedStore]:
    """Lock both stores, the private one first so that two builds never wait in a circle."""
    stores = {}
    for scope in (Scope.LOCAL_PRIVATE, Scope.SHARED_ORG):
        folder = settings.store_path(scope)
        stack.enter_context(_locked(folder, say))
        stores[scope] = stack.enter_context(open_store(folder, scope, STORE_NAMES[scope]))
    return stores


@contextmanager
def _settings_left(settings: ProjectSettings) -> Iterator[None]:
    """Leave the settings for the command line; a failure counts once all else is done."""
    failure = None
    try:
        save_settings(settings)
    except StoreError as error:
        failure = error
    yield
    if failure is not None:
        raise failure


def _withdraw_alone(settings: ProjectSettings, harvest: Harvest, say: Say) -> str:
    """Take what turned private out of the shared store, whatever ails the private one.

    Returns what to say when that could not be done.
    """
    if not privacy(harvest, {}).private:
        return ""
    scope = Scope.SHARED_ORG
    folder = settings.store_path(scope)
    try:
        open_reader(folder, scope, STORE_NAMES[scope]).close()
        with (
            StoreLock(folder).acquired(0, say),
            open_store(folder, scope, STORE_NAMES[scope]) as store,
        ):
            withdraw_private(harvest, store)
    except IndexNotBuiltError:
        return ""
    except DoxtrRagError as error:
        return f"what turned private may still be in the shared store: {error}"
    return ""


def _locked(folder: Path, say: Say) -> AbstractContextManager[StoreLock]:
    return StoreLock(folder).acquired(
        BUILD_WAIT_S, lambda who: say(f"doxtr_rag: store {folder.name} waits for {who}")
    )


def _engine(
    project: Project,
    model: Model,
    stores: Mapping[Scope, EmbeddedStore],
    build_cache: BuildCache,
    progress: Progress,
) -> IngestionEngine:
    settings, profile = project.settings, project.profile

    def refresh(outdated: Sequence[ChunkStore]) -> None:
        refresh_indexes([s for s in stores.values() if s in outdated], profile.collection)

    return IngestionEngine(
        model=model,
        stores=stores,
        cache=build_cache,
        options=RunOptions(settings.chunk_limits(profile), allow_shrink=settings.allow_shrink),
        refresh_indexes=refresh,
        progress=progress,
    )


@contextmanager
def _recorded(store: EmbeddedStore, harvest: Harvest) -> Iterator[Callable[[RunReport], None]]:
    """Write the run into the ledger, whichever way it ends; a run that did nothing leaves none."""
    started = _now()

    def write(status: str, report: Mapping[str, object]) -> None:
        store.record_run(
            harvest.project, harvest.origin, started, _now(), status, json.dumps(report)
        )

    def record(report: RunReport) -> None:
        if not (report.is_unchanged and report.is_complete):
            write("succeeded" if report.is_complete else "incomplete", report.to_json())
            store.record_failures(harvest.project, harvest.origin, report.failures)

    try:
        yield record
    except DoxtrRagError as error:
        with suppress(StoreError):  # the ledger may be what failed
            write("failed", {"error": error.kind, "message": str(error)})
        raise


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def rebuild(project: Project, scopes: Sequence[Scope], say: Say) -> dict[str, int]:
    """Derive the indexes of some stores again; return the chunks each serves, by store.

    Raises:
        IndexNotBuiltError: a store was never filled.
        StoreLockedError: another process owns a store.
    """
    served = {}
    for scope in scopes:
        folder = project.settings.store_path(scope)
        open_reader(folder, scope, STORE_NAMES[scope]).close()
        with _locked(folder, say), open_store(folder, scope, STORE_NAMES[scope]) as store:
            store.rebuild()
        served[STORE_NAMES[scope]] = stats(folder).chunks
    return served
