"""May we write here? Asked of the file system itself, since modes and mounts both decide."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def is_writable(folder: Path) -> bool:
    """Say whether files can be created in a folder, or in the nearest parent that exists."""
    place = folder
    try:
        while not place.exists() and place != place.parent:
            place = place.parent
        probe = place / f".writable-{secrets.token_hex(8)}"
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        return False
    os.close(descriptor)
    probe.unlink(missing_ok=True)
    return True
