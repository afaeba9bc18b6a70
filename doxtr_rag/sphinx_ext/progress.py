"""Long work shown through Sphinx's own status iterator."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from sphinx.util.display import status_iterator

MAX_STEPS = 20
"""Lines a phase prints at most where a line cannot be rewritten."""


class SphinxProgress:
    """Turns `(phase, done, total)` reports into a line that moves, one phase at a time."""

    def __init__(self, verbosity: int) -> None:
        self._verbosity = verbosity
        self._phase = ""
        self._step = self._steps = 0
        self._label = ""
        self._lines: Iterator[int] = iter(())

    def __enter__(self) -> SphinxProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Show that `done` of `total` units of `phase` are done."""
        if phase != self._phase:
            self._end()
            # As many steps as reports of this size make, so that each line says something else.
            self._begin(phase, max(1, min(MAX_STEPS, total // max(done, 1))))
        self._label = f"{done}/{total}"
        step = self._steps * done // max(total, 1)
        while self._step < step:
            self._step += 1
            next(self._lines, None)

    def _begin(self, phase: str, steps: int) -> None:
        self._phase, self._step, self._steps = phase, 0, steps
        self._lines = status_iterator(
            range(steps),
            f"doxtr_rag: {phase}... ",
            "blue",
            steps,
            self._verbosity,
            stringify_func=lambda _: self._label,
        )

    def _end(self) -> None:
        if self._phase:
            next(self._lines, None)
            self._phase = ""
