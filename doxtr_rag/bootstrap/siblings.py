"""Other worktrees of the project's git repository, found by git's own files, without git."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from doxtr_rag.bootstrap.project import Project
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import Sibling

MOST_PARENTS, MOST_WORKTREES, MOST_BYTES = 64, 64, 4096
GITDIR = "gitdir: "


def siblings(project: Project) -> list[Sibling]:
    """Return the knowledge bases of this project in other worktrees; none when that is off.

    A store that lies outside the project is not a sibling's: every worktree has the same.
    """
    settings = project.settings
    if not (settings.reuse_vectors and project.environment.index_reuse):
        return []
    places = [settings.store_path(scope) for scope in Scope]
    inside = [p.relative_to(settings.root) for p in places if p.is_relative_to(settings.root)]
    return [
        Sibling(str(root), tuple(root / place for place in inside))
        for root in worktree_roots(settings.root)
    ]


def worktree_roots(root: Path) -> list[Path]:
    """Return where a folder of a worktree lies in the repository's other worktrees.

    Only folders of the user who asks count.
    """
    top = next((f for f in islice(_upwards(root), MOST_PARENTS) if _exists(f / ".git")), None)
    if top is None:
        return []
    common = _common_folder(top)
    if common is None or not _is_own_folder(common):
        return []
    place = root.resolve().relative_to(top)
    tops = [common.parent] if common.name == ".git" else []
    tops += islice(_linked(common), MOST_WORKTREES)
    others = dict.fromkeys(found.resolve() for found in tops)
    return [f / place for f in others if f != top and _is_own_folder(f / place)]


def _upwards(folder: Path) -> Iterator[Path]:
    real = folder.resolve()
    yield real
    yield from real.parents


def _common_folder(top: Path) -> Path | None:
    """Return the folder that all worktrees share, as `.git` of one of them leads to it."""
    git = top / ".git"
    if git.is_dir():
        return git.resolve()
    said = _line(git)
    if not said.startswith(GITDIR):
        return None
    own = top / said.removeprefix(GITDIR)
    return (own / (_line(own / "commondir") or ".")).resolve()


def _linked(common: Path) -> Iterator[Path]:
    try:
        records = sorted(islice((common / "worktrees").iterdir(), MOST_WORKTREES))
    except OSError:
        return
    for record in records:
        git = record / _line(record / "gitdir")
        if git.name == ".git" and _exists(git):
            yield git.parent


def _line(file: Path) -> str:
    """Return the first line of a small file; "" when it cannot be read."""
    try:
        with file.open("rb") as stream:
            text = stream.read(MOST_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return ""
    return "" if "\0" in text else text.partition("\n")[0].strip()


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _is_own_folder(folder: Path) -> bool:
    try:
        return folder.is_dir() and folder.stat().st_uid == os.getuid()
    except OSError:
        return False
