"""Waiting for the right to write a store, and saying for whom."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from doxtr_rag.storage import StoreLock

BUILD_WAIT_S = 60.0
"""How long a build waits for another writer (retrieval R19)."""

Say = Callable[[str], None]


def locked(
    folder: Path, say: Say, wait_s: float = BUILD_WAIT_S
) -> AbstractContextManager[StoreLock]:
    """Hold a store's lock for the length of a `with` block.

    Raises:
        StoreLockedError: another process kept it for longer than that.
    """
    return StoreLock(folder).acquired(
        wait_s,
        lambda who: say(f"doxtr_rag: store {folder.name} waits for {who}, up to {wait_s:.0f} s"),
    )
