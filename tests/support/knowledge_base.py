"""What a knowledge base holds, read with plain sqlite3 so that a fault of ours cannot hide."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path

STORES = {"SHARED_ORG": "shared", "LOCAL_PRIVATE": "chroma"}
COLUMNS = (
    "id, project, origin, document, anchor, text, header, title, breadcrumb, url, source_file, "
    "locator, links, metadata, scope, content_hash, text_hash, tokens"
)


def chunks(root: Path, scope: str) -> dict[str, dict[str, object]]:
    """Return the chunks of one store by id, every column of them."""
    with closing(_connect(root, scope)) as database:
        database.row_factory = sqlite3.Row
        rows = database.execute(f"SELECT {COLUMNS} FROM chunks").fetchall()  # noqa: S608
        return {row["id"]: dict(row) for row in rows}


def vectors(root: Path, scope: str) -> dict[str, tuple[float, ...]]:
    """Return the vector of each chunk by its id; a chunk without one has an empty vector."""
    with closing(_connect(root, scope)) as database:
        rows = database.execute(
            "SELECT c.id, v.vector FROM chunks c LEFT JOIN vectors v ON v.text_hash = c.text_hash"
        ).fetchall()
    return {key: struct.unpack(f"<{len(blob or b'') // 4}f", blob or b"") for key, blob in rows}


def contents(root: Path) -> dict[str, dict[str, dict[str, object]]]:
    """Return the chunks of both stores."""
    return {scope: chunks(root, scope) for scope in STORES}


def difference(left: Path, right: Path) -> list[str]:
    """Return every way in which two knowledge bases differ; vectors count beyond 1e-6."""
    found = []
    for scope in STORES:
        ours, theirs = chunks(left, scope), chunks(right, scope)
        found += [f"{scope}: {key} only left" for key in sorted(ours.keys() - theirs.keys())]
        found += [f"{scope}: {key} only right" for key in sorted(theirs.keys() - ours.keys())]
        for key in sorted(ours.keys() & theirs.keys()):
            found += [
                f"{scope}: {key}: {column}: {ours[key][column]!r} != {theirs[key][column]!r}"
                for column in ours[key]
                if ours[key][column] != theirs[key][column]
            ]
        found += _far_vectors(scope, vectors(left, scope), vectors(right, scope))
    return found


def _far_vectors(scope, ours, theirs) -> list[str]:
    far = []
    for key in sorted(ours.keys() & theirs.keys()):
        pairs = zip(ours[key], theirs[key], strict=True)
        if not ours[key] or max(abs(a - b) for a, b in pairs) > 1e-6:
            far.append(f"{scope}: {key}: vectors differ or are missing")
    return far


def _connect(root: Path, scope: str) -> sqlite3.Connection:
    path = root / ".doxtr" / STORES[scope] / "corpus.sqlite3"
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


def ids_in(folder: Path) -> set[str]:
    """Return the ids of the chunks in a store folder."""
    with closing(sqlite3.connect(f"file:{folder}/corpus.sqlite3?mode=ro", uri=True)) as database:
        return {key for (key,) in database.execute("SELECT id FROM chunks")}
