"""The grammar of the command line: one module a command, registered here."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from doxtr_rag.cli import (
    cache_info,
    cancel,
    doctor,
    fetch_weights,
    install_agent,
    mcp,
    pause,
    rebuild,
    resume,
    retry,
    search,
    serve,
    status,
)
from doxtr_rag.core.errors import ConfigError
from doxtr_rag.core.version import VERSION

COMMANDS = (
    search,
    status,
    doctor,
    serve,
    mcp,
    install_agent,
    fetch_weights,
    rebuild,
    retry,
    pause,
    resume,
    cancel,
    cache_info,
)


ALSO_OPTIONS = ("install-agent", "rebuild")
"""Commands that may be spelled as an option: `doxtr-rag --install-agent pi` (interface I3)."""


class UsageError(ConfigError):
    """The command line itself is wrong."""

    kind = "usage"


class Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that `--json` answers usage errors too."""

    def error(self, message: str) -> NoReturn:
        """Report a usage error.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message}: see {self.prog} --help")


def build_parser() -> Parser:
    """Return the parser of `doxtr-rag`."""
    shared = Parser(add_help=False)
    _add_global_options(shared, is_after_command=True)
    parser = Parser(
        prog="doxtr-rag",
        description="Search and look after the knowledge base that sphinx-build fills.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_global_options(parser, is_after_command=False)
    parser.add_argument("--version", action="version", version=f"doxtr-rag {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for module in COMMANDS:
        command = commands.add_parser(
            module.NAME,
            parents=[shared],
            help=module.HELP,
            description=f"{module.HELP[0].upper()}{module.HELP[1:]}.",
            epilog=f"examples:\n{module.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def _add_global_options(parser: argparse.ArgumentParser, *, is_after_command: bool) -> None:
    """Add the options that stand before or after the command.

    After it they are suppressed when absent, so that they do not undo the ones before it.
    """
    missing = argparse.SUPPRESS if is_after_command else None
    off = argparse.SUPPRESS if is_after_command else False
    parser.add_argument(
        "--conf",
        type=Path,
        default=missing,
        metavar="PATH",
        help="a conf.py, or its folder; default: the nearest .doxtr folder at or above this one",
    )
    parser.add_argument("--json", action="store_true", default=off, help="print one JSON object")
    parser.add_argument("--quiet", action="store_true", default=off, help="print results only")
    parser.add_argument("--debug", action="store_true", default=off, help="show tracebacks")


def with_commands_spelled(arguments: Sequence[str]) -> list[str]:
    """Return arguments with a command that was spelled as an option in its place."""
    spelled = {f"--{name}": name for name in ALSO_OPTIONS}
    return [spelled.get(word, word) for word in arguments]
