"""The model of a server: loaded once, in the background, and shared by every request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from doxtr_rag.core.errors import DoxtrRagError
from doxtr_rag.core.ports import Embedder

RETRY_S = 3.0
"""Seconds before a model that failed to load is tried again."""


@dataclass(frozen=True, slots=True)
class ModelNames:
    """What a model is called, and what proves that it is the same."""

    profile: str
    model: str
    dimension: int
    fingerprint: str


class ModelHost:
    """Makes an embedder for each request over one loaded model.

    `load` reads the model and returns what makes embedders over it, each with counts of its own.
    """

    def __init__(self, names: ModelNames, load: Callable[[], Callable[[], Embedder]]) -> None:
        self.names = names
        self._load = load
        self._loading = threading.Lock()
        self._make: Callable[[], Embedder] | None = None
        self._failure: DoxtrRagError | None = None
        self._failed_at = 0.0

    def warm_up(self) -> None:
        """Load the model in a thread; a failure shows in `state` and in the next request."""
        threading.Thread(target=self._try_load, daemon=True).start()

    def embedder(self) -> Embedder:
        """Return an embedder; the model is loaded when it is not.

        Raises:
            DoxtrRagError: the model cannot be used.
        """
        make = self._make or self._try_load()
        if make is None:
            raise self._failure or DoxtrRagError("the model is not loaded: try again")
        return make()

    def state(self) -> tuple[str, str]:
        """Return `ready`, `loading` or `failed`, and why it failed."""
        if self._make is not None:
            return "ready", ""
        failure = self._failure
        return ("loading", "") if failure is None else ("failed", str(failure))

    def _try_load(self) -> Callable[[], Embedder] | None:
        with self._loading:
            has_failed = self._failure is not None
            if self._make is None and not (
                has_failed and time.monotonic() - self._failed_at < RETRY_S
            ):
                try:
                    self._make = self._load()
                    self._failure = None
                except DoxtrRagError as error:
                    self._failure, self._failed_at = error, time.monotonic()
            return self._make
