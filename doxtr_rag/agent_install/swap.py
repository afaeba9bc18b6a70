"""Puts a folder or a link where another one was, so that a crash leaves one of the two, whole.

Everything is made in a staging folder beside the parent of the target, never inside that parent,
where an agent would take it for an extension.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeAlias

from doxtr_rag.agent_install.files import foreseen_os_errors, sole_installer

STAGING = ".doxtr-rag-staging-"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2

Exchange: TypeAlias = Callable[[Path, Path], bool]
Step: TypeAlias = Callable[[str], None]


def exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; say whether this system could."""
    if sys.platform != "linux":
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    names = (os.fsencode(one), os.fsencode(other))
    failed = rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    return bool(failed == 0)


def put(
    build: Callable[[Path], None],
    target: Path,
    *,
    trade: Exchange = exchange,
    at: Step = lambda _: None,
) -> None:
    """Build something elsewhere and let it take the place of `target`.

    `at` is called after each step. Where names cannot be exchanged, a crash between two renames
    leaves nothing at `target` and the old one in the staging folder, from where `sweep` brings it
    back.

    Raises:
        InstallError: something could not be written or moved; `target` is as it was.
    """
    room = _room(target)
    with sole_installer(room), foreseen_os_errors(target):
        _sweep(target)
        staging = Path(mkdtemp(prefix=STAGING, dir=room))
        try:
            built, old = staging / "built", staging / "old"
            build(built)
            _sync(built)
            at("built")
            if not os.path.lexists(target):
                built.rename(target)
            elif not trade(built, target):
                target.rename(old)
                at("old moved away")
                built.rename(target)
            at("in place")
        finally:
            _sweep(target)
    at("swept")


def take_away(target: Path, *, at: Step = lambda _: None) -> None:
    """Remove a folder or a link in one step; what a link leads to stays.

    Raises:
        InstallError: it could not be moved or removed.
    """
    room = _room(target)
    with sole_installer(room), foreseen_os_errors(target):
        _sweep(target)
        staging = Path(mkdtemp(prefix=STAGING, dir=room))
        target.rename(staging / "removed")
        at("moved away")
        _sweep(target)


def sweep(target: Path) -> None:
    """Remove what killed installations left, and bring back a target that one had moved away.

    Raises:
        InstallError: something could not be removed.
    """
    room = _room(target)
    if room.is_dir():
        with sole_installer(room), foreseen_os_errors(target):
            _sweep(target)


def _room(target: Path) -> Path:
    """Return the folder for staging: on the target's file system, where no agent looks."""
    return target.parent.resolve().parent


def _sweep(target: Path) -> None:
    for staging in sorted(_room(target).glob(f"{STAGING}*")):
        old = staging / "old"
        if os.path.lexists(old) and not os.path.lexists(target):
            old.rename(target)
        shutil.rmtree(staging)


def _sync(path: Path) -> None:
    """Let what was built survive a power cut."""
    if path.is_symlink():
        return
    for part in (*sorted(path.rglob("*")), path):
        descriptor = os.open(part, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
