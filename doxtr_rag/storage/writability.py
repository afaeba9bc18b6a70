"""May we write here? Asked of the file system itself, since modes and mounts both decide."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)
_NO_NAMELESS_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT)


def is_writable(folder: Path) -> bool:
    """Say whether files can be created in a folder, or in the nearest parent that exists."""
    return _refusal(folder) == 0


def is_read_only(folder: Path) -> bool:
    """Say whether files may not be created there; a full disk forbids nothing."""
    return _refusal(folder) in _FORBIDDEN


def _refusal(folder: Path) -> int:
    """Return the error number of a file that cannot be made, 0 when it can; leaves nothing."""
    place = folder
    try:
        while not place.exists() and place != place.parent:
            place = place.parent
        os.close(_nameless_file(place))
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def _nameless_file(folder: Path) -> int:
    """Open a new file that no kill can leave behind, where the file system has such files."""
    nameless = getattr(os, "O_TMPFILE", None)  # Linux alone has it
    try:
        if nameless is not None:
            return os.open(folder, os.O_WRONLY | nameless | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in _NO_NAMELESS_FILES:
            raise
    probe = folder / f".writable-{secrets.token_hex(8)}"
    descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    probe.unlink(missing_ok=True)
    return descriptor
