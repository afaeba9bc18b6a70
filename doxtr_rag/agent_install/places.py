"""Where agents keep their files on this machine, and what was done there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from doxtr_rag import bootstrap
from doxtr_rag.config.environment import read_environment
from doxtr_rag.core.errors import IndexNotBuiltError
from doxtr_rag.core.scope import Scope

SHARED = "shared"
SCOPES = (SHARED, "all")
"""What an agent may be given: the shared store alone, or every store."""

PRIVATE_TOO = (
    "it may read private pages too, and what it reads goes to the provider of its model: "
    "--scope shared gives it the shared store alone"
)
SHARED_ONLY = "it reads the shared store alone"
NOT_BUILT = "nothing is indexed here yet: run sphinx-build"


@dataclass(frozen=True, slots=True)
class AgentPlaces:
    """The folders that an installation may touch, and what the agent is told about the project.

    `agent_dirs` are the variables that name Pi's folder, the one that wins first;
    `is_project_named` says that the user named the project.
    """

    home: Path
    config_dir: Path
    agent_dirs: tuple[tuple[str, Path], ...] = ()
    project_root: Path | None = None
    model_folder: Path | None = None
    endpoints: Path | None = None
    is_project_named: bool = False
    is_built: bool = True


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
        is_built = False
    else:
        root, endpoints = settings.root, settings.state_dir / "endpoints.json"
        is_built = any(settings.store_path(scope).exists() for scope in Scope)
    return AgentPlaces(
        home=environment.home,
        config_dir=environment.config_dir,
        agent_dirs=environment.pi_folders,
        project_root=root,
        model_folder=environment.bge_m3_onnx_dir,
        endpoints=endpoints,
        is_project_named=conf is not None,
        is_built=is_built,
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
