"""`doxtr-rag mcp`: the knowledge base for agents that speak the Model Context Protocol."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

from doxtr_rag import bootstrap
from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.core.errors import ConfigError
from doxtr_rag.core.scope import Scope

NAME = "mcp"
HELP = "serve search, outlines and sections to an agent over standard input and output"
EXAMPLES = """  doxtr-rag mcp
  doxtr-rag mcp --scope shared
  doxtr-rag install-agent claude
  doxtr-rag install-agent codex --print

standard output is the protocol's: --json and --quiet change nothing here"""
SCOPES = {"shared": (Scope.SHARED_ORG,), "all": tuple(Scope)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--scope",
        choices=SCOPES,
        default="all",
        help="shared keeps private pages from the agent (default: all)",
    )
    parser.add_argument(
        "--project",
        type=Path,
        metavar="FOLDER",
        help="the folder of the project, or one in it (default: the working directory)",
    )


def run(arguments: argparse.Namespace) -> Outcome:
    """Answer until the input ends; standard output is the protocol's.

    Raises:
        ConfigError: the project is named twice.
    """
    from doxtr_rag.mcp_server import server  # noqa: PLC0415 - more than a second, and only here

    if arguments.conf is not None and arguments.project is not None:
        raise ConfigError("--project cannot be used with --conf: name the project once")
    standing = bootstrap.StandingKnowledgeBase(
        lambda: _project(arguments.conf, arguments.project),
        bootstrap.start_if_wanted,
        SCOPES[arguments.scope],
    )
    with closing(standing):
        server(standing.current).run("stdio")
    return Outcome({}, lambda _: None)


def _project(conf: Path | None, folder: Path | None) -> bootstrap.Project:
    """Return the project as it is now.

    Raises:
        ConfigError: its folder is not there, or its settings are unusable.
        IndexNotBuiltError: it was never built.
    """
    if folder is not None and not folder.is_dir():
        raise ConfigError(
            f"--project {folder} is no folder: run doxtr-rag install-agent again in the project"
        )
    return bootstrap.find_project(conf, folder)
