"""The inside of a running server: model, stores and ports put together."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from doxtr_rag.bootstrap.addresses import Publication
from doxtr_rag.bootstrap.pages import BuiltPages, built_page
from doxtr_rag.bootstrap.project import STORE_NAMES, Project, embedder_maker
from doxtr_rag.core.profiles import EmbeddingProfile
from doxtr_rag.core.scope import Scope
from doxtr_rag.core.version import VERSION
from doxtr_rag.embedding.weights import ModelFolders
from doxtr_rag.servers.app import Threads, api_app, chroma_app
from doxtr_rag.servers.chroma_api import ChromaRoutes, CollectionNames
from doxtr_rag.servers.endpoints import Endpoints
from doxtr_rag.servers.gate import App, Gate
from doxtr_rag.servers.identity import make_token
from doxtr_rag.servers.lifecycle import bind, port_of, run
from doxtr_rag.servers.model import ModelHost, ModelNames
from doxtr_rag.servers.stores import OpenStore, ServedStore, StoreHealth
from doxtr_rag.storage import CollectionView, StoreLock, corpus_stamp, open_reader, summary
from doxtr_rag.storage.schema import CORPUS_FILE

Say = Callable[[str], None]


def model_host(profile: EmbeddingProfile, folders: ModelFolders, device: str) -> ModelHost:
    """Return a model, not loaded yet."""
    names = ModelNames(profile.name, profile.model, profile.dimension, profile.fingerprint)
    return ModelHost(names, lambda: embedder_maker(profile, folders, device))


def host(
    project: Project, base: Endpoints, lock: StoreLock, idle_s: float | None, say: Say
) -> None:
    """Serve a knowledge base until something ends it; its addresses are there while it answers.

    Raises:
        PortTakenError: no port can be had.
        StoreUnavailableError: its addresses cannot be written.
    """
    stores = _stores(project, base)
    listeners = _listeners(project, base)
    ports = {name: port_of(listener) for name, listener in listeners.items()}
    endpoints = replace(_placed(base, ports), lock=lock.identity())
    threads, token = Threads(), make_token()
    model = model_host(project.profile, project.folders, project.settings.device)
    apps = _apps(endpoints, stores, threads)
    started = {"started": datetime.now(timezone.utc).isoformat(timespec="seconds")}
    pages = BuiltPages(project)
    apps[endpoints.api_port or 0] = api_app(
        model,
        stores,
        page_of=lambda chunk: built_page(chunk, pages.folder()),
        health=lambda: _health(endpoints, model, stores) | started | {"idle_exit_s": idle_s},
        threads=threads,
    )

    publication = Publication(project.settings.state_dir, endpoints, token, lock)

    def ready() -> None:
        publication.put()
        say(f"serving {endpoints.project} at {endpoints.api_url}, process {os.getpid()}")

    model.warm_up()
    try:
        gate = Gate(apps, kb_id=endpoints.kb_id, token=token)
        run(
            gate,
            list(listeners.values()),
            idle_s=idle_s,
            when_ready=ready,
            keep_found=publication.keep,
        )
    finally:
        threads.close()
        for store in stores.values():
            store.close()
        publication.withdraw()


def _placed(base: Endpoints, ports: Mapping[str, int]) -> Endpoints:
    targets = {
        name: replace(target, port=ports[name]) if target.is_embedded else target
        for name, target in base.stores.items()
    }
    return replace(base, stores=targets, api_port=ports["api"])


def _apps(
    endpoints: Endpoints, stores: Mapping[str, ServedStore], threads: Threads
) -> dict[int, App]:
    """Return the application of each store's port."""
    apps: dict[int, App] = {}
    for name, store in stores.items():
        target = endpoints.stores[name]
        names = CollectionNames(target.tenant, target.database, target.collection)
        apps[target.port] = chroma_app(ChromaRoutes(store, names), threads)
    return apps


def _listeners(project: Project, base: Endpoints) -> dict[str, socket.socket]:
    """Return a socket for each store and for the server's own routes.

    A port that a stranger has is left alone: the one of the last run is tried, then the next free.
    """
    settings, first_free = project.settings, project.environment.mount_port_base
    configured = {
        "shared": settings.shared_port,
        "private": settings.private_port,
        "api": settings.embed_port,
    }
    last = {name: target.port for name, target in base.stores.items() if target.is_embedded}
    configured = {name: p for name, p in configured.items() if name == "api" or name in last}
    found: dict[str, socket.socket] = {}
    for name, port in configured.items():
        wanted = list(dict.fromkeys([port, last.get(name, port)]))
        kept = [other for key, other in configured.items() if key != name]
        found[name] = bind(wanted, first_free, kept)
    return found


def _stores(project: Project, base: Endpoints) -> dict[str, ServedStore]:
    """Return the stores that lie here; one on a Chroma server is asked there."""
    return {
        name: _store(project, scope, name)
        for scope, name in STORE_NAMES.items()
        if base.stores[name].is_embedded
    }


def _store(project: Project, scope: Scope, name: str) -> ServedStore:
    folder = project.settings.store_path(scope)

    def open_store() -> OpenStore:
        reader = open_reader(folder, scope, name)
        return OpenStore(reader, CollectionView(reader), reader.close)

    def look() -> StoreHealth:
        found = summary(folder)
        counts = (found.documents, found.chunks)
        return StoreHealth(found.index, "", *counts, found.fingerprint, _last_write(folder))

    return ServedStore(
        name, scope, open_store=open_store, stamp=lambda: corpus_stamp(folder), look=look
    )


def _last_write(folder: Path) -> str:
    """Return when a corpus was last written; a commit reaches its log first."""
    written = 0.0
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            written = max(written, (folder / f"{CORPUS_FILE}{suffix}").stat().st_mtime)
    return datetime.fromtimestamp(written, timezone.utc).isoformat(timespec="seconds")


def model_record(model: ModelHost) -> dict[str, Any]:
    """Return what `/health` says of a model."""
    state, detail = model.state()
    return {
        "name": model.names.model,
        "profile": model.names.profile,
        "dimension": model.names.dimension,
        "fingerprint": model.names.fingerprint,
        "state": state,
        "detail": detail,
    }


def _health(
    endpoints: Endpoints, model: ModelHost, stores: Mapping[str, ServedStore]
) -> dict[str, Any]:
    state, _ = model.state()
    found = {name: store.health() for name, store in stores.items()}
    is_whole = state == "ready" and all(h.state == "ready" for h in found.values())
    return {
        "status": "loading" if state == "loading" else "ready" if is_whole else "degraded",
        "kb_id": endpoints.kb_id,
        "version": VERSION,
        "pid": os.getpid(),
        "model": model_record(model),
        "stores": {
            name: {
                "state": h.state,
                "scope": stores[name].scope.value,
                "documents": h.documents,
                "chunks": h.chunks,
                "fingerprint": h.fingerprint,
                "updated": h.updated,
                "detail": h.detail,
            }
            for name, h in found.items()
        },
    }
