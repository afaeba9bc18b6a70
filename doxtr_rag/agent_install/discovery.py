"""What Pi loads of a place: the rules by which it finds extensions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

MANIFEST = "package.json"
SOURCES = (".ts", ".js")


def manifest_of(folder: Path) -> Mapping[str, object]:
    """Return a folder's package.json, empty when there is none that can be read."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def declared_by(manifest: Mapping[str, object]) -> tuple[str, ...]:
    """Return the files of extensions that a manifest names, without its exclusions."""
    declared = manifest.get("pi")
    entries = declared.get("extensions") if isinstance(declared, dict) else None
    if not isinstance(entries, list):
        return ()
    return tuple(e for e in entries if isinstance(e, str) and not e.startswith(("!", "+", "-")))


def loaded_from(place: Path) -> list[Path]:
    """Return the files that Pi would load when it is pointed to a file or folder."""
    if place.is_file():
        return [place]
    if not place.is_dir():
        return []
    return _entries_of(place) or [path for _, entries in discovered_in(place) for path in entries]


def discovered_in(folder: Path) -> list[tuple[Path, list[Path]]]:
    """Return what Pi finds in a folder of extensions, one level deep, and the files it loads."""
    return [
        (child, entries)
        for child in _visible_in(folder)
        if (entries := _entries_of(child) if child.is_dir() else _source_alone(child))
    ]


def loaded_from_package(place: Path) -> list[Path]:
    """Return the files that Pi would load of a package: manifest, index or `extensions/`."""
    return loaded_from(place / "extensions" if _is_conventional(place) else place)


def _visible_in(folder: Path) -> list[Path]:
    """Return what Pi looks at in a folder of extensions."""
    try:
        children = sorted(folder.iterdir())
    except OSError:
        return []
    return [
        path for path in children if not path.name.startswith(".") and path.name != "node_modules"
    ]


def _is_conventional(place: Path) -> bool:
    return not declared_by(manifest_of(place)) and (place / "extensions").is_dir()


def _entries_of(folder: Path) -> list[Path]:
    """Return the files of one extension: those its manifest names, else its index."""
    declared = [
        path for entry in declared_by(manifest_of(folder)) for path in _named(folder, entry)
    ]
    return [path for place in declared for path in _within(place)] or _index_of(folder)


def _within(place: Path) -> list[Path]:
    """Return the files of a manifest's entry, which may be a folder."""
    if place.is_file():
        return [place]
    return _index_of(place) or [
        path for child in _visible_in(place) for path in _source_alone(child)
    ]


def _source_alone(path: Path) -> list[Path]:
    return [path] if path.suffix in SOURCES and path.is_file() else []


def _index_of(folder: Path) -> list[Path]:
    return [path for path in (folder / "index.ts", folder / "index.js") if path.is_file()][:1]


def _named(folder: Path, entry: str) -> list[Path]:
    if not any(sign in entry for sign in "*?"):
        return [folder / entry]
    try:
        return sorted(folder.glob(entry.removeprefix("./")))
    except (ValueError, NotImplementedError):
        return []
