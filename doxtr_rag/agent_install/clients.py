"""Agents that speak MCP: where each keeps its servers, and the shape of an entry there.

One table, so that an agent is added here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TypeAlias

from doxtr_rag.agent_install.errors import UnsupportedAgentError
from doxtr_rag.agent_install.places import AgentPlaces
from doxtr_rag.agent_install.syntax import JSON, TOML, Entry, Syntax
from doxtr_rag.core.errors import IndexNotBuiltError

SERVER = "doxtr-rag"
"""The name of our entry in every file."""

SCOPE, PROJECT = "--scope", "--project"
"""The options of `doxtr-rag mcp` that an entry may have."""

STARTED_IN = "."
"""For agents that start their servers in the folder they were started in themselves."""

WORKSPACE = "${workspaceFolder}"
"""For agents that replace it with the folder that is open."""

Shape: TypeAlias = Callable[[Sequence[str]], Entry]


class Level(str, Enum):
    """Whose agent gets the entry: everyone's in this project, or this user's everywhere."""

    PROJECT = "project"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Client:
    """One agent: its files by level, the key its servers stand under, the shape of an entry.

    `project_folder` is what names the project in a file that others may check out elsewhere.
    """

    name: str
    container: str
    shape: Shape
    project_file: str | None = None
    user_file: Callable[[AgentPlaces], Path] | None = None
    syntax: Syntax = JSON
    project_folder: str = STARTED_IN

    @property
    def usual_level(self) -> Level:
        """The level that is meant when none is named."""
        return Level.USER if self.project_file is None else Level.PROJECT

    def file(self, places: AgentPlaces, level: Level) -> Path:
        """Return the file of a level.

        Raises:
            UnsupportedAgentError: this agent has none there that we know.
            IndexNotBuiltError: there is no project here.
        """
        if level is Level.USER and self.user_file is not None:
            return self.user_file(places)
        if level is Level.USER or self.project_file is None:
            other = Level.PROJECT if level is Level.USER else Level.USER
            raise UnsupportedAgentError(
                f"{self.name} has no {level.value} file that doxtr-rag can write: use --level "
                f"{other.value}, or --print and add the entry by hand"
            )
        if places.project_root is None:
            raise IndexNotBuiltError(
                "no knowledge base here, so no project to write to: run sphinx-build first, name "
                "the project with --conf, or use --level user"
            )
        return places.project_root / self.project_file

    def project_named(self, places: AgentPlaces, level: Level) -> str | None:
        """Return what an entry says of its project; None where each project is to be found anew."""
        if level is Level.PROJECT and self.project_file is not None:
            return self.project_folder
        if places.is_project_named and places.project_root is not None:
            return str(places.project_root)
        return None

    def owns(self, entry: object) -> bool:
        """Say whether an entry is one of ours, of whatever environment, without changes to it."""
        words = _words(entry)
        return _starts_our_server(words) and entry == self.shape(words)


def _command_and_args(words: Sequence[str]) -> Entry:
    return {"command": words[0], "args": list(words[1:])}


def _with_environment(words: Sequence[str]) -> Entry:
    return {**_command_and_args(words), "env": {}}


def _of_type_stdio(words: Sequence[str]) -> Entry:
    return {"type": "stdio", **_command_and_args(words)}


def _of_type_local(words: Sequence[str]) -> Entry:
    return {"type": "local", "command": list(words), "environment": {}}


def _words(entry: object) -> Sequence[str]:
    """Return the command line of an entry of any shape."""
    if not isinstance(entry, Mapping):
        return ()
    command, args = entry.get("command"), entry.get("args", [])
    words = [*(command if isinstance(command, list) else [command])]
    words += args if isinstance(args, list) else [args]
    return [word for word in words if isinstance(word, str)]


def scope_of(entry: object) -> str | None:
    """Return the scope that an entry of ours was given."""
    words = list(_words(entry))
    return words[words.index(SCOPE) + 1] if SCOPE in words[:-1] else None


def _starts_our_server(words: Sequence[str]) -> bool:
    if "mcp" not in words:
        return False
    at = words.index("mcp")
    program = words[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
    is_started = (program == "doxtr-rag" and at == 1) or list(words[1:at]) == ["-m", "doxtr_rag"]
    options, values = words[at + 1 :: 2], words[at + 2 :: 2]
    return is_started and len(options) == len(values) and {SCOPE, PROJECT}.issuperset(options)


CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client(
            "claude",
            "mcpServers",
            _with_environment,
            ".mcp.json",
            lambda places: places.home / ".claude.json",
        ),
        Client(
            "cursor",
            "mcpServers",
            _with_environment,
            ".cursor/mcp.json",
            lambda places: places.home / ".cursor" / "mcp.json",
            project_folder=WORKSPACE,
        ),
        Client(
            "codex",
            "mcp_servers",
            _command_and_args,
            user_file=lambda places: places.home / ".codex" / "config.toml",
            syntax=TOML,
        ),
        Client(
            "opencode",
            "mcp",
            _of_type_local,
            "opencode.json",
            lambda places: places.config_dir / "opencode" / "opencode.json",
        ),
        Client(
            "vscode",
            "servers",
            _of_type_stdio,
            ".vscode/mcp.json",
            project_folder=WORKSPACE,
        ),
    )
}
