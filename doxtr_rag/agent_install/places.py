"""Where agents keep their files on this machine, and what was done there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from doxtr_rag import bootstrap
from doxtr_rag.config.environment import read_environment
from doxtr_rag.core.errors import IndexNotBuiltError


@dataclass(frozen=True, slots=True)
class AgentPlaces:
    """The folders that an installation may touch, and what the agent is told about the project.

    `agent_dirs` are the variables that name Pi's folder, the one that wins first.
    """

    home: Path
    config_dir: Path
    agent_dirs: tuple[tuple[str, Path], ...] = ()
    project_root: Path | None = None
    model_folder: Path | None = None
    endpoints: Path | None = None


def find_places(conf: Path | None) -> AgentPlaces:
    """Return the places of this user and, when there is one, of the project.

    Raises:
        ConfigError: a variable is wrong, or the project's settings are unusable.
    """
    environment = read_environment()
    environment.require_valid()
    try:
        settings = bootstrap.find_project(conf).settings
    except IndexNotBuiltError:
        root = endpoints = None
    else:
        root, endpoints = settings.root, settings.state_dir / "endpoints.json"
    return AgentPlaces(
        home=environment.home,
        config_dir=environment.config_dir,
        agent_dirs=environment.pi_folders,
        project_root=root,
        model_folder=environment.bge_m3_onnx_dir,
        endpoints=endpoints,
    )


class Action(str, Enum):
    """What a command did."""

    INSTALLED = "installed"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    ABSENT = "absent"
    PRINTED = "printed"


@dataclass(frozen=True, slots=True)
class Report:
    """What was done; `files` are those that were written or removed.

    A printed one did nothing: its files are those that an installation would write.
    """

    agent: str
    target: Path | None
    action: Action
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    snippet: str = ""
