"""Files of other programs: read whole, replaced in one step, one installation at a time."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from doxtr_rag.agent_install.errors import InstallError

PRIVATE = 0o600


@contextmanager
def foreseen_os_errors(path: Path, staged: Path | None = None) -> Iterator[None]:
    """Translate what the operating system says; `staged` is what is to become the path.

    Raises:
        InstallError: naming the path, or the file below it that failed.
    """
    try:
        yield
    except OSError as error:
        failed = path if str(error.filename) in {"None", str(staged)} else error.filename
        raise InstallError(
            f"{failed}: {error.strerror or error}: free space or give permission, "
            "then run install-agent again"
        ) from error


@contextmanager
def sole_installer(folder: Path) -> Iterator[None]:
    """Keep other installations out of an existing folder; a killed one lets go of it.

    Raises:
        InstallError: another one is at work there.
    """
    with foreseen_os_errors(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InstallError(
                f"{folder}: another installation is at work here: run install-agent again"
            ) from error
        except OSError:  # network folders may know no locks; the steps stay safe one by one
            pass
        yield
    finally:
        os.close(descriptor)


def content(path: Path) -> bytes | None:
    """Return what a file holds, or None where there is none.

    Raises:
        InstallError: it cannot be read.
    """
    with foreseen_os_errors(path):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


def is_private(path: Path) -> bool:
    """Say whether only its owner may open a file."""
    return stat.S_IMODE(path.stat().st_mode) == PRIVATE


def replace(path: Path, held: bytes | None, wanted: bytes, mode: int | None = None) -> None:
    """Put new content in a file, through a symlink, in one step.

    An existing file keeps its mode unless one is given; `held` is what it was read as.

    Raises:
        InstallError: another program wrote it meanwhile, or it cannot be written.
    """
    real = Path(os.path.realpath(path))
    with foreseen_os_errors(real):
        real.parent.mkdir(parents=True, exist_ok=True)
        if mode is None and held is not None:
            mode = stat.S_IMODE(real.stat().st_mode)
    staged = real.with_name(f".{real.name.lstrip('.')}.doxtr-rag-staging")
    with sole_installer(real.parent), foreseen_os_errors(real, staged):
        try:
            _write_synced(staged, wanted, mode)
            if content(real) != held:
                raise InstallError(
                    f"{real}: another program wrote it meanwhile: run install-agent again"
                )
            staged.replace(real)
        finally:
            staged.unlink(missing_ok=True)


def keep_copy(path: Path, backup: Path, held: bytes) -> bool:
    """Write what a file held beside it unless that was done before; say whether it was done.

    Raises:
        InstallError: it cannot be written.
    """
    with foreseen_os_errors(backup):
        if os.path.lexists(backup):
            return False
        mode = stat.S_IMODE(path.stat().st_mode)
    replace(backup, None, held, mode)
    return True


def remove(path: Path) -> None:
    """Remove a file or a link; the link's target stays.

    Raises:
        InstallError: it cannot be removed.
    """
    with foreseen_os_errors(path):
        path.unlink(missing_ok=True)


def remove_if_empty(folder: Path) -> None:
    """Remove a folder that holds nothing."""
    with suppress(OSError):
        folder.rmdir()


def _write_synced(path: Path, wanted: bytes, mode: int | None) -> None:
    path.unlink(missing_ok=True)  # what a killed installation left
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o666 if mode is None else PRIVATE)
    with os.fdopen(descriptor, "wb") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(wanted)
        file.flush()
        os.fsync(file.fileno())
