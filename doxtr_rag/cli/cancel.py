"""`doxtr-rag cancel`: ask a running build to end."""

from __future__ import annotations

import argparse

from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.cli.run_request import add_arguments, ask
from doxtr_rag.core.runs import Request

__all__ = ["EXAMPLES", "HELP", "NAME", "add_arguments", "run"]

NAME = "cancel"
HELP = "ask a running build to end; what it saved is kept"
EXAMPLES = """  doxtr-rag cancel
  doxtr-rag cancel 3f9a11c2 --json"""


def run(arguments: argparse.Namespace) -> Outcome:
    """Ask the run."""
    return ask(arguments, Request.CANCEL)
