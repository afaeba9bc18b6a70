"""`doxtr-rag retry`: try again the documents that could not be read."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.text import Text

from doxtr_rag import bootstrap
from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.cli.writing_options import add_writing_options, effort_of

NAME = "retry"
HELP = "try again the documents that failed; those of Sphinx are marked for the next build"
EXAMPLES = """  doxtr-rag retry
  doxtr-rag retry --dry-run --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    add_writing_options(parser)


def run(arguments: argparse.Namespace) -> Outcome:
    """Try, and say what is left to do."""
    project = bootstrap.find_project(arguments.conf)
    retried = bootstrap.retry(project, effort_of(arguments))
    data = {
        "dry_run": arguments.dry_run,
        "done": list(retried.done),
        "failed": dict(retried.failed),
        "waiting": [{"document": d, "next": c} for d, c in retried.waiting.items()],
    }
    left = len(retried.failed) + len(retried.waiting)
    return Outcome(
        data,
        lambda console: _show(console, retried),
        exit_code=1 if left else 0,
        error="incomplete" if left else "",
        message=_message(retried) if left else "",
    )


def _message(retried: bootstrap.Retried) -> str:
    parts = [f"{len(retried.failed)} documents failed again"] if retried.failed else []
    parts += [
        f"{len(documents)} documents wait for {command}"
        for command, documents in _by_command(retried).items()
    ]
    return "; ".join(parts)


def _by_command(retried: bootstrap.Retried) -> dict[str, list[str]]:
    commands: dict[str, list[str]] = {}
    for document, command in retried.waiting.items():
        commands.setdefault(command, []).append(document)
    return commands


def _show(console: Console, retried: bootstrap.Retried) -> None:
    if not (retried.done or retried.failed or retried.waiting):
        console.print("nothing has failed: there is nothing to retry")
    for document in retried.done:
        console.print(Text(f"read again: {document}"))
    for document, reason in retried.failed.items():
        console.print(Text(f"failed again: {document}: {reason}"))
    for command, documents in _by_command(retried).items():
        console.print(Text("only Sphinx can read these again; the next build will:"))
        for document in documents:
            console.print(Text(f"  {document}"))
        console.print(Text(f"run: {command}"))
