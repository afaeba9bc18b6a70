"""Servers found by their command lines, whatever a test did to the files that lead to them."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

END_S = 15.0
POLL_S = 0.02


def servers_below(folder: Path) -> list[int]:
    """Return the processes that serve, or start a server for, a project in this folder."""
    place = folder.resolve()
    return sorted(int(path.name) for path in Path("/proc").glob("[0-9]*") if _serves(path, place))


def _serves(process: Path, place: Path) -> bool:
    try:
        words = (process / "cmdline").read_text(errors="replace").split("\0")
        is_ours = any(Path(word).name in {"doxtr-rag", "doxtr_rag"} for word in words)
        if not is_ours or "serve" not in words:
            return False
        roots = [Path(root) for word, root in pairwise(words) if word == "--root"]
        found = roots[0] if roots else (process / "cwd").readlink()
    except OSError:  # it has ended
        return False
    return found.resolve().is_relative_to(place)


def wait_until_ended(process: int, limit_s: float = END_S) -> bool:
    """Say whether a process ends in time; one that nobody collected has ended."""
    deadline = time.monotonic() + limit_s
    while _is_running(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _is_running(process: int) -> bool:
    """Say whether a process may still hold its ports: its last thread closes them."""
    place = Path("/proc") / str(process)
    try:
        state = (place / "stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" or len(list((place / "task").iterdir())) > 1
    except OSError:
        return False


def end_servers(folder: Path) -> list[int]:
    """End every server of the projects in a folder; return those that had to be killed."""
    killed = []
    # What was being started when the first look was taken is found by the next.
    while found := servers_below(folder):
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
                os.kill(process, signal.SIGCONT)
        for process in found:
            if not wait_until_ended(process):
                killed.append(process)
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                wait_until_ended(process)
    return killed
