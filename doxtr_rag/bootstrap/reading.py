"""Everything that only looks: questions, status, and the proof that questions can be asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from doxtr_rag.bootstrap.index_health import check_indexes
from doxtr_rag.bootstrap.pages import read_cached
from doxtr_rag.bootstrap.project import STORE_NAMES, Project, model
from doxtr_rag.bootstrap.remotes import ONE_SERVER, is_one_server, remote_reader, searchable
from doxtr_rag.bootstrap.retrying import SPHINX_ORIGIN
from doxtr_rag.bootstrap.runs_seen import FailureSeen, RunSeen, seen_ledger
from doxtr_rag.core.errors import (
    DoxtrRagError,
    IndexNotBuiltError,
    StoreError,
    UnknownDocumentError,
    WeightsMissingError,
)
from doxtr_rag.core.ports import Degradation, DocumentRecord, Embedder
from doxtr_rag.core.scope import Scope
from doxtr_rag.embedding import weights
from doxtr_rag.retrieval.health import Check, probe
from doxtr_rag.storage import StoreStats, stats

T = TypeVar("T")

INDEX_STATES = {
    "index_dirty": "the index is behind: run sphinx-build",
    IndexNotBuiltError.kind: "its server has no such collection: run sphinx-build",
}
NOT_ASKED = "its server cannot be asked: doxtr-rag doctor says why"


@dataclass(frozen=True, slots=True)
class Overview:
    """What `status` tells; a store that was never filled is None."""

    project: str
    root: Path
    profile: str
    stores: Mapping[str, StoreStats | None]
    runs: Sequence[RunSeen]
    failures: Sequence[FailureSeen]
    degraded: Sequence[Degradation]


def overview(project: Project, runs: int) -> Overview:
    """Look at both stores, without a model and without opening an index.

    Raises:
        StoreError: a corpus cannot be read.
    """
    settings = project.settings
    stores = {STORE_NAMES[scope]: _stats(project, scope) for scope in Scope}
    last_runs, failures = seen_ledger(project, runs)
    return Overview(
        project=settings.project,
        root=settings.root,
        profile=settings.profile,
        stores=stores,
        runs=last_runs,
        failures=failures,
        degraded=[
            Degradation(found.index, f"{name}: {INDEX_STATES.get(found.index, NOT_ASKED)}")
            for name, found in stores.items()
            if found is not None and found.index != "ready"
        ],
    )


def _stats(project: Project, scope: Scope) -> StoreStats | None:
    try:
        found = stats(project.settings.store_path(scope))
    except IndexNotBuiltError:
        return None
    if project.settings.server_uri(scope) is None:
        return found
    return replace(found, index=_index_there(project, scope))


def _index_there(project: Project, scope: Scope) -> str:
    try:
        remote = remote_reader(project, scope)
        if remote is not None:
            with remote:
                remote.count()
    except DoxtrRagError as error:
        return error.kind
    return "ready"


def document_record(project: Project, document: str) -> DocumentRecord:
    """Return what the last build knew of a document, given its name or its source file.

    Raises:
        UnknownDocumentError: no build has seen it; the message has near names.
    """
    nothing: dict[str, DocumentRecord] = {}
    name = project.settings.project
    known = read_cached(project, nothing, lambda cache: cache.documents(name, SPHINX_ORIGIN))
    by_file = {record.source_file: record for record in known.values()}
    found = known.get(document) or by_file.get(document)
    if found is None:
        near = get_close_matches(document, [*known, *by_file], n=3)
        hint = f"did you mean {', '.join(near)}?" if near else "run sphinx-build first"
        raise UnknownDocumentError(document, f"no build has seen this document: {hint}")
    return found


def diagnose(
    project: Project, *, is_deep: bool = False, is_recall_measured: bool = False
) -> list[Check]:
    """Check runtime, weights and every store with a real probe; nothing is raised.

    `is_deep` compares every record of the indexes with the corpora, `is_recall_measured` what a
    search through the indexes finds with what is there.
    """
    looks = check_indexes(project, is_deep=is_deep, is_recall_measured=is_recall_measured)
    return [*_diagnose(project), *looks]


def _diagnose(project: Project) -> list[Check]:
    checks = [_runtime_check()]
    try:
        embedder = model(project).embedder()
    except DoxtrRagError as error:
        checks.append(Check("model", error.kind, str(error)))
        return checks + [_unprobed(project, scope) for scope in Scope]
    checks.append(Check("model", "ready", f"{project.settings.profile} is loaded and verified"))
    checks += [_probed(project, scope, embedder) for scope in Scope]
    if is_one_server(project):
        checks.append(Check("isolation", "ready", ONE_SERVER))
    if not any(found is not None and found.chunks for found in _all_stats(project)):
        detail = "nothing is stored: run sphinx-build, doxtr-rag status says how the last one ended"
        checks.append(Check("knowledge base", IndexNotBuiltError.kind, detail))
    return checks


def _probed(project: Project, scope: Scope, embedder: Embedder) -> Check:
    try:
        with searchable(project, scope) as reader:
            return probe(reader, embedder)
    except DoxtrRagError as error:
        return Check(STORE_NAMES[scope], error.kind, str(error))


def _all_stats(project: Project) -> Iterator[StoreStats | None]:
    for scope in Scope:
        with suppress(StoreError):
            yield _stats(project, scope)


def _runtime_check() -> Check:
    from doxtr_rag.embedding.session import runtime_packages  # noqa: PLC0415 - see module

    installed = runtime_packages()
    if len(installed) == 1:
        return Check("runtime", "ready", f"{installed[0]} is installed")
    found = " and ".join(installed) or "neither onnxruntime nor onnxruntime-gpu"
    detail = f"{found} installed, exactly one is needed: see docs/howto/gpu"
    return Check("runtime", "provider_fallback", detail)


def _unprobed(project: Project, scope: Scope) -> Check:
    found = _stats(project, scope)
    name = STORE_NAMES[scope]
    if found is None:
        return Check(name, IndexNotBuiltError.kind, "never filled: run sphinx-build")
    return Check(name, WeightsMissingError.kind, "cannot be asked without its model")


@dataclass(frozen=True, slots=True)
class Place:
    """A file or folder of ours on this machine; `size` in bytes."""

    name: str
    path: Path
    exists: bool
    size: int


def places(project: Project) -> list[Place]:
    """Return where models, caches and stores of a project lie."""
    settings, folders = project.settings, project.folders
    found = {
        "shared store": settings.shared_store_path,
        "private store": settings.local_store_path,
        "build cache": settings.cache_db,
        "model": weights.locate(project.profile, folders),
        "user cache": folders.cache,
    }
    return [_place(name, path) for name, path in found.items()]


def _place(name: str, path: Path) -> Place:
    try:
        files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
        return Place(name, path, path.exists(), sum(file.stat().st_size for file in files))
    except PermissionError:
        return Place(name, path, exists=True, size=0)
