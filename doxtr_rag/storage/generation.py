"""Folders of the derived index: each holds one finished state and is replaced, never changed."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from doxtr_rag.core.errors import StoreLockedError
from doxtr_rag.storage.private_files import (
    foreseen_os_errors,
    make_private_folder,
    open_private,
    sync_folder,
    sync_tree,
)

INDEX_FOLDER = "index"
CURRENT_FILE = "CURRENT"
WRITER_LOCK = "writer.lock"
WRITER_WAIT_S = 120.0
CHECKSUM_BLOCK = 1 << 20
_NAME = re.compile(r"[0-9a-f]{16}")


def current(folder: Path) -> str:
    """Return the name of the generation in use, "" when there is none."""
    try:
        name = (folder / CURRENT_FILE).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return name if _NAME.fullmatch(name) else ""


def place(folder: Path, name: str) -> Path:
    """Return the folder of a generation."""
    return folder / INDEX_FOLDER / name


def exists(folder: Path, name: str) -> bool:
    """Say whether the files of a generation are there."""
    try:
        return bool(name) and (place(folder, name) / "chroma.sqlite3").is_file()
    except OSError:
        return False


def begin(folder: Path) -> str:
    """Make the folder of another generation and return its name.

    Raises:
        StoreError: the folder cannot be made.
    """
    name = secrets.token_hex(8)
    make_private_folder(place(folder, name))
    return name


def manifest(folder: Path, name: str) -> str:
    """Return what a finished generation's graph files are, as JSON.

    Raises:
        StoreError: a file cannot be read.
    """
    root = place(folder, name)
    with foreseen_os_errors(root):
        return json.dumps(
            {
                path.relative_to(root).as_posix(): [*_stamp(path), _checksum(path)]
                for path in _graph_files(root)
            }
        )


def is_intact(folder: Path, name: str, expected: str) -> bool:
    """Say whether a generation's graph files are those of its manifest.

    Chroma must not be asked: a damaged file ends the process that opens it. Contents are read
    only where size and time differ from the manifest's, as after a copy.
    """
    root = place(folder, name)
    known = json.loads(expected)
    try:
        found = {path.relative_to(root).as_posix(): path for path in _graph_files(root)}
        return found.keys() == known.keys() and all(
            _stamp(path) == known[file][:2]
            or (path.stat().st_size == known[file][0] and _checksum(path) == known[file][2])
            for file, path in found.items()
        )
    except OSError:
        return False


def _graph_files(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("*/*") if path.is_file())


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _checksum(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(CHECKSUM_BLOCK):
            total.update(block)
    return total.hexdigest()


def swap(folder: Path, name: str) -> None:
    """Make a finished generation the one in use, durably; "" leaves none in use.

    Raises:
        StoreError: the file system refused.
    """
    pointer = folder / CURRENT_FILE
    with foreseen_os_errors(pointer):
        if not name:
            pointer.unlink(missing_ok=True)
            sync_folder(folder)
            return
        sync_tree(place(folder, name))
        sync_folder(folder / INDEX_FOLDER)
        draft = folder / f"{CURRENT_FILE}.{name}"
        descriptor = open_private(draft)
        try:
            os.write(descriptor, f"{name}\n".encode("ascii"))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.replace(pointer)
        sync_folder(folder)


def remove_others(folder: Path, keep: str) -> None:
    """Remove every generation but one, finished or not.

    Raises:
        StoreError: a folder cannot be removed.
    """
    index = folder / INDEX_FOLDER
    with foreseen_os_errors(index):
        if index.is_dir():
            for stale in index.iterdir():
                if not stale.is_dir():
                    # Beside the lock, what SQLite had no time to delete.
                    if stale.name != WRITER_LOCK:
                        stale.unlink(missing_ok=True)
                elif stale.name != keep:
                    shutil.rmtree(stale)
        for draft in folder.glob(f"{CURRENT_FILE}.*"):
            draft.unlink()


@contextmanager
def sole_writer(folder: Path, wait_s: float = WRITER_WAIT_S) -> Iterator[None]:
    """Keep out the index writer of a run that was killed and whose child still works.

    Raises:
        StoreLockedError: it did not finish in time.
    """
    make_private_folder(folder / INDEX_FOLDER)
    descriptor = open_private(folder / INDEX_FOLDER / WRITER_LOCK)
    deadline = time.monotonic() + wait_s
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise StoreLockedError(
                        f"{folder}: another process is still writing the index: run again later"
                    ) from error
                time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)
