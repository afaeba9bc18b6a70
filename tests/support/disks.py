"""Small disks that fill up: file systems in memory, of a size that a test chooses."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

MOUNT, UNMOUNT = (shutil.which(name) or name for name in ("mount", "umount"))
PAGE_KIB = 4


@dataclass(frozen=True)
class Disk:
    """A mounted file system."""

    folder: Path

    def used_kib(self) -> int:
        """Return how much of it is taken."""
        found = os.statvfs(self.folder)
        return (found.f_blocks - found.f_bfree) * found.f_frsize // 1024

    def leave_kib(self, free: int) -> None:
        """Make it so small that only this much is free."""
        # A size of nothing would mean no limit.
        self._resize(max(PAGE_KIB, self.used_kib() + free))

    def grow(self) -> None:
        """Make it large."""
        self._resize(512 << 10)

    def _resize(self, kib: int) -> None:
        options = f"remount,size={kib}k"
        subprocess.run([MOUNT, "-o", options, self.folder], check=True, capture_output=True)


@contextmanager
def disk_at(folder: Path) -> Iterator[Disk]:
    """Lend a large disk mounted on a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [MOUNT, "-t", "tmpfs", "-o", "size=512m", "tmpfs", folder]
    subprocess.run(command, check=True, capture_output=True)
    try:
        yield Disk(folder)
    finally:
        subprocess.run([UNMOUNT, "-l", folder], check=True, capture_output=True)


def whynot() -> str:
    """Return why this process cannot mount, "" when it can."""
    with TemporaryDirectory() as folder:
        try:
            with disk_at(Path(folder)):
                return ""
        except (OSError, subprocess.CalledProcessError) as error:
            return str(getattr(error, "stderr", b"") or error)
