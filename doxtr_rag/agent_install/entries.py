"""Writes our MCP entry into an agent's own file, prints it, or takes it out again."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import replace as varied
from pathlib import Path

from doxtr_rag.agent_install.clients import PROJECT, SCOPE, SERVER, Client, Level, scope_of
from doxtr_rag.agent_install.errors import UnsupportedAgentError
from doxtr_rag.agent_install.files import (
    PRIVATE,
    content,
    keep_copy,
    remove,
    remove_if_empty,
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
from doxtr_rag.agent_install.syntax import Address, Entry, entry_at, snippet
from doxtr_rag.core.errors import ConfigError, IndexNotBuiltError

BACKUP_SUFFIX = ".doxtr-rag-backup"
NOT_RUN = "the agent itself was not run: ask it to list its MCP servers"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted of an agent: at which level, started how, and whether to insist.

    Without a scope the entry keeps the one it has; without a project the server finds it itself.
    """

    client: Client
    level: Level
    command: Sequence[str]
    force: bool = False
    scope: str | None = None
    project: str | None = None

    @property
    def address(self) -> Address:
        """Where the entry stands."""
        return (self.client.container, SERVER)

    @property
    def entry(self) -> Entry:
        """The entry."""
        options = {PROJECT: self.project, SCOPE: self.scope}
        given = [word for name, value in options.items() if value for word in (name, value)]
        return self.client.shape([*self.command, *given])

    @property
    def snippet(self) -> str:
        """The entry as a file of its own."""
        return snippet(self.client.syntax, self.address, self.entry)


@dataclass(frozen=True, slots=True)
class AgentFile:
    """An agent's file as it was read: its bytes, its text with plain line ends, and our entry."""

    path: Path
    held: bytes | None
    text: str
    entry: object | None

    @property
    def backup(self) -> Path:
        """Where its content before our first change is kept."""
        return self.path.with_name(self.path.name + BACKUP_SUFFIX)

    def encoded(self, text: str) -> bytes:
        """Return a text with the line ends and the byte order mark of this file."""
        held = self.held or b""
        if _has_windows_lines(held):
            text = text.replace("\n", "\r\n")
        mark = codecs.BOM_UTF8 if held.startswith(codecs.BOM_UTF8) else b""
        return mark + text.encode()


def server_command(executable: Path) -> tuple[str, ...]:
    """Return the command line of our MCP server for an interpreter: its script where it has one."""
    for name in ("doxtr-rag", "doxtr-rag.exe"):
        script = executable.with_name(name)
        if script.is_file():
            return (str(script), "mcp")
    return (str(executable), "-m", "doxtr_rag", "mcp")


def install_entry(wish: Wish, places: AgentPlaces) -> Report:
    """Write the entry into the agent's file, beside everything that is there.

    Raises:
        ConfigError: the file cannot be understood, or has an entry of the user's own.
        UnsupportedAgentError: the agent has no file at that level.
        IndexNotBuiltError: there is no project.
        InstallError: the file cannot be read or written.
    """
    file, syntax = _read(wish, places), wish.client.syntax
    if wish.scope is None and wish.client.owns(file.entry):
        wish = varied(wish, scope=scope_of(file.entry))
    if file.entry == wish.entry:
        return _report(wish, file, Action.UNCHANGED, notes=_advice(wish, places))
    _check_owner(wish, file)
    with _usable(wish, file.path):
        bare = file.text if file.entry is None else syntax.drop(file.text, wish.address)
        wanted = file.encoded(syntax.put(bare, wish.address, wish.entry))
        is_ours_alone = syntax.is_blank(bare) and file.entry is not None
    written = [file.path]
    if file.held is not None and not is_ours_alone and keep_copy(file.path, file.backup, file.held):
        written.append(file.backup)
    is_new_user_file = file.held is None and wish.level is Level.USER
    replace(file.path, file.held, wanted, PRIVATE if is_new_user_file else None)
    action = Action.INSTALLED if file.entry is None else Action.UPDATED
    return _report(wish, file, action, written, notes=(*_advice(wish, places), NOT_RUN))


def print_entry(wish: Wish, places: AgentPlaces) -> Report:
    """Show the entry, and the file that it belongs into where we know it."""
    try:
        path = wish.client.file(places, wish.level)
    except (UnsupportedAgentError, IndexNotBuiltError):
        path = None
    files = () if path is None else (path,)
    return Report(wish.client.name, path, Action.PRINTED, files, snippet=wish.snippet)


def remove_entry(wish: Wish, places: AgentPlaces) -> Report:
    """Take our entry out of the agent's file, and the file away if it holds nothing else.

    A file that says what it said before our first change gets its old bytes back.

    Raises:
        ConfigError: the file cannot be understood, or the entry is the user's own.
        UnsupportedAgentError: the agent has no file at that level.
        IndexNotBuiltError: there is no project.
        InstallError: the file cannot be read or written.
    """
    file, syntax = _read(wish, places), wish.client.syntax
    if file.entry is None:
        return _report(wish, file, Action.ABSENT)
    _check_owner(wish, file)
    with _usable(wish, file.path):
        text = syntax.drop(file.text, wish.address)
        is_blank = syntax.is_blank(text)
    original = content(file.backup)
    if original is not None and _says_the_same(wish, original, text):
        replace(file.path, file.held, original)
        remove(file.backup)
        return _report(wish, file, Action.REMOVED, [file.path, file.backup])
    if is_blank and original is None and not file.path.is_symlink():
        remove(file.path)
        _remove_own_folder(places, file.path)
    else:
        replace(file.path, file.held, file.encoded(text))
    return _report(wish, file, Action.REMOVED, [file.path])


def _read(wish: Wish, places: AgentPlaces) -> AgentFile:
    path = wish.client.file(places, wish.level)
    held = content(path)
    with _usable(wish, path):
        text = _text(held or b"")
        entry = entry_at(wish.client.syntax.read(text), wish.address)
    return AgentFile(path, held, text, entry)


@contextmanager
def _usable(wish: Wish, path: Path) -> Iterator[None]:
    """Translate text that cannot be edited safely."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(
            f"{path} was left alone, because it cannot be edited safely ({error}; comments in "
            f"JSON are among what cannot be kept): add this by hand:\n{wish.snippet}"
        ) from error


def _check_owner(wish: Wish, file: AgentFile) -> None:
    if file.entry is not None and not wish.force and not wish.client.owns(file.entry):
        raise ConfigError(
            f"{file.path} has an entry {SERVER} that was written or changed by someone else, and "
            "was left alone: repeat with --force to lose that entry"
        )


def _text(held: bytes) -> str:
    text = held.decode("utf-8-sig")
    return text.replace("\r\n", "\n") if _has_windows_lines(held) else text


def _has_windows_lines(held: bytes) -> bool:
    """Say whether every line ends as on Windows."""
    return b"\r\n" in held and held.count(b"\n") == held.count(b"\r\n")


def _says_the_same(wish: Wish, original: bytes, text: str) -> bool:
    """Compare with the content before our first change; a key without servers counts as none."""
    read = wish.client.syntax.read
    try:
        before = read(_text(original))
    except ValueError:
        return False
    if before.get(wish.client.container) == {}:
        del before[wish.client.container]
    return before == read(text)


def _remove_own_folder(places: AgentPlaces, path: Path) -> None:
    """Remove the folder that only this agent's file lay in."""
    if path.parent not in {places.project_root, places.home}:
        remove_if_empty(path.parent)


def _advice(wish: Wish, places: AgentPlaces) -> tuple[str, ...]:
    """Return what is to be said of an entry."""
    may_read = SHARED_ONLY if wish.scope == SHARED else PRIVATE_TOO
    found = "the server looks for a knowledge base from the folder that the agent starts it in"
    return (
        may_read,
        *(() if wish.project else (f"{found}: name one with --conf",)),
        *(() if places.is_built else (NOT_BUILT,)),
    )


def _report(
    wish: Wish,
    file: AgentFile,
    action: Action,
    files: Sequence[Path] = (),
    *,
    notes: Sequence[str] = (),
) -> Report:
    return Report(wish.client.name, file.path, action, tuple(files), tuple(notes))
