"""Files and folders that only their owner may open, whatever the umask."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from doxtr_rag.core.errors import StoreReadOnlyError, StoreUnavailableError

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


@contextmanager
def foreseen_os_errors(path: Path) -> Iterator[None]:
    """Translate what the operating system says about a store's files.

    Raises:
        StoreReadOnlyError: the place does not accept writes.
        StoreUnavailableError: anything else, a full disk among it.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _READ_ONLY:
            raise StoreReadOnlyError(
                f"{path}: not writable ({error.strerror}): give the folder write permission, "
                "or configure a store elsewhere"
            ) from error
        raise StoreUnavailableError(
            f"{path}: {error.strerror or error}: free space or repair the folder, then run again"
        ) from error


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, each for its owner alone.

    Raises:
        StoreError: the folder cannot be made.
    """
    with foreseen_os_errors(folder):
        missing = [part for part in (folder, *folder.parents) if not part.exists()]
        for part in reversed(missing):
            part.mkdir(exist_ok=True)
            part.chmod(FOLDER_MODE)


def open_private(path: Path) -> int:
    """Return a descriptor for reading and writing; the file is created when missing.

    Raises:
        StoreError: the file cannot be opened.
    """
    with foreseen_os_errors(path):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        except FileExistsError:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)
        os.fchmod(descriptor, FILE_MODE)
        return descriptor


def ensure_private(path: Path) -> None:
    """Create an empty file for its owner alone, unless there is one.

    Raises:
        StoreError: the file cannot be made.
    """
    with foreseen_os_errors(path):
        is_missing = not path.exists()
    if is_missing:
        os.close(open_private(path))


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Make every file below a folder survive a power cut."""
    for path in sorted(folder.rglob("*")):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    sync_folder(folder)
