"""What `pause`, `resume` and `cancel` have in common."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.text import Text

from doxtr_rag import bootstrap
from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.cli.run_view import run_json, run_lines
from doxtr_rag.cli.writing_options import add_wait
from doxtr_rag.core.runs import Request

WAIT_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which run, and how long to wait for it."""
    parser.add_argument(
        "run_id", nargs="?", metavar="RUN", help="as status names it (default: the one at work)"
    )
    add_wait(parser, WAIT_S, "for the run to do it")


def ask(arguments: argparse.Namespace, wanted: Request) -> Outcome:
    """Ask, and show what the run made of it."""
    project = bootstrap.find_project(arguments.conf)
    run = bootstrap.request(project, wanted, arguments.run_id, arguments.wait)

    def show(console: Console) -> None:
        for line in run_lines(run):
            console.print(Text(line))

    return Outcome({"run": run_json(run)}, show)
