"""The parent's side of the index: starts the child process and judges how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from doxtr_rag.core.errors import StoreUnavailableError

CHILD_MODULE = "doxtr_rag.storage.index_process"
CHILD_CODE = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    f"runpy.run_module({CHILD_MODULE!r}, run_name='__main__', alter_sys=True)"
)
PACKAGE_FOLDER = Path(__file__).resolve().parents[2]
"""Where this package was imported from; a conf.py may have put that on the path by itself."""


def refresh_folders(folders: Sequence[Path]) -> None:
    """Bring the indexes of stores up to their corpora, in one child process.

    Raises:
        StoreUnavailableError: the child failed or was killed; the corpora are as they were.
    """
    if not folders:
        return
    try:
        child = subprocess.run(
            [sys.executable, "-c", CHILD_CODE, str(PACKAGE_FOLDER), *map(_absolute, folders)],
            # The root, since Python would import modules from a project's own folder.
            cwd=os.sep,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
    except OSError as error:
        raise _not_written(folders, f"no process for it: {error}") from error
    if child.returncode:
        raise _not_written(folders, _ending(child.returncode, child.stderr))


def _not_written(folders: Sequence[Path], reason: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{', '.join(map(str, folders))}: the index was not written ({reason}); the corpus is "
        "complete and is searched without it: run sphinx-build again, or doxtr-rag rebuild"
    )


def _absolute(folder: Path) -> str:
    return str(folder.absolute())


def _ending(code: int, stderr: bytes) -> str:
    said = stderr.decode("utf-8", "replace").strip().splitlines()
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit {code}"
    return f"{how}: {said[-1]}" if said else how
