"""Long work on a terminal: one moving line; nothing when piped or quiet."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import Progress, TaskID


class ConsoleProgress:
    """Satisfies the Progress port with a bar on standard error."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        console = Console(stderr=True)
        self._bars = Progress(console=console, disable=is_quiet or not console.is_terminal)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> ConsoleProgress:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Show that `done` of `total` units of `phase` are done."""
        if phase not in self._tasks:
            self._tasks[phase] = self._bars.add_task(phase, total=total)
        self._bars.update(self._tasks[phase], completed=done, total=total)


def print_to_stderr(line: str) -> None:
    """Say something that is no part of the answer."""
    print(line, file=sys.stderr)
