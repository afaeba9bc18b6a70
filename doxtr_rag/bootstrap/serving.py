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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from doxtr_rag.bootstrap.addresses import (
    LOCK_FILE,
    endpoints_of,
    kb_id_of,
    publish_endpoints,
    published,
)
from doxtr_rag.bootstrap.lending import NotPublishedError, ReachedServer, reach
from doxtr_rag.bootstrap.project import Project
from doxtr_rag.config import conf_file
from doxtr_rag.core.errors import (
    DoxtrRagError,
    IndexNotBuiltError,
    ServerGoneError,
    StoreLockedError,
    StoreUnavailableError,
)
from doxtr_rag.core.version import VERSION
from doxtr_rag.servers.endpoints import Endpoints, publish
from doxtr_rag.storage import LockHolder, StoreLock, is_held_by, lock_holder

LOG_FILE = "server.log"
DETACHED_IDLE_S = 1800.0
START_S = 60.0
STOP_S = 60.0
"""An embedding that is under way is finished first."""

KILL_S = 10.0
PUBLISHED_AGAIN_S = 2.0
"""A server looks after what it published more often than that."""

POLL_S = 0.05
OPEN_FILES = Path("/proc/self/fd")
"""Where a system has it, it tells which files a process has open."""

LOG_LINES_SHOWN = 5

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A running server: its process, its addresses, and what it says of itself."""

    pid: int
    endpoints: Endpoints
    health: dict[str, Any]


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


@contextmanager
def _only_server(state_dir: Path) -> Iterator[StoreLock]:
    """Be the one server of a knowledge base.

    Raises:
        StoreLockedError: there is one; the message names it.
    """
    try:
        with StoreLock(state_dir, LOCK_FILE).acquired(0, lambda _: None) as lock:
            yield lock
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
        PortTakenError: no port can be had.
        StoreLockedError: its server runs already.
        StoreUnavailableError: its addresses cannot be written.
    """
    from doxtr_rag.bootstrap.hosting import host  # noqa: PLC0415 - loads the web framework

    kb_id_of(project)
    state_dir = prepare_state_dir(project.settings.root)
    with _only_server(state_dir) as lock:
        endpoints = endpoints_of(project, published(project))
        # What a killed server left, or the server of the folder that this is a copy of.
        publish(state_dir, endpoints, None)
        host(project, endpoints, lock, idle_s, say)


def start_detached(project: Project, idle_s: float = DETACHED_IDLE_S) -> ServerStatus:
    """Return the running server, started in the background when there is none.

    Raises:
        IndexNotBuiltError: no build has filled the knowledge base.
        ServerGoneError: it did not start, and the message has the end of its log; or one runs
            that does not answer.
        StoreUnavailableError: its log cannot be written.
    """
    kb_id_of(project)
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
    except PermissionError as error:
        raise StoreUnavailableError(
            f"{log.parent} cannot be written ({error.strerror}): give yourself the folder; "
            "without a server, doxtr-rag search asks the stores itself"
        ) from error
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
    reason = ""
    while time.monotonic() < deadline and not (reason and process.poll() is not None):
        try:
            running = server_status(project)
        except ServerGoneError as error:
            reason = str(error)
        else:
            if running is not None:
                # Another start may have won; either is the one server.
                return running
            if process.poll() is not None:
                break
        time.sleep(POLL_S)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    raise ServerGoneError(
        f"the server did not start: {' / '.join(lines) or reason or 'it wrote nothing'}; "
        f"run doxtr-rag serve to see why, or read {log}"
    )


def server_status(project: Project) -> ServerStatus | None:
    """Return the running server, None when there is none.

    Raises:
        ServerGoneError: a process is this knowledge base's server, and does not answer as it.
    """
    state_dir = project.settings.state_dir
    here = _without_endpoints(project)
    deadline = time.monotonic() + PUBLISHED_AGAIN_S
    while True:
        holder = lock_holder(state_dir, LOCK_FILE)
        if holder is None:
            return None
        try:
            reached = reach(here)
            health = _health_of(reached)
        except DoxtrRagError as error:
            is_starting = isinstance(error, NotPublishedError) and _is_new(holder)
            if time.monotonic() > deadline and not is_starting:
                raise ServerGoneError(
                    f"{holder} is the server of this knowledge base and does not answer "
                    f"({error}): end it with doxtr-rag serve --stop"
                ) from error
            # It is ending, or puts back what somebody else wrote.
            time.sleep(POLL_S)
        else:
            return ServerStatus(holder.pid, reached.endpoints, health)


def _without_endpoints(project: Project) -> Project:
    """Return the project as its own server has it, wherever DOXTR_RAG_ENDPOINTS leads questions."""
    return replace(project, environment=replace(project.environment, endpoints=None))


def _is_new(holder: LockHolder) -> bool:
    try:
        age = datetime.now(timezone.utc) - datetime.fromisoformat(holder.started)
    except (ValueError, TypeError):
        return False
    # A clock that was set back makes no server a new one.
    return abs(age) < timedelta(seconds=START_S)


def _health_of(reached: ReachedServer) -> dict[str, Any]:
    try:
        return reached.client.get("/health")
    finally:
        reached.client.close()


def stop(project: Project) -> int | None:
    """End the running server; return its process id, None when there was none.

    One that does not end when it is asked to is killed: a server only reads.

    Raises:
        ServerGoneError: it is not a process of this machine, or does not end.
    """
    state_dir = project.settings.state_dir
    holder = lock_holder(state_dir, LOCK_FILE)
    if holder is None:
        return None
    for number, patience_s in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, KILL_S)):
        if not _is_process_here(project, holder):
            break
        with suppress(ProcessLookupError):
            os.kill(holder.pid, number)
        if _is_over(state_dir, holder, patience_s):
            _await_end(holder.pid)
            return holder.pid
    raise ServerGoneError(
        f"{holder} holds {state_dir / LOCK_FILE}, and this process cannot end it: end it there"
    )


def _is_process_here(project: Project, holder: LockHolder) -> bool:
    """Say whether the process that a lock names is the server, and one of this machine."""
    if OPEN_FILES.is_dir():
        return is_held_by(project.settings.state_dir, LOCK_FILE, holder)
    try:
        said = _health_of(reach(_without_endpoints(project)))
    except DoxtrRagError:
        return False
    return holder.host == socket.gethostname() and said.get("pid") == holder.pid


def _is_over(state_dir: Path, holder: LockHolder, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        current = lock_holder(state_dir, LOCK_FILE)
        # One that is letting go has no name any more.
        if current is None or current.pid not in {0, holder.pid}:
            return True
        time.sleep(POLL_S)
    return False


def _await_end(pid: int) -> None:
    """Wait a little for a process that let go of everything, so that it is really gone."""
    deadline = time.monotonic() + KILL_S
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(POLL_S)


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
