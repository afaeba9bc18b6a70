"""`doxtr-rag doctor`: can I search now, and if not, what is the next command."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.text import Text

from doxtr_rag import bootstrap
from doxtr_rag.cli.outcome import Outcome

NAME = "doctor"
HELP = "check model, runtime and stores with a real question: can I search now?"
EXAMPLES = """  doxtr-rag doctor
  doxtr-rag doctor --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command: there are none."""


def run(arguments: argparse.Namespace) -> Outcome:
    """Probe everything; exit 0 only when every store can be searched."""
    checks = bootstrap.diagnose(bootstrap.find_project(arguments.conf))
    failed = [check for check in checks if not check.is_fine]
    data = {
        "can_search": not failed,
        "checks": [
            {"name": c.name, "ok": c.is_fine, "code": c.code, "detail": c.detail} for c in checks
        ],
    }

    def show(console: Console) -> None:
        for check in checks:
            mark, style = ("ok  ", "green") if check.is_fine else ("FAIL", "red")
            console.print(Text(f"{mark} {check.name}: {check.detail}", style=style))
        verdict = "You can search now." if not failed else "You cannot search everything now."
        console.print(Text(verdict, style="bold"))

    if not failed:
        return Outcome(data, show)
    return Outcome(data, show, exit_code=1, error=failed[0].code, message=failed[0].detail)
