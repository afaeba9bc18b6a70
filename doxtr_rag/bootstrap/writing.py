"""Everything that changes a store: a build's ingestion, and a rebuild of what is derived."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from doxtr_rag.bootstrap.lending import lent_model
from doxtr_rag.bootstrap.locking import BUILD_WAIT_S, Say
from doxtr_rag.bootstrap.monitoring import RunMonitor
from doxtr_rag.bootstrap.pages import PAGES_KEY
from doxtr_rag.bootstrap.project import STORE_NAMES, Project
from doxtr_rag.bootstrap.run_stores import (
    RunStores,
    open_run_stores,
    own_store,
    require_nothing_left,
)
from doxtr_rag.bootstrap.siblings import siblings
from doxtr_rag.config.conf_file import save_settings
from doxtr_rag.config.settings import ProjectSettings
from doxtr_rag.core.documents import Harvest
from doxtr_rag.core.errors import (
    DoxtrRagError,
    IndexNotBuiltError,
    StoreError,
    StoreUnavailableError,
)
from doxtr_rag.core.ports import Progress
from doxtr_rag.core.scope import Scope
from doxtr_rag.indexing.engine import IngestionEngine, RunOptions
from doxtr_rag.indexing.report import RunReport
from doxtr_rag.indexing.vectors import Model
from doxtr_rag.indexing.withdrawal import privacy, withdraw_private
from doxtr_rag.storage import (
    BuildCache,
    RunLedger,
    RunRequests,
    SiblingCorpora,
    open_reader,
    stats,
)


def ingest(
    project: Project, harvest: Harvest, progress: Progress, pages: Path | None, say: Say
) -> RunReport:
    """Converge both stores with a harvest and remember the run.

    Raises:
        StoreLockedError: another process owns a store for longer than a build waits.
        RunStoppedError: somebody stopped the run; what it saved is kept.
        DoxtrRagError: whatever the engine raises; the run ledger keeps it.
    """
    settings = project.settings

    def told(phase: str, done: int, total: int) -> None:
        monitor(phase, done, total)

    with ExitStack() as stack:
        stack.enter_context(_settings_left(settings))
        try:
            stores = open_run_stores(project, stack, say, told)
        except DoxtrRagError as error:
            leak = _withdraw_alone(project, harvest, say)
            if leak:
                raise StoreUnavailableError(f"{error}; {leak}") from error
            raise
        ledger = stores.ledger
        requests = RunRequests(settings.store_path(Scope.LOCAL_PRIVATE))
        monitor = RunMonitor(ledger, requests, progress, say)
        build_cache = stack.enter_context(closing(BuildCache(settings.cache_db)))
        model = _model_with_donor(project, ledger, stack, say)
        engine = _engine(project, model, stores, build_cache, monitor)
        with monitor.recorded(harvest.project, harvest.origin):
            report = engine.ingest(harvest)
            require_nothing_left(project, stores, harvest)
            if monitor.is_begun or not (report.is_unchanged and report.is_complete):
                monitor.finish(report.to_json(), is_complete=report.is_complete)
                ledger.record_failures(harvest.project, harvest.origin, report.failures)
        if pages is not None:
            build_cache.set_value(PAGES_KEY, str(pages))
    return replace(report, warnings=tuple(stores.warnings))


def _model_with_donor(project: Project, ledger: RunLedger, stack: ExitStack, say: Say) -> Model:
    """Return the model of a build, and whoever has vectors that it made before."""
    donor = SiblingCorpora(lambda: siblings(project), say)
    stack.callback(donor.close)

    def known_pace() -> float | None:
        own = ledger.known_pace()
        return donor.known_pace() if own is None else own

    return replace(lent_model(project, stack), donor=donor, known_pace=known_pace)


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


def _withdraw_alone(project: Project, harvest: Harvest, say: Say) -> str:
    """Take what turned private out of the shared store, whatever ails the private one.

    Returns what to say when that could not be done.
    """
    if not privacy(harvest, {}).private:
        return ""
    scope = Scope.SHARED_ORG
    try:
        open_reader(project.settings.store_path(scope), scope, STORE_NAMES[scope]).close()
        with own_store(project, scope, say, wait_s=0) as store:
            withdraw_private(harvest, store)
    except IndexNotBuiltError:
        return ""
    except DoxtrRagError as error:
        return f"what turned private may still be in the shared store: {error}"
    return ""


def _engine(
    project: Project,
    model: Model,
    stores: RunStores,
    build_cache: BuildCache,
    monitor: RunMonitor,
) -> IngestionEngine:
    settings, profile = project.settings, project.profile

    return IngestionEngine(
        model=model,
        stores=stores.by_scope,
        cache=build_cache,
        options=RunOptions(
            settings.chunk_limits(profile), settings.allow_shrink, monitor, stores.skipped
        ),
        refresh_indexes=lambda outdated: stores.refresh(outdated, profile.collection),
        progress=monitor,
    )


def rebuild(
    project: Project,
    scopes: Sequence[Scope],
    say: Say,
    *,
    wait_s: float = BUILD_WAIT_S,
    is_dry: bool = False,
) -> dict[str, int]:
    """Derive the indexes of some stores again; return the chunks each serves, by store.

    Raises:
        IndexNotBuiltError: a store was never filled.
        StoreLockedError: another process owns a store.
    """
    served = {}
    for scope in scopes:
        folder = project.settings.store_path(scope)
        open_reader(folder, scope, STORE_NAMES[scope]).close()
        if not is_dry:
            with own_store(project, scope, say, wait_s) as store:
                store.rebuild()
        served[STORE_NAMES[scope]] = stats(folder).chunks
    return served
