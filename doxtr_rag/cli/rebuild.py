"""`doxtr-rag rebuild`: derive the search indexes of a store again from its corpus."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.text import Text

from doxtr_rag import bootstrap
from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.cli.scopes import SCOPE_OF_STORE
from doxtr_rag.cli.writing_options import add_writing_options, effort_of
from doxtr_rag.core.scope import Scope

NAME = "rebuild"
HELP = "derive the indexes again from the corpus, and erase what was deleted from disk"
EXAMPLES = """  doxtr-rag rebuild
  doxtr-rag rebuild --scope shared
  doxtr-rag rebuild --reharvest --dry-run"""

SCOPES = {"all": tuple(Scope), **{name: (scope,) for name, scope in SCOPE_OF_STORE.items()}}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("--scope", choices=SCOPES, default="all", help="which store (default: all)")
    parser.add_argument(
        "--reharvest",
        action="store_true",
        help="also have the next build read every document again; it embeds only new text",
    )
    add_writing_options(parser)


def run(arguments: argparse.Namespace) -> Outcome:
    """Rebuild and say what is served."""
    project, scopes = bootstrap.find_project(arguments.conf), SCOPES[arguments.scope]
    effort = effort_of(arguments)
    rebuilt = bootstrap.rebuild(
        project, scopes, effort.say, wait_s=effort.wait_s, is_dry=effort.is_dry
    )
    data: dict[str, object] = {"stores": rebuilt, "dry_run": effort.is_dry}
    lines = [
        f"{name}: {'would rebuild the index' if effort.is_dry else 'index rebuilt'} "
        f"over {chunks} chunks"
        for name, chunks in rebuilt.items()
    ]
    if arguments.reharvest:
        count, command = bootstrap.reharvest(project, scopes, effort)
        data["reharvest"] = {"documents": count, "next": command}
        lines += [f"{count} documents are read again by the next build: {command}"]

    def show(console: Console) -> None:
        for line in lines:
            console.print(Text(line))

    return Outcome(data, show)
