"""Runs `sphinx-build` in this process and writes down what it did: imports, and CPU by phase.

    python benchmarks/observed_build.py REPORT [--phases] -- SPHINX_BUILD_ARGUMENTS

With `--phases` the ports that the extension hands to its engine are wrapped in meters. A meter
reads the CPU clock of the whole process, so it counts the threads of the model runtime too. The
index is written by a child process, whose CPU is what the kernel charged for children meanwhile.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from process_usage import resident_memory
from sphinx.cmd.build import main as sphinx_build

HEAVY = ("chromadb", "onnxruntime", "numpy", "tokenizers")


class Meters:
    """CPU-seconds by phase; a phase inside another one is not counted twice.

    `resident` is the most memory that the process held when a phase was left, in bytes.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.resident: defaultdict[str, int] = defaultdict(int)
        self._inner = [0.0]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Charge what happens inside to a phase."""
        started = time.process_time()
        self._inner.append(0.0)
        try:
            yield
        finally:
            spent = time.process_time() - started
            self.seconds[name] += spent - self._inner.pop()
            self._inner[-1] += spent
            self.resident[name] = max(self.resident[name], resident_memory())

    @contextmanager
    def children(self, name: str) -> Iterator[None]:
        """Charge what child processes spend meanwhile to a phase."""
        started = _children_seconds()
        try:
            yield
        finally:
            self.seconds[name] += _children_seconds() - started

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that charges its calls to a phase."""

        def call(*arguments: Any, **named: Any) -> Any:
            with self.phase(name):
                return function(*arguments, **named)

        return call

    def stepwise(self, name: str, steps: Iterator[Any]) -> Iterator[Any]:
        """Charge each step of an iterator to a phase, and nothing of what its reader does."""
        while True:
            with self.phase(name):
                step = next(steps, None)
            if step is None:
                return
            yield step


def _children_seconds() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


class Metered:
    """Any port, with all its methods charged to one phase."""

    def __init__(self, port: Any, meters: Meters, name: str) -> None:
        self.port = port
        self._meters = meters
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self.port, attribute)
        return self._meters.timed(self._name, found) if callable(found) else found


class MeteredEmbedder(Metered):
    """An embedder whose batches are charged one by one."""

    def embed(self, texts: Sequence[str]) -> Iterator[Any]:
        """Pass batches on."""
        return self._meters.stepwise(self._name, self.port.embed(texts))


def observe(meters: Meters) -> None:
    """Put meters between the extension's engine and its ports."""
    from doxtr_rag import bootstrap  # noqa: PLC0415 - a build without the extension stays without
    from doxtr_rag.indexing.engine import IngestionEngine  # noqa: PLC0415
    from doxtr_rag.sphinx_ext.session import HarvestSession  # noqa: PLC0415

    make_engine = IngestionEngine.__init__

    def make_metered(engine: IngestionEngine, **ports: Any) -> None:
        make_engine(engine, **metered_ports(meters, ports))

    IngestionEngine.__init__ = make_metered  # type: ignore[method-assign,assignment]
    for owner, method, phase in (
        (bootstrap, "ingest", "stores opened and locked"),
        (IngestionEngine, "ingest", "chunking and planning"),
        (HarvestSession, "collect", "harvest"),
        (HarvestSession, "missing", "manifest"),
        (HarvestSession, "close", "manifest"),
        (HarvestSession, "refresh_stale", "inventory of references"),
        (HarvestSession, "harvest", "breadcrumbs and scopes"),
    ):
        setattr(owner, method, meters.timed(phase, getattr(owner, method)))


def metered_ports(meters: Meters, ports: dict[str, Any]) -> dict[str, Any]:
    """Return an engine's ports with their meters."""
    model, refresh = ports["model"], ports["refresh_indexes"]
    make_counter = meters.timed("tokenizer loaded", model.counter)
    make_embedder = meters.timed("model loaded", model.embedder)

    def refresh_metered(stores: Sequence[Metered]) -> None:
        with meters.children("index (child process)"), meters.phase("index (waiting for it)"):
            refresh([store.port for store in stores])

    return {
        **ports,
        "model": replace(
            model,
            counter=lambda: Metered(make_counter(), meters, "tokens counted"),
            embedder=lambda: MeteredEmbedder(make_embedder(), meters, "embedding"),
        ),
        "stores": {
            scope: Metered(store, meters, "corpus (SQLite)")
            for scope, store in ports["stores"].items()
        },
        "cache": Metered(ports["cache"], meters, "build cache (SQLite)"),
        "refresh_indexes": refresh_metered,
    }


def main(arguments: Sequence[str]) -> int:
    """Build, and write the report whatever came of it."""
    split = arguments.index("--")
    report, *flags = arguments[:split]
    meters = Meters()
    if "--phases" in flags:
        observe(meters)
    code = sphinx_build(list(arguments[split + 1 :]))
    found = {
        "imported": sorted(set(HEAVY) & sys.modules.keys()),
        "phases": {name: round(seconds, 3) for name, seconds in meters.seconds.items()},
        "resident": meters.resident,
    }
    Path(report).write_text(json.dumps(found, indent=1), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
