"""Entry of `doxtr-rag`: parse, run, print one answer, return one exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from rich.console import Console

from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.cli.parser import COMMANDS, UsageError, build_parser, with_commands_spelled
from doxtr_rag.core.errors import DoxtrRagError

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = with_commands_spelled(list(sys.argv[1:] if argv is None else argv))
    try:
        code = _answer(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough; Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _answer(arguments: list[str]) -> int:
    command = _command_of(arguments)
    wants_json = "--json" in arguments
    try:
        outcome = _run(arguments)
    except DoxtrRagError as error:
        if "--debug" in arguments:
            raise
        return _print_error(error, command, wants_json)
    if outcome is None:
        return 0
    _print_outcome(outcome, command, wants_json)
    return outcome.exit_code


def _command_of(arguments: Sequence[str]) -> str:
    """Return the command that is meant, also where the rest cannot be parsed."""
    known = {module.NAME for module in COMMANDS}
    return next((word for word in arguments if word in known), "")


def _run(arguments: Sequence[str]) -> Outcome | None:
    try:
        parsed = build_parser().parse_args(arguments)
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
