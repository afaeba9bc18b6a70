"""`doxtr-rag pause`: ask a running build to wait, keeping what it has and its locks."""

from __future__ import annotations

import argparse

from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.cli.run_request import add_arguments, ask
from doxtr_rag.core.runs import Request

__all__ = ["EXAMPLES", "HELP", "NAME", "add_arguments", "run"]

NAME = "pause"
HELP = "ask a running build to wait; it keeps what it has, and its locks"
EXAMPLES = """  doxtr-rag pause
  doxtr-rag pause 3f9a11c2 --wait 0"""


def run(arguments: argparse.Namespace) -> Outcome:
    """Ask the run."""
    return ask(arguments, Request.PAUSE)
