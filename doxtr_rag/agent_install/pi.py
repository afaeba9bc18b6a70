"""Installs the extension into the folder of the Pi agent, and takes it out again."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from doxtr_rag.agent_install import env_file, swap
from doxtr_rag.agent_install.copies import Copy, CopySearch, PiSettings, read_settings
from doxtr_rag.agent_install.extension import Extension, packaged
from doxtr_rag.agent_install.files import (
    PRIVATE,
    content,
    foreseen_os_errors,
    is_private,
    remove,
    replace,
)
from doxtr_rag.agent_install.places import (
    NOT_BUILT,
    PRIVATE_TOO,
    SHARED,
    SHARED_ONLY,
    Action,
    AgentPlaces,
    Report,
)
from doxtr_rag.core.errors import ConfigError

AGENT = "pi"
FOLDER_VARIABLE = "PI_CODING_AGENT_DIR"
EXTENSION_NAME = "chroma-rag"
ENV_FILE_NAME = "doxtr-rag.env"
LOADING_IS_OPTIONAL = (
    "loading it is optional: only to use that knowledge base wherever Pi starts; without it Pi "
    "uses the one of the folder it starts in"
)


@dataclass(frozen=True, slots=True)
class AgentFolder:
    """The folder of a Pi agent, and what is to be said about how it was chosen."""

    path: Path
    notes: tuple[str, ...] = ()

    @property
    def extensions(self) -> Path:
        """Where Pi looks for extensions."""
        return self.path / "extensions"

    @property
    def target(self) -> Path:
        """Where ours is installed."""
        return self.extensions / EXTENSION_NAME

    @property
    def env_file(self) -> Path:
        """The variables for the shell that starts Pi."""
        return self.path / ENV_FILE_NAME


def agent_folder(places: AgentPlaces) -> AgentFolder:
    """Return the folder that the variables choose, else the one below the home folder."""
    if not places.agent_dirs:
        return AgentFolder(places.home / ".pi" / "agent")
    name, chosen = places.agent_dirs[0]
    path = chosen.absolute()
    if name == FOLDER_VARIABLE:
        ignored = [f"{other} is set too and was not used" for other, _ in places.agent_dirs[1:]]
        return AgentFolder(path, (f"{name} chose the folder {path}", *ignored))
    advice = f"start it with {FOLDER_VARIABLE}={path}"
    return AgentFolder(path, (f"{name} chose the folder; Pi itself ignores {name}: {advice}",))


def install_extension(
    places: AgentPlaces,
    *,
    symlink: bool = False,
    scope: str | None = None,
    extension: Extension | None = None,
    put: Callable[[Callable[[Path], None], Path], None] = swap.put,
) -> Report:
    """Install the extension as files, or as a link to this package, and write its env file.

    Without a scope the one that the env file names stays.

    Raises:
        ConfigError: something else lies at its place, or registers its tools as well.
        InstallError: a file could not be written; what was there before still is.
    """
    extension = extension or packaged()
    folder = agent_folder(places)
    swap.sweep(folder.target)
    notes = _checked(places, folder, extension, symlink=symlink)
    was_there = os.path.lexists(folder.target)
    written: list[Path] = []
    if not extension.is_at(folder.target, symlink=symlink):
        with foreseen_os_errors(folder.extensions):
            folder.extensions.mkdir(parents=True, exist_ok=True)
        put(extension.link_at if symlink else extension.write_to, folder.target)
        written += _files_at(folder.target, extension, symlink=symlink)
    before = _read_env_file(folder.env_file)
    after = env_file.merged(before, places.model_folder, places.endpoints, scope)
    if _write_env_file(folder.env_file, before, after):
        written.append(folder.env_file)
    done = Action.UPDATED if was_there else Action.INSTALLED
    action = done if written else Action.UNCHANGED
    return Report(
        AGENT,
        folder.target,
        action,
        tuple(written),
        (*notes, *_advice(folder, before or "", after), *_unbuilt(places)),
    )


def print_extension(
    places: AgentPlaces,
    *,
    symlink: bool = False,
    scope: str | None = None,
    extension: Extension | None = None,
) -> Report:
    """Say what an installation would do.

    Raises:
        ConfigError: it would be refused.
        InstallError: the package lacks files of the extension.
    """
    extension = extension or packaged()
    folder = agent_folder(places)
    notes = _checked(places, folder, extension, symlink=symlink)
    is_there = extension.is_at(folder.target, symlink=symlink)
    files = [] if is_there else _files_at(folder.target, extension, symlink=symlink)
    made = f"link {folder.target} to" if symlink else f"make {folder.target} a copy of"
    known = env_file.values(places.model_folder, places.endpoints, scope)
    before = _read_env_file(folder.env_file) or ""
    after = env_file.merged(before, places.model_folder, places.endpoints, scope)
    planned = (
        f"{folder.target} is up to date" if is_there else f"would {made} {extension.folder}",
        f"would write {folder.env_file}: {', '.join(known) or 'comments only'}",
    )
    return Report(
        AGENT,
        folder.target,
        Action.PRINTED,
        (*files, folder.env_file),
        (*planned, *notes, *_what_it_says(folder, before, after), *_unbuilt(places)),
    )


def remove_extension(places: AgentPlaces, *, extension: Extension | None = None) -> Report:
    """Take away what an installation made, whatever its version; links are not followed.

    Raises:
        ConfigError: what lies at the extension's place is not the extension.
        InstallError: a file could not be removed.
    """
    extension = extension or packaged()
    folder = agent_folder(places)
    swap.sweep(folder.target)
    removed: list[Path] = []
    if os.path.lexists(folder.target):
        _check_owner(folder.target, extension)
        swap.take_away(folder.target)
        removed.append(folder.target)
    if _clear_env_file(folder.env_file):
        removed.append(folder.env_file)
    action = Action.REMOVED if removed else Action.ABSENT
    return Report(AGENT, folder.target, action, tuple(removed), folder.notes)


def _checked(
    places: AgentPlaces, folder: AgentFolder, extension: Extension, *, symlink: bool
) -> tuple[str, ...]:
    """Refuse where Pi would stop at its start; return what is to be said."""
    _check_owner(folder.target, extension)
    root = extension.folder if symlink else folder.extensions.resolve() / EXTENSION_NAME
    ours = frozenset(path.resolve() for path in _entries_below(root, extension))
    search = CopySearch(folder.target, ours, places.home)
    settings = [read_settings(folder.path / "settings.json")]
    if places.project_root is not None:
        settings.append(read_settings(places.project_root / ".pi" / "settings.json"))
    for listing in settings:
        search.in_folder(listing.path.parent / "extensions", listing)
        search.in_settings(listing)
    if search.found:
        raise ConfigError(_refusal(list(search.found.values())))
    unread = [_unread(listing) for listing in settings if listing.problem]
    is_off = any(map(settings[0].turns_off, _entries_below(folder.target, extension)))
    off = [f"{settings[0].path} turns the extension off: turn it on with pi config"]
    return (*folder.notes, *unread, *(off if is_off else []))


def _check_owner(target: Path, extension: Extension) -> None:
    if os.path.lexists(target) and not extension.owns(target):
        raise ConfigError(
            f"{target} was not made by doxtr-rag: move it out of {target.parent}, then run "
            "doxtr-rag install-agent pi again"
        )


def _entries_below(root: Path, extension: Extension) -> list[Path]:
    return [root / os.path.normpath(entry) for entry in extension.entries]


def _refusal(copies: list[Copy]) -> str:
    named = "\n".join(f"  {copy}" for copy in copies)
    return (
        "nothing was installed, because Pi stops at its start when two extensions register one "
        f"tool:\n{named}\nthen run doxtr-rag install-agent pi again"
    )


def _unread(settings: PiSettings) -> str:
    return (
        f"{settings.path} could not be read ({settings.problem}) and was left alone; extensions "
        "that it lists were not looked at"
    )


def _files_at(target: Path, extension: Extension, *, symlink: bool) -> list[Path]:
    return [target] if symlink else [target / name for name in extension.files]


def _advice(folder: AgentFolder, before: str, after: str) -> tuple[str, ...]:
    return (
        *_what_it_says(folder, before, after),
        "start Pi again, or type /reload in it; then /kb status",
    )


def _what_it_says(folder: AgentFolder, before: str, after: str) -> tuple[str, ...]:
    """Say what the env file names, what it named before, and when it is of use."""
    scope = env_file.assigned(after, env_file.SCOPE)
    old, new = (env_file.assigned(text, env_file.ENDPOINTS) for text in (before, after))
    names = f"{folder.env_file} names {new or 'no knowledge base'}"
    said = names if old in {None, new} else f"{names}; before it named {old}"
    if scope == SHARED:
        needed = f"only in a shell that has loaded that file: . {shlex.quote(str(folder.env_file))}"
        return (said, f"{SHARED_ONLY}, {needed}")
    return (said, LOADING_IS_OPTIONAL, PRIVATE_TOO) if new else (said, PRIVATE_TOO)


def _unbuilt(places: AgentPlaces) -> tuple[str, ...]:
    return () if places.is_built else (NOT_BUILT,)


def _read_env_file(path: Path) -> str | None:
    held = content(path)
    return None if held is None else os.fsdecode(held)


def _write_env_file(path: Path, before: str | None, after: str) -> bool:
    """Write the file; say whether it changed."""
    held = None if before is None else os.fsencode(before)
    wanted = os.fsencode(after)
    with foreseen_os_errors(path):
        if held == wanted and is_private(path):
            return False
    replace(path, held, wanted, PRIVATE)
    return True


def _clear_env_file(path: Path) -> bool:
    """Take our lines out of the file, and the file away when none of the user's is left."""
    held = content(path)
    if held is None:
        return False
    kept = os.fsencode(env_file.without_ours(os.fsdecode(held)))
    if kept == held:
        return False
    if kept or path.is_symlink():
        replace(path, held, kept, PRIVATE)
    else:
        remove(path)
    return True
