"""What a command costs: CPU-seconds with its children, wall time, peak memory (Linux).

Memory is the high-water mark that the kernel keeps for each process, read while it lives: the
figure of `getrusage` is inherited through fork and exec, so it would give a small child the peak
of the process that started it.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

SAMPLE_EVERY_S = 0.05
KIB = 1024
PARENT_FIELD = 1
"""The parent's id in /proc/ID/stat, counted after the command name."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of one command; `children_peak` is of the largest process below it."""

    wall_s: float
    cpu_s: float
    peak: int
    children_peak: int

    @property
    def largest_peak(self) -> int:
        """The peak of the largest process, in bytes."""
        return max(self.peak, self.children_peak)


class CommandError(Exception):
    """A command failed; says which log tells why."""


def measure(command: Sequence[str], log: Path, folder: Path | None = None) -> Usage:
    """Run a command, its output into a log, and return what it cost.

    Raises:
        CommandError: it did not exit with 0.
    """
    started = time.perf_counter()
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        with _Peaks(process.pid) as peaks:
            _, status, spent = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise CommandError(f"exit {process.returncode}, see {log}: {' '.join(command)}")
    return Usage(
        wall_s=time.perf_counter() - started,
        cpu_s=spent.ru_utime + spent.ru_stime,
        peak=peaks.found.pop(process.pid, 0),
        children_peak=max(peaks.found.values(), default=0),
    )


@dataclass(slots=True)
class _Peaks:
    """Samples the high-water mark of a process and of all below it, until it is left."""

    root: int
    found: dict[int, int] = field(default_factory=dict)
    _done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> _Peaks:
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _sample(self) -> None:
        while not self._done.is_set():
            for process in _family(self.root):
                self.found[process] = max(self.found.get(process, 0), peak_memory(process))
            self._done.wait(SAMPLE_EVERY_S)


def _family(root: int) -> set[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            line = _read(entry / "stat")
            if line:
                parents[int(entry.name)] = int(line.rpartition(")")[2].split()[PARENT_FIELD])
    family = {root}
    pending = [root]
    while pending:
        above = pending.pop()
        children = [process for process, parent in parents.items() if parent == above]
        family.update(children)
        pending += children
    return family


def peak_memory(process: int | str = "self") -> int:
    """Return the high-water mark of a process's resident memory, in bytes; 0 when it is gone."""
    return _memory(process, "VmHWM:")


def resident_memory(process: int | str = "self") -> int:
    """Return the resident memory of a process, in bytes; 0 when it is gone."""
    return _memory(process, "VmRSS:")


def _memory(process: int | str, key: str) -> int:
    for line in _read(Path(f"/proc/{process}/status")).splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * KIB
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
