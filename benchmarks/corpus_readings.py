"""What two finished stores say of a run: its report, and the texts they hold."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

STORES = ("shared", "chroma")
PRIVATE = "chroma"
CORPUS = "corpus.sqlite3"


def run_reports(root: Path) -> list[dict[str, Any]]:
    """Return the reports of all runs, the first one first."""
    rows = _rows(root / ".doxtr" / PRIVATE, "SELECT report FROM runs ORDER BY seq")
    return [json.loads(report) for (report,) in rows]


def texts(root: Path) -> dict[str, str]:
    """Return chunk id -> hash of what was embedded, of both stores."""
    return {
        chunk: text
        for store in STORES
        for chunk, text in _rows(root / ".doxtr" / store, "SELECT id, text_hash FROM chunks")
    }


def size(root: Path) -> int:
    """Return the bytes that both stores take on the disk."""
    files = (root / ".doxtr").rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def _rows(store: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(store / CORPUS)) as connection:
        return connection.execute(query).fetchall()
