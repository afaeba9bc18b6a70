"""Sphinx's own documentation as a corpus: fetched once with pip, verified, kept in a user cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

RELEASE = "9.0.4"
ARCHIVE_SHA256 = "594ef59d042972abbc581d8baa577404abe4e6c3b04ef61bd7fc2acbd51f3fa3"
DOWNLOAD = ("download", "--no-deps", "--no-binary", ":all:", f"sphinx=={RELEASE}")
TIMEOUT_S = 300


class SphinxDocsError(Exception):
    """The source archive could not be fetched, or it is not the pinned one."""


def source() -> Path:
    """Return the folder of the documentation; the first call needs the package index.

    Raises:
        SphinxDocsError: The archive cannot be had, with the command that shows why.
    """
    corpora = _cache_folder() / "corpora"
    finished = corpora / ARCHIVE_SHA256
    if not finished.is_dir():
        corpora.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=corpora) as scratch:
            _unpack(_download(Path(scratch)), Path(scratch, "unpacked"))
            _publish(Path(scratch, "unpacked"), finished)
    return finished / f"sphinx-{RELEASE}" / "doc"


def _cache_folder() -> Path:
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "doxtr-rag"


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", *DOWNLOAD, "--quiet", "--dest", str(folder)]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise SphinxDocsError(f"no answer in {TIMEOUT_S} s: pip {' '.join(DOWNLOAD)}") from error
    archives = sorted(folder.glob("sphinx-*.tar.gz"))
    if run.returncode or not archives:
        raise SphinxDocsError(f"run: pip {' '.join(DOWNLOAD)}\n{run.stderr[-2000:]}")
    return archives[0]


def _unpack(archive: Path, folder: Path) -> None:
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != ARCHIVE_SHA256:
        raise SphinxDocsError(f"{archive.name} has sha256 {found}, expected {ARCHIVE_SHA256}")
    with tarfile.open(archive) as members:
        members.extractall(folder, filter="data")


def _publish(folder: Path, finished: Path) -> None:
    try:
        folder.rename(finished)
    except OSError:
        # Another run was faster; its copy is the same bytes.
        if not finished.is_dir():
            raise
        shutil.rmtree(folder)
