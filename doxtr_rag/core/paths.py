"""What a file's place says about its scope: the deny-list first, then the folders to share."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from doxtr_rag.core.scope import Scope, ScopeSignal

ORIGIN = "path"
SEPARATORS = re.compile(r"[/\\]+")
PLURAL = "s"


class PathRules:
    """The path rules of one project (interface I1: rag_private_paths, rag_source_roots).

    Parts of the project root's own path never count; parts of every other path do.
    """

    def __init__(
        self,
        root: Path,
        source_roots: Sequence[Path],
        private_parts: Iterable[str],
        package_folders: Sequence[Path] = (),
    ) -> None:
        self._given_root = _absolute(root)
        self._root = _real(root)
        self._source_roots = tuple(_real(folder) for folder in source_roots)
        self._names = tuple(sorted(set(filter(None, map(normal_part, private_parts)))))
        self._packages = tuple(_real(folder) for folder in package_folders)
        self._of_dependencies: dict[str, tuple[ScopeSignal, ...]] = {}

    def signals(self, path: Path) -> tuple[ScopeSignal, ...]:
        """Return what the place of a document's own file says; never nothing."""
        given = _absolute(self._given_root / path)
        real = _resolved(given)
        if real is None:
            return (ScopeSignal(ORIGIN, None, f"{path} cannot be read"),)
        denied = self._denied(given, real)
        if denied:
            return (denied,)
        for folder in self._source_roots:
            if real.is_relative_to(folder):
                shown = self._shown(folder)
                return (ScopeSignal(ORIGIN, Scope.SHARED_ORG, f"in source root {shown}"),)
        reason = f"{self._shown(given)} is in no folder of rag_source_roots"
        return (ScopeSignal(ORIGIN, Scope.LOCAL_PRIVATE, reason),)

    def dependency_signals(self, path: Path) -> tuple[ScopeSignal, ...]:
        """Return what the place of an included file says; nothing when it raises no doubt."""
        key = os.fspath(path)
        if key not in self._of_dependencies:
            self._of_dependencies[key] = self._of_dependency(path)
        return self._of_dependencies[key]

    def _of_dependency(self, path: Path) -> tuple[ScopeSignal, ...]:
        try:
            given = _absolute(self._given_root / path)
            real = _real(given)
        except (OSError, ValueError):
            return (ScopeSignal(ORIGIN, None, f"the place of {path!r} is unclear"),)
        denied = self._denied(given, real)
        if denied:
            return (denied,)
        if any(real.is_relative_to(folder) for folder in (self._root, *self._packages)):
            return ()
        reason = f"includes {given}, which is outside the project"
        return (ScopeSignal(ORIGIN, Scope.LOCAL_PRIVATE, reason),)

    def _denied(self, given: Path, real: Path) -> ScopeSignal | None:
        """Return the signal of the first part on the deny-list, of either spelling of a path."""
        for path in (given, real):
            for part in self._parts(path):
                if is_private_part(part, self._names):
                    reason = f"{part!r} in {self._shown(path)} is on the list rag_private_paths"
                    return ScopeSignal(ORIGIN, Scope.LOCAL_PRIVATE, reason)
        return None

    def _parts(self, path: Path) -> Iterable[str]:
        below = self._below(path, (self._given_root, self._root, *self._packages))
        return (part for name in below.parts for part in SEPARATORS.split(name))

    def _below(self, path: Path, folders: Iterable[Path]) -> Path:
        for folder in folders:
            if path.is_relative_to(folder):
                return path.relative_to(folder)
        return path

    def _shown(self, path: Path) -> str:
        return self._below(path, (self._given_root, self._root)).as_posix()


def is_private_part(part: str, names: Iterable[str]) -> bool:
    """Say whether a path part is one of the names, or starts with one as a word of its own.

    `names` are normal parts already. For NDA: NDA, nda.md, NDAs, NDA-2024, but not agenda or Ndash.
    """
    normal = normal_part(part)
    return any(normal.startswith(name) and _is_word_end(normal[len(name) :]) for name in names)


def _is_word_end(rest: str) -> bool:
    """Say whether a word may end before `rest`, with or without a plural s."""
    after_plural = rest[1:] if rest.startswith(PLURAL) else rest
    return not rest[:1].isalpha() or (after_plural != rest and not after_plural[:1].isalpha())


def normal_part(part: str) -> str:
    """Return a path part as file systems and readers confuse it with others.

    Letter case, Unicode forms and invisible characters do not tell parts apart, nor do spaces
    around a part or dots after it, which some systems drop.
    """
    visible = "".join(c for c in part if unicodedata.category(c) != "Cf")
    folded = unicodedata.normalize("NFKC", visible).casefold()
    return unicodedata.normalize("NFKC", folded).rstrip(". \t").lstrip()


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - resolves "..", but no link


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _resolved(path: Path) -> Path | None:
    """Return where an existing file really is; None when that is not certain."""
    try:
        return path.resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return None
