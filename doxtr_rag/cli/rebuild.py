"""`doxtr-rag rebuild`: derive the search indexes of a store again from its corpus."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.text import Text

from doxtr_rag import bootstrap
from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.cli.progress import print_to_stderr
from doxtr_rag.cli.scopes import SCOPE_OF_STORE
from doxtr_rag.core.scope import Scope

NAME = "rebuild"
HELP = "derive the indexes again from the corpus, and erase what was deleted from disk"
EXAMPLES = """  doxtr-rag rebuild
  doxtr-rag rebuild --scope shared"""

SCOPES = {"all": tuple(Scope), **{name: (scope,) for name, scope in SCOPE_OF_STORE.items()}}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("--scope", choices=SCOPES, default="all", help="which store (default: all)")


def run(arguments: argparse.Namespace) -> Outcome:
    """Rebuild and say what is served."""
    project = bootstrap.find_project(arguments.conf)
    rebuilt = bootstrap.rebuild(project, SCOPES[arguments.scope], print_to_stderr)
    data = {"stores": rebuilt}

    def show(console: Console) -> None:
        for name, chunks in rebuilt.items():
            console.print(Text(f"{name}: index rebuilt over {chunks} chunks"))

    return Outcome(data, show)
