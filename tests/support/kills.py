"""Runs a command and kills it at a chosen system call that changes a file of a store.

The kernel stops every process of the command before such a call and tells this one (seccomp user
notification), so a point exists inside SQLite and inside Chroma's native code as well, and the
program under test needs no switch. Points are named after process, call and file:
`index write index/GENERATION/SEGMENT/header.bin`.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

MAX_FILE_BYTES = 512 << 20
"""A broken Chroma store may write a file without end when it is opened."""

MAX_SECONDS = 120.0
BY_DESCRIPTOR, BY_PATH, BY_FOLDER_AND_PATH = range(3)
CALLS = {
    "x86_64": {
        "write": (1, BY_DESCRIPTOR),
        "pwrite64": (18, BY_DESCRIPTOR),
        "writev": (20, BY_DESCRIPTOR),
        "sendfile": (40, BY_DESCRIPTOR),
        "flock": (73, BY_DESCRIPTOR),
        "fsync": (74, BY_DESCRIPTOR),
        "fdatasync": (75, BY_DESCRIPTOR),
        "ftruncate": (77, BY_DESCRIPTOR),
        "rename": (82, BY_PATH),
        "mkdir": (83, BY_PATH),
        "rmdir": (84, BY_PATH),
        "unlink": (87, BY_PATH),
        "symlink": (88, BY_PATH),
        "openat": (257, BY_FOLDER_AND_PATH),
        "mkdirat": (258, BY_FOLDER_AND_PATH),
        "unlinkat": (263, BY_FOLDER_AND_PATH),
        "renameat": (264, BY_FOLDER_AND_PATH),
        "renameat2": (316, BY_FOLDER_AND_PATH),
        "fallocate": (285, BY_DESCRIPTOR),
        "pwritev": (296, BY_DESCRIPTOR),
    },
    "aarch64": {
        "flock": (32, BY_DESCRIPTOR),
        "mkdirat": (34, BY_FOLDER_AND_PATH),
        "unlinkat": (35, BY_FOLDER_AND_PATH),
        "renameat": (38, BY_FOLDER_AND_PATH),
        "ftruncate": (46, BY_DESCRIPTOR),
        "fallocate": (47, BY_DESCRIPTOR),
        "openat": (56, BY_FOLDER_AND_PATH),
        "write": (64, BY_DESCRIPTOR),
        "writev": (66, BY_DESCRIPTOR),
        "pwrite64": (68, BY_DESCRIPTOR),
        "pwritev": (70, BY_DESCRIPTOR),
        "sendfile": (71, BY_DESCRIPTOR),
        "fsync": (82, BY_DESCRIPTOR),
        "fdatasync": (83, BY_DESCRIPTOR),
        "renameat2": (276, BY_FOLDER_AND_PATH),
    },
}
SECCOMP_CALL = {"x86_64": 317, "aarch64": 277}
MACHINE = platform.machine()
RECEIVE, SEND = 0xC0502100, 0xC0182101
CONTINUE = 1
NO_NEW_PRIVILEGES = 38
SET_FILTER, NEW_LISTENER = 1, 8
ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
LOAD, JUMP_EQUAL, JUMP_SET, RETURN = 0x20, 0x15, 0x45, 0x06
FLAGS_OF_OPENAT = 16 + 8 * 2
RANDOM_NAMES = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "SEGMENT"),
    (re.compile(r"[0-9a-f]{16}"), "GENERATION"),
    (re.compile(r"(?<=\.json\.)\w{8}\b|(?<=\.token\.)\w{8}\b|\btmp\w{8}\b"), "TEMPORARY"),
)


class Victims(Enum):
    """Which processes a kill ends."""

    ALL = "all"
    PARENT = "parent"
    CHILD = "child"


@dataclass(frozen=True)
class Kill:
    """One moment: before the n-th call of that name, or so many seconds after it began."""

    point: str
    occurrence: int = 1
    victims: Victims = Victims.ALL
    delay_s: float = 0.0


@dataclass
class Watched:
    """A command under watch; `points` are the calls seen so far, in order."""

    process: subprocess.Popen[bytes]
    under: Path
    kill: Kill | None
    log: Path
    points: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    is_killed: bool = False
    _seen: Counter[str] = field(default_factory=Counter)
    _groups: dict[int, int] = field(default_factory=dict)
    _thread: threading.Thread | None = None

    def wait(self, seconds: float = MAX_SECONDS) -> int:
        """Return how the command ended; a process of its own that it left may still run."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.end()
            raise

    def join(self, seconds: float = MAX_SECONDS) -> None:
        """Wait until no process of the command is left."""
        assert self._thread is not None
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"a process outlived {seconds} s"

    def end(self) -> None:
        """Kill what is left of the command."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.join()

    def output(self) -> str:
        """Return what the command printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def serve(self, listener: int) -> None:
        """Let every call go on that is not the one to die at, until nobody is left."""
        names = {number: (name, how) for name, (number, how) in CALLS[MACHINE].items()}
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        while True:
            if poll.poll()[0][1] & select.POLLHUP:
                break
            call = bytearray(80)
            try:
                fcntl.ioctl(listener, RECEIVE, call)
            except OSError as error:
                if error.errno in {errno.ENOENT, errno.EINTR}:
                    continue
                raise
            key, task, _, number = struct.unpack_from("QIIi", call)
            name, how = names[number]
            if self._ends(name, _place(task, how, struct.unpack_from("6Q", call, 32)), task):
                continue  # without an answer, so that the call is never made
            try:
                fcntl.ioctl(listener, SEND, bytearray(struct.pack("QqiI", key, 0, 0, CONTINUE)))
            except OSError as error:
                if error.errno != errno.ENOENT:  # killed meanwhile
                    raise
        os.close(listener)

    def _ends(self, name: str, place: Path | None, task: int) -> bool:
        """Note a call and kill if this is the moment; say whether its caller was killed."""
        if place is None or not place.is_relative_to(self.under):
            return False
        group = self._group_of(task)
        point = f"{_role(group)} {name} {_without_chance(place.relative_to(self.under))}"
        self.points.append(point)
        self.times.append(time.monotonic())
        self._seen[point] += 1
        kill = self.kill
        if kill is None or (point, self._seen[point]) != (kill.point, kill.occurrence):
            return False
        if kill.delay_s:
            timer = threading.Timer(kill.delay_s, self._strike, [group])
            timer.daemon = True
            timer.start()
            return False
        self._strike(group)
        return kill.victims is not Victims.PARENT or group == self.process.pid

    def _strike(self, group: int) -> None:
        assert self.kill is not None
        try:
            if self.kill.victims is Victims.ALL:
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                is_parent = self.kill.victims is Victims.PARENT
                os.kill(self.process.pid if is_parent else group, signal.SIGKILL)
            self.is_killed = True
        except ProcessLookupError:
            pass

    def _group_of(self, task: int) -> int:
        if task not in self._groups:
            status = Path(f"/proc/{task}/status").read_text()
            self._groups[task] = int(re.search(r"Tgid:\s*(\d+)", status)[1])  # type: ignore[index]
        return self._groups[task]


def start(
    command: Sequence[str],
    *,
    under: Path,
    log: Path,
    environment: Mapping[str, str],
    kill: Kill | None = None,
) -> Watched:
    """Start a command whose calls on files below a folder are points to die at."""
    ours, theirs = socket.socketpair()
    launcher = [sys.executable, "-I", "-S", __file__, str(theirs.fileno()), *command]
    with log.open("wb") as output:
        process = subprocess.Popen(
            launcher,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    theirs.close()
    said, descriptors, _, _ = socket.recv_fds(ours, 64, 1)
    ours.close()
    if not descriptors:
        process.wait()
        raise OSError(f"this kernel does not stop system calls: {said.decode() or log.read_text()}")
    watched = Watched(process, under, kill, log)
    watched._thread = threading.Thread(target=watched.serve, args=descriptors, daemon=True)
    watched._thread.start()
    return watched


def whynot() -> str:
    """Return why this machine cannot kill at system calls, "" where it can."""
    if MACHINE not in CALLS:
        return f"system calls of {MACHINE} are not listed in {Path(__file__).name}"
    probe = subprocess.run(
        [sys.executable, "-I", "-S", __file__, "-1", "true"], capture_output=True, check=False
    )
    return probe.stderr.decode().strip()


def _place(task: int, how: int, arguments: tuple[int, ...]) -> Path | None:
    """Return the file that a call is about; None where that cannot be told."""
    try:
        if how == BY_DESCRIPTOR:
            return Path(f"/proc/{task}/fd/{arguments[0]}").readlink()
        if how == BY_PATH:
            return Path(f"/proc/{task}/cwd").readlink() / _text(task, arguments[0])
        folder = struct.unpack("i", struct.pack("I", arguments[0] & 0xFFFFFFFF))[0]
        at = f"fd/{folder}" if folder >= 0 else "cwd"
        return Path(f"/proc/{task}/{at}").readlink() / _text(task, arguments[1])
    except OSError:
        return None


def _text(task: int, address: int) -> str:
    """Return a C string in the memory of another process."""
    with open(f"/proc/{task}/mem", "rb", buffering=0) as memory:  # noqa: PTH123 - unbuffered
        found = b""
        while b"\0" not in found:
            # To the end of a page at most, since the next one may not be there.
            memory.seek(address + len(found))
            found += memory.read(4096 - (address + len(found)) % 4096)
    return os.fsdecode(found.partition(b"\0")[0])


def _role(group: int) -> str:
    try:
        command = Path(f"/proc/{group}/cmdline").read_bytes()
    except OSError:
        return "gone"
    return "index" if b"index_process" in command else "run"


def _without_chance(path: Path) -> str:
    name = path.as_posix()
    for pattern, word in RANDOM_NAMES:
        name = pattern.sub(word, name)
    return name


def _install_filter() -> int:
    """Have the kernel ask before each of the calls; return where it asks."""
    openat = CALLS[MACHINE]["openat"][0]
    numbers = [number for number, _ in CALLS[MACHINE].values() if number != openat]
    steps = [(LOAD, 0, 0, 0)]
    steps += [(JUMP_EQUAL, len(numbers) - i + 3, 0, n) for i, n in enumerate(numbers)]
    steps += [
        (JUMP_EQUAL, 0, 2, openat),
        (LOAD, 0, 0, FLAGS_OF_OPENAT),
        (JUMP_SET, 1, 0, os.O_CREAT | os.O_TRUNC),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, NOTIFY),
    ]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    held = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(held))
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    listener = library.syscall(SECCOMP_CALL[MACHINE], SET_FILTER, NEW_LISTENER, program)
    if listener < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(listener)


def _launch(channel: int, command: Sequence[str]) -> None:
    """Become the command, with this process asked about its calls."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
    listener = _install_filter()
    if channel < 0:
        os._exit(0)
    with socket.socket(fileno=channel) as connection:
        socket.send_fds(connection, [b"listener"], [listener])
    os.close(listener)
    os.execvp(command[0], command)  # noqa: S606 - the command of a test


if __name__ == "__main__":
    _launch(int(sys.argv[1]), sys.argv[2:])
