"""`doxtr-rag cache-info`: what lies where on this machine, and how large it is."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.text import Text

from doxtr_rag import bootstrap
from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.cli.sizes import shown_size

NAME = "cache-info"
HELP = "show the folders of models, caches and stores, and their sizes"
EXAMPLES = """  doxtr-rag cache-info
  doxtr-rag cache-info --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command: there are none."""


def run(arguments: argparse.Namespace) -> Outcome:
    """Measure and list."""
    places = bootstrap.places(bootstrap.find_project(arguments.conf))
    data = {
        "places": [
            {
                "name": place.name,
                "path": str(place.path),
                "exists": place.exists,
                "bytes": place.size,
            }
            for place in places
        ]
    }

    def show(console: Console) -> None:
        for place in places:
            size = shown_size(place.size) if place.exists else "not there"
            console.print(Text(f"{place.name:15} {size:>10}  {place.path}"))

    return Outcome(data, show)
