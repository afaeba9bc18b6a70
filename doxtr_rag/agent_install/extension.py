"""The Pi extension of this package: what of it is installed, and whether that lies somewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.resources import files
from pathlib import Path

from doxtr_rag.agent_install.discovery import MANIFEST, declared_by, manifest_of
from doxtr_rag.agent_install.errors import InstallError
from doxtr_rag.agent_install.files import foreseen_os_errors

LEFT_OUT = (
    ".*",
    "__pycache__",
    "node_modules",
    "tests",
    "vectors",
    "*-lock.json",
    "*.lock",
    "tsconfig*.json",
    "vitest.config.*",
)
"""Names that stay behind: what only the development of the extension needs."""


@dataclass(frozen=True, slots=True)
class Extension:
    """The extension of this package: its folder, its name and the files that are installed."""

    folder: Path
    name: str
    entries: tuple[str, ...]
    files: Mapping[str, bytes]

    def write_to(self, folder: Path) -> None:
        """Write the files into a folder that does not exist yet."""
        folder.mkdir()
        for name, held in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(held)

    def link_at(self, path: Path) -> None:
        """Make a symlink to the package's own folder."""
        path.symlink_to(self.folder, target_is_directory=True)

    def is_at(self, target: Path, *, symlink: bool) -> bool:
        """Say whether exactly this extension lies there, as files or as a link."""
        if target.is_symlink() or symlink:
            return symlink and target.is_symlink() and target.resolve() == self.folder.resolve()
        return target.is_dir() and _content_of(target) == self.files

    def owns(self, target: Path) -> bool:
        """Say whether what lies there came from an installer of this extension."""
        if target.is_symlink() and not target.exists():
            return True  # a link to an environment that is gone
        return target.is_dir() and manifest_of(target).get("name") == self.name


def packaged(folder: Path | None = None) -> Extension:
    """Return the extension that this package carries.

    Raises:
        InstallError: the package lacks files of it.
    """
    folder = folder or Path(str(files("doxtr_rag"))) / "pi_extension"
    manifest = manifest_of(folder)
    entries = declared_by(manifest)
    with foreseen_os_errors(folder):
        held = {
            path.relative_to(folder).as_posix(): path.read_bytes() for path in _installed_of(folder)
        }
    missing = [entry for entry in entries if os.path.normpath(entry) not in held]
    if not entries or missing:
        wanting = ", ".join(missing) or MANIFEST
        raise InstallError(
            f"{folder}: the extension is incomplete ({wanting}): install doxtr-rag again"
        )
    return Extension(folder, str(manifest.get("name")), entries, held)


def _installed_of(folder: Path) -> Iterator[Path]:
    """Yield the files of the package that are installed."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if any(fnmatch(path.name, pattern) for pattern in LEFT_OUT):
            continue
        if path.is_dir():
            yield from _installed_of(path)
        else:
            yield path


def _content_of(folder: Path) -> dict[str, bytes | None]:
    """Return every file below an installed folder; what is no plain file has no content."""
    return {
        path.relative_to(folder).as_posix(): (
            path.read_bytes() if path.is_file() and not path.is_symlink() else None
        )
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    }
