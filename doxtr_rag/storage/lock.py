"""One owner process per store: an operating-system lock that names its holder."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from doxtr_rag.core.errors import StoreLockedError
from doxtr_rag.storage.private_files import foreseen_os_errors, make_private_folder, open_private

LOCK_FILE = "lock"
POLL_S = 0.1
_MAX_HOLDER_BYTES = 4096


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who holds a lock, as it wrote itself down."""

    pid: int
    host: str
    started: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.started}"


class StoreLock:
    """The right to write one store; given back when the process ends, however it ends."""

    def __init__(self, folder: Path, file_name: str = LOCK_FILE) -> None:
        self._path = folder / file_name
        self._descriptor: int | None = None

    def acquire(self, wait_s: float, on_wait: Callable[[str], None]) -> None:
        """Take the lock, waiting for another process; `on_wait` is told once for whom, how long.

        Raises:
            StoreLockedError: it was not given back in time, or this process holds it.
            StoreReadOnlyError: the folder does not accept writes.
        """
        if self._descriptor is not None:
            raise StoreLockedError(f"{self._path}: this process holds it already")
        make_private_folder(self._path.parent)
        descriptor = open_private(self._path)
        try:
            self._wait(descriptor, wait_s, on_wait)
            self._sign(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    @contextmanager
    def acquired(self, wait_s: float, on_wait: Callable[[str], None]) -> Iterator[StoreLock]:
        """Hold the lock for the length of a `with` block.

        Raises:
            StoreLockedError: as `acquire` does.
        """
        self.acquire(wait_s, on_wait)
        try:
            yield self
        finally:
            self.release()

    def release(self) -> None:
        """Give the lock back; nothing happens when it is not held."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def identity(self) -> str:
        """Return device and inode of the file that is held, which no copy of it has.

        Raises:
            StoreLockedError: it is not held.
        """
        if self._descriptor is None:
            raise StoreLockedError(f"{self._path} is not held")
        return _identity(os.fstat(self._descriptor))

    def is_in_place(self) -> bool:
        """Say whether the file that is held is still where others look for it."""
        return lock_identity(self._path.parent, self._path.name) == self.identity()

    def _wait(self, descriptor: int, wait_s: float, on_wait: Callable[[str], None]) -> None:
        # One more look than asked for: a passer-by who only asks for the holder is no holder.
        deadline = time.monotonic() + max(wait_s, 2 * POLL_S)
        is_told = False
        while not _is_taken(descriptor):
            who = _read(descriptor)
            if who is not None and (who.pid, who.host) == (os.getpid(), socket.gethostname()):
                raise StoreLockedError(f"{self._path}: this process holds it already")
            if time.monotonic() >= deadline:
                raise StoreLockedError(
                    f"{self._path.parent}: {who or 'another process'} is writing this store"
                    f"{f', for {wait_s:.0f} s it was waited for' if is_told else ''}: "
                    "wait for it, or stop it, then run again"
                )
            if who is not None and not is_told and wait_s > 0:
                on_wait(f"{who}, for at most {wait_s:.0f} s")
                is_told = True
            time.sleep(POLL_S)

    def _sign(self, descriptor: int) -> None:
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        holder_json = json.dumps(
            {"pid": os.getpid(), "host": socket.gethostname(), "started": started}
        )
        with foreseen_os_errors(self._path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder_json.encode(), 0)


def lock_holder(folder: Path, file_name: str = LOCK_FILE) -> LockHolder | None:
    """Return who holds a store's lock, None when nobody does."""
    try:
        descriptor = os.open(folder / file_name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _read(descriptor) or LockHolder(0, "this machine", "an unknown time")
    else:
        return None
    finally:
        os.close(descriptor)


def lock_identity(folder: Path, file_name: str = LOCK_FILE) -> str | None:
    """Return device and inode of a store's lock, None when there is none."""
    try:
        return _identity((folder / file_name).stat())
    except OSError:
        return None


def is_held_by(folder: Path, file_name: str, holder: LockHolder) -> bool:
    """Say whether a process of this machine has the lock's file open, as its holder must.

    What a holder wrote may name a process of another machine, or none that is known here.
    """
    held = lock_identity(folder, file_name)
    try:
        opened = Path(f"/proc/{holder.pid}/fd").iterdir()
        return holder.host == socket.gethostname() and any(_leads_to(fd, held) for fd in opened)
    except OSError:
        return False


def _leads_to(descriptor: Path, held: str | None) -> bool:
    try:
        return _identity(descriptor.stat()) == held
    except OSError:
        return False


def _identity(status: os.stat_result) -> str:
    return f"{status.st_dev}:{status.st_ino}"


def _is_taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(descriptor: int) -> LockHolder | None:
    try:
        said = json.loads(os.pread(descriptor, _MAX_HOLDER_BYTES, 0))
        return LockHolder(int(said["pid"]), str(said["host"]), str(said["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
