"""`doxtr-rag resume`: let a paused build go on."""

from __future__ import annotations

import argparse

from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.cli.run_request import add_arguments, ask
from doxtr_rag.core.runs import Request

__all__ = ["EXAMPLES", "HELP", "NAME", "add_arguments", "run"]

NAME = "resume"
HELP = "let a paused build go on"
EXAMPLES = """  doxtr-rag resume"""


def run(arguments: argparse.Namespace) -> Outcome:
    """Ask the run."""
    return ask(arguments, Request.RESUME)
