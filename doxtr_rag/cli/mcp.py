"""`doxtr-rag mcp`: the knowledge base for agents that speak the Model Context Protocol."""

from __future__ import annotations

import argparse
from contextlib import closing

from doxtr_rag import bootstrap
from doxtr_rag.cli.outcome import Outcome

NAME = "mcp"
HELP = "serve search, outlines and sections to an agent over standard input and output"
EXAMPLES = """  doxtr-rag mcp
  doxtr-rag install-agent claude
  doxtr-rag install-agent codex --print"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command: there are none."""


def run(arguments: argparse.Namespace) -> Outcome:
    """Answer until the input ends; standard output is the protocol's."""
    from doxtr_rag.mcp_server import server  # noqa: PLC0415 - more than a second, and only here

    standing = bootstrap.StandingKnowledgeBase(
        lambda: bootstrap.find_project(arguments.conf), bootstrap.start_if_wanted
    )
    with closing(standing):
        server(standing.current).run("stdio")
    return Outcome({}, lambda _: None)
