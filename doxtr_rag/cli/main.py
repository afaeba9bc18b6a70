"""Entry of `doxtr-rag`: parse, run, print one answer, return one exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console

from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.cli.parser import Parser, UsageError, build_parser
from doxtr_rag.core.errors import DoxtrRagError

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (interface I3)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    wants_json = "--json" in arguments
    command = next((word for word in arguments if not word.startswith("-")), "")
    try:
        outcome = _run(build_parser(), arguments)
    except DoxtrRagError as error:
        if "--debug" in arguments:
            raise
        return _print_error(error, command, wants_json)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough; Python would complain again when it flushes at exit.
        sys.stdout = open_null()
        return 0
    if outcome is not None:
        _print_outcome(outcome, command, wants_json)
        return outcome.exit_code
    return 0


def _run(parser: Parser, arguments: list[str]) -> Outcome | None:
    try:
        parsed = parser.parse_args(arguments)
    except SystemExit:  # --help and --version have printed their answer
        return None
    if parsed.command is None:
        raise UsageError("a command is missing: see doxtr-rag --help")
    outcome: Outcome = parsed.run(parsed)
    return outcome


def _print_outcome(outcome: Outcome, command: str, wants_json: bool) -> None:
    if not wants_json:
        outcome.show(Console(highlight=False, soft_wrap=True))
        return
    envelope: dict[str, object] = {"ok": outcome.exit_code == 0, "command": command}
    if outcome.exit_code:
        envelope |= {"error": outcome.error, "message": outcome.message}
    print(json.dumps(envelope | {"data": outcome.data}, ensure_ascii=False))


def _print_error(error: DoxtrRagError, command: str, wants_json: bool) -> int:
    if wants_json:
        envelope = {"ok": False, "command": command, "error": error.kind, "message": str(error)}
        print(json.dumps(envelope, ensure_ascii=False))
    else:
        print(f"doxtr-rag: {error}", file=sys.stderr)
    return error.exit_code


def open_null() -> TextIO:
    """Return a stream that swallows what is written."""
    return open("/dev/null", "w", encoding="utf-8")  # noqa: PTH123 - lives to the end
