"""The server of one knowledge base: run here, started in the background, looked at, stopped."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from doxtr_rag.bootstrap.lending import LOCK_FILE, connect
from doxtr_rag.bootstrap.project import Project
from doxtr_rag.config import conf_file
from doxtr_rag.core.errors import (
    DoxtrRagError,
    IndexNotBuiltError,
    ServerGoneError,
    StoreLockedError,
    StoreUnavailableError,
)
from doxtr_rag.core.scope import Scope
from doxtr_rag.core.version import VERSION
from doxtr_rag.servers.client import JsonClient
from doxtr_rag.servers.endpoints import (
    Endpoints,
    StoreTarget,
    is_published,
    publish,
    read_endpoints,
)
from doxtr_rag.storage import StoreLock, lock_holder, stats

LOG_FILE = "server.log"
DETACHED_IDLE_S = 1800.0
START_S = 60.0
STOP_S = 60.0
"""An embedding that is under way is finished first."""

POLL_S = 0.05
LOG_LINES_SHOWN = 5

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A running server: its process, its addresses, and what it says of itself."""

    pid: int
    endpoints: Endpoints
    health: dict[str, Any]


def endpoints_of(project: Project, published: Endpoints | None) -> Endpoints:
    """Return the addresses of a knowledge base while no server runs, on the ports it last had.

    Raises:
        IndexNotBuiltError: no build has filled it.
    """
    settings, profile = project.settings, project.profile
    databases = {"shared": settings.shared_store_database, "private": settings.local_store_database}
    ports = {"shared": settings.shared_port, "private": settings.private_port}
    stores = {
        name: StoreTarget(
            mode="embedded",
            host="127.0.0.1",
            port=published.stores[name].port if published else ports[name],
            ssl=False,
            tenant=settings.store_tenant,
            database=databases[name],
            collection=profile.collection,
        )
        for name in databases
    }
    return Endpoints(
        kb_id=_kb_id(project),
        project=settings.project,
        model=profile.name,
        dimension=profile.dimension,
        fingerprint=profile.fingerprint,
        stores=stores,
    )


def _published(project: Project) -> Endpoints | None:
    """Return what was published last, unless it is unusable."""
    try:
        return read_endpoints(project.settings.state_dir)
    except DoxtrRagError:
        return None


def _own_client(project: Project) -> JsonClient | None:
    """Return a client of this project's server, wherever DOXTR_RAG_ENDPOINTS leads questions."""
    here = replace(project.environment, endpoints=None)
    return connect(replace(project, environment=here), of_any_version=True)


def _kb_id(project: Project) -> str:
    """Return what tells this knowledge base from every other, a copy of its folder included."""
    store_id = stats(project.settings.store_path(Scope.LOCAL_PRIVATE)).store_id
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{store_id} {project.settings.root.resolve()}"))


def prepare_state_dir(root: Path) -> Path:
    """Return the folder of the server's files, made when it is missing.

    Raises:
        StoreUnavailableError: it cannot be made, or is somebody else's.
    """
    try:
        return conf_file.prepare_state_dir(root)
    except OSError as error:
        raise StoreUnavailableError(
            f"{error.filename or root} cannot be used ({error.strerror}): give yourself the "
            "folder, or build as the user who owns it"
        ) from error


def publish_endpoints(project: Project) -> None:
    """Write where the knowledge base is asked, when no server is there to do it.

    Raises:
        StoreUnavailableError: the folder cannot be written.
    """
    state_dir = project.settings.state_dir
    is_served = lock_holder(state_dir, LOCK_FILE) is not None
    if not is_served and not is_published(state_dir, endpoints_of(project, None)):
        publish(state_dir, endpoints_of(project, _published(project)), None)


@contextmanager
def _only_server(state_dir: Path) -> Iterator[Path]:
    """Be the one server of a knowledge base.

    Raises:
        StoreLockedError: there is one; the message names it.
    """
    try:
        with StoreLock(state_dir, LOCK_FILE).acquired(0, lambda _: None):
            yield state_dir
    except StoreLockedError as error:
        holder = lock_holder(state_dir, LOCK_FILE)
        raise StoreLockedError(
            f"the server of this knowledge base runs already ({holder or error}): "
            "doxtr-rag serve --status shows it"
        ) from error


def serve(project: Project, idle_s: float | None, say: Say) -> None:
    """Be the server until a signal or idleness ends it.

    Raises:
        IndexNotBuiltError: no build has filled the knowledge base.
        StoreLockedError: its server runs already.
        StoreUnavailableError: its addresses cannot be written.
    """
    from doxtr_rag.bootstrap.hosting import host  # noqa: PLC0415 - loads the web framework

    _kb_id(project)
    with _only_server(prepare_state_dir(project.settings.root)) as state_dir:
        endpoints = endpoints_of(project, _published(project))
        # What a killed server left, or the server of the folder that this is a copy of.
        publish(state_dir, endpoints, None)
        host(project, endpoints, idle_s, say)


def start_detached(project: Project, idle_s: float = DETACHED_IDLE_S) -> ServerStatus:
    """Return the running server, started in the background when there is none.

    Raises:
        IndexNotBuiltError: no build has filled the knowledge base.
        ServerGoneError: it did not start; the message has the end of its log.
        StoreUnavailableError: its log cannot be written.
    """
    _kb_id(project)
    running = server_status(project)
    if running is not None:
        return running
    state_dir = prepare_state_dir(project.settings.root)
    log = state_dir / LOG_FILE
    handle = _emptied(log)
    command = [sys.executable, "-m", "doxtr_rag", "serve", "--idle", str(idle_s)]
    try:
        process = subprocess.Popen(
            [*command, "--root", str(project.settings.root)],
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(handle)
    # Collects the child's status when it ends, however long this process lives.
    threading.Thread(target=process.wait, daemon=True).start()
    return _awaited(project, process, log)


def _emptied(log: Path) -> int:
    """Return a descriptor of an empty log that is ours alone.

    Raises:
        StoreUnavailableError: it cannot be written, or leads to another file.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(log, flags, 0o600)
    except OSError as error:
        raise _bad_log(log, error.strerror) from error
    status = os.fstat(handle)
    is_ours = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    if not is_ours or status.st_uid != os.geteuid():
        os.close(handle)
        raise _bad_log(log, "it is another file")
    os.fchmod(handle, 0o600)
    os.ftruncate(handle, 0)
    return handle


def _bad_log(log: Path, reason: str | None) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{log} cannot be written ({reason}): remove it, then run doxtr-rag serve --detach"
    )


def _awaited(project: Project, process: subprocess.Popen[bytes], log: Path) -> ServerStatus:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        running = server_status(project)
        if running is not None:
            # Another start may have won; either is the one server.
            return running
        is_locked = lock_holder(project.settings.state_dir, LOCK_FILE) is not None
        if process.poll() is not None and not is_locked:
            break
        time.sleep(POLL_S)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    raise ServerGoneError(
        f"the server did not start: {' / '.join(lines) or 'it wrote nothing'}; "
        f"run doxtr-rag serve to see why, or read {log}"
    )


def server_status(project: Project) -> ServerStatus | None:
    """Return the running server, None when there is none that answers as this knowledge base's."""
    holder = lock_holder(project.settings.state_dir, LOCK_FILE)
    client = _own_client(project) if holder else None
    if holder is None or client is None:
        return None
    try:
        health = client.get("/health")
    except DoxtrRagError:
        return None
    finally:
        client.close()
    endpoints = _published(project)
    return None if endpoints is None else ServerStatus(holder.pid, endpoints, health)


def stop(project: Project) -> int | None:
    """End the running server; return its process id, None when there was none.

    Raises:
        ServerGoneError: it does not prove that it is this server, or does not end.
    """
    state_dir = project.settings.state_dir
    holder = lock_holder(state_dir, LOCK_FILE)
    if holder is None:
        return None
    client = _own_client(project)
    if client is None:
        raise ServerGoneError(
            f"{holder} holds {state_dir / LOCK_FILE} and does not answer as this knowledge "
            "base's server: end that process yourself"
        )
    client.close()
    if holder.pid <= 1 or holder.host != socket.gethostname():
        raise ServerGoneError(f"{holder} holds {state_dir / LOCK_FILE}: end it there")
    with suppress(ProcessLookupError):
        os.kill(holder.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while lock_holder(state_dir, LOCK_FILE) is not None:
        if time.monotonic() > deadline:
            raise ServerGoneError(f"{holder} was asked to end and still runs: end it yourself")
        time.sleep(POLL_S)
    return holder.pid


def start_if_wanted(project: Project) -> None:
    """Start the server for an agent; where that fails, the agent's process asks the stores itself.

    `rag_serve` = off prevents it.
    """
    if project.settings.serve != "off":
        with suppress(DoxtrRagError):
            start_detached(project)


def serve_after_build(project: Project, say: Say) -> None:
    """Leave the addresses, and a server where `rag_serve` wants one; no build fails by it."""
    serve_wanted = project.settings.serve
    is_wanted = serve_wanted == "on" or (serve_wanted == "auto" and not project.environment.is_ci)
    try:
        running = server_status(project)
        if running is not None and _is_outdated(running, project):
            stop(project)
            running = None
        if running is None and not is_wanted:
            publish_endpoints(project)
        elif running is None:
            started = start_detached(project)
            say(
                f"doxtr_rag: the server of the knowledge base runs at {started.endpoints.api_url} "
                f"and ends after {DETACHED_IDLE_S / 60:.0f} idle minutes (rag_serve = 'off' "
                "prevents it)"
            )
    except IndexNotBuiltError:
        return
    except DoxtrRagError as error:
        say(f"doxtr_rag: no server: {error}")


def _is_outdated(running: ServerStatus, project: Project) -> bool:
    is_same_model = running.endpoints.fingerprint == project.profile.fingerprint
    return not is_same_model or running.health.get("version") != VERSION
