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
  doxtr-rag doctor --deep
  doxtr-rag doctor --recall --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--deep",
        action="store_true",
        help="also compare every id and a sample of the vectors between corpus and index",
    )
    parser.add_argument(
        "--recall",
        action="store_true",
        help="also measure how many of the nearest chunks the index finds, beside exact search",
    )


def run(arguments: argparse.Namespace) -> Outcome:
    """Probe everything; exit 0 only when every store can be searched."""
    checks = bootstrap.diagnose(
        bootstrap.find_project(arguments.conf),
        is_deep=arguments.deep,
        is_recall_measured=arguments.recall,
    )
    failed = [check for check in checks if not check.is_fine]
    data = {
        "can_search": not failed,
        "checks": [
            {
                "name": check.name,
                "ok": check.is_fine,
                "code": check.code,
                "detail": check.detail,
                "figures": dict(check.figures),
            }
            for check in checks
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
