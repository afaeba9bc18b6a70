"""The options that commands which write have in common."""

from __future__ import annotations

import argparse

from doxtr_rag import bootstrap
from doxtr_rag.cli.progress import print_to_stderr

MOST_SECONDS = 10**9


def add_wait(parser: argparse.ArgumentParser, default: float, purpose: str) -> None:
    """Add `--wait`."""
    parser.add_argument(
        "--wait",
        type=seconds,
        default=default,
        metavar="S",
        help=f"wait up to so many seconds {purpose} (default: {default:.0f})",
    )


def add_writing_options(parser: argparse.ArgumentParser) -> None:
    """Add `--dry-run` and `--wait`."""
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be done, and write nothing"
    )
    add_wait(parser, bootstrap.BUILD_WAIT_S, "for another writer of the same store")


def effort_of(arguments: argparse.Namespace) -> bootstrap.Effort:
    """Return how a command was asked to go about its writing."""
    return bootstrap.Effort(print_to_stderr, arguments.wait, arguments.dry_run)


def seconds(word: str) -> float:
    """Read a duration for argparse.

    Raises:
        argparse.ArgumentTypeError: it is no number of seconds.
    """
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not 0 <= value <= MOST_SECONDS:
        raise argparse.ArgumentTypeError("expected a number of seconds from 0 up")
    return value
