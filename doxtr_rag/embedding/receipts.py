"""Remembers which files were hashed, so that gigabytes are not read again at every start."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

logger = logging.getLogger(__name__)

_BLOCK_BYTES = 1 << 20


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        OSError: the file cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def write_atomically(path: Path, text: str) -> None:
    """Replace a text file in one step, so that no reader sees half of it.

    Raises:
        OSError: the folder cannot be written.
    """
    with NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
    try:
        Path(file.name).replace(path)
    except OSError:
        Path(file.name).unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True)
class Receipts:
    """One small file for each verified file, found by the verified file's resolved path."""

    folder: Path

    def sha256(self, path: Path, *, trust: bool = True) -> str:
        """Return the SHA-256 of a file, from its receipt when size and time still fit.

        Without `trust` the file is read whatever its receipt says.

        Raises:
            OSError: the file cannot be read.
        """
        # Before hashing, so that a change while hashing makes the receipt useless, not wrong.
        state = _state(path)
        known = self._read(path) if trust else {}
        if known and all(known.get(key) == value for key, value in state.items()):
            return str(known["sha256"])
        found = sha256_of(path)
        self._write(path, {**state, "sha256": found})
        return found

    def remember(self, path: Path, sha256: str) -> None:
        """Note the SHA-256 of a file that was hashed elsewhere, just before it got this name."""
        self._write(path, {**_state(path), "sha256": sha256})

    def _slot(self, path: Path) -> Path:
        key = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()
        return self.folder / f"{key[:32]}.json"

    def _read(self, path: Path) -> dict[str, object]:
        try:
            receipt = json.loads(self._slot(path).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return receipt if isinstance(receipt, dict) and "sha256" in receipt else {}

    def _write(self, path: Path, receipt: dict[str, object]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self._slot(path), json.dumps(receipt))
        except OSError as error:
            logger.debug("no receipt kept for %s: %s", path, error)


def _state(path: Path) -> dict[str, object]:
    found = path.stat()
    return {"path": str(path.resolve()), "size": found.st_size, "mtime_ns": found.st_mtime_ns}
