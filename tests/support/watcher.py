"""A reader in a process of its own that looks at a knowledge base all the time.

One JSON object a line comes in: `{"root": ..., "never": [...], "turned": [...]}` starts watching a
folder, `{}` stops it and has a report printed. A fault is something that no instant may show.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from doxtr_rag.core.errors import IndexNotBuiltError, StoreError
from doxtr_rag.core.ports import PoolRequest
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import open_reader
from doxtr_rag.storage.reader import StoreReader

FOLDERS = {Scope.SHARED_ORG: "shared", Scope.LOCAL_PRIVATE: "chroma"}
ANSWERS, BYTES = "answers", "bytes"
PAUSE_S = 0.04
LOOKS_OF_A_READER = 12
QUESTION = "ports and names of the server"
DIMENSION = 1024


@dataclass
class Watch:
    """What is looked for in one folder, and what was seen."""

    root: Path
    never: list[bytes]
    turned: list[bytes]
    of_bytes: bool
    looks: int = 0
    faults: list[str] = field(default_factory=list)
    degraded: Counter[str] = field(default_factory=Counter)
    _gone: set[bytes] = field(default_factory=set)
    _readers: dict[Scope, StoreReader] = field(default_factory=dict)

    def look(self) -> None:
        """Read every byte of the shared store, or ask both stores."""
        if self.of_bytes:
            self._read_bytes()
        else:
            for scope in FOLDERS:
                with suppress(IndexNotBuiltError):
                    self._ask(scope)
                    self._read_rows(scope)
        self.looks += 1
        if self.looks % LOOKS_OF_A_READER == 0:
            self.close()

    def report(self) -> dict[str, object]:
        """Return what was seen."""
        return {"looks": self.looks, "faults": self.faults, "degraded": dict(self.degraded)}

    def close(self) -> None:
        """Let go of the stores."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _ask(self, scope: Scope) -> None:
        folder = self.root / FOLDERS[scope]
        try:
            if scope not in self._readers:
                self._readers[scope] = open_reader(folder, scope, FOLDERS[scope])
            reader = self._readers[scope]
            fingerprint = reader.fingerprint()
            if fingerprint is None:
                return
            request = PoolRequest(QUESTION, question(), fingerprint, size=400, best=400)
            found = reader.pools(request)
        except IndexNotBuiltError:
            raise
        except StoreError as error:
            self._fault(f"{folder.name} does not answer: {error}")
            return
        self.degraded.update(said.code for said in found.degraded)
        texts = ((c.project + c.document, c.text) for c in found.chunks.values())
        self._judge(scope, list(texts))
        if found.chunks and not found.rankings["dense"]:
            self._fault(f"{folder.name} finds words and no vectors")

    def _read_rows(self, scope: Scope) -> None:
        path = self.root / FOLDERS[scope] / "corpus.sqlite3"
        if not path.is_file():
            return
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as corpus:
                rows = corpus.execute("SELECT project || document, text, scope FROM chunks")
                found = rows.fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                self._fault(f"{path.parent.name}: {error}")
            return
        if any(row[2] != scope.value for row in found):
            self._fault(f"{path.parent.name} has rows of the other scope")
        self._judge(scope, [row[:2] for row in found])

    def _judge(self, scope: Scope, rows: list[tuple[str, str]]) -> None:
        """Look for private words, and for documents of two revisions."""
        everything = "\n".join(text for _, text in rows).encode()
        if scope is Scope.SHARED_ORG:
            self._judge_words(everything, "a row")
        for fault in half_documents(rows):
            self._fault(fault)

    def _judge_words(self, content: bytes, where: str) -> None:
        for word in self.never:
            if word in content:
                self._fault(f"{word.decode()} in {where} of the shared store")
        if where != "a row":
            return
        for word in self.turned:
            if word not in content:
                self._gone.add(word)
            elif word in self._gone:
                self._fault(f"{word.decode()} came back to the shared store")

    def _read_bytes(self) -> None:
        for folder, _, names in os.walk(self.root / FOLDERS[Scope.SHARED_ORG]):
            for name in names:
                with suppress(OSError):
                    self._judge_words(Path(folder, name).read_bytes().lower(), name)

    def _fault(self, what: str) -> None:
        if what not in self.faults:
            self.faults.append(what)


def half_documents(rows: list[tuple[str, str]]) -> list[str]:
    """Return the documents whose chunks are of several revisions, given name and text of each."""
    revisions: dict[str, set[str]] = {}
    for document, text in rows:
        words = {word for word in text.split() if word.startswith("revision")}
        revisions.setdefault(document, set()).update(words)
    return [
        f"{document} is seen in {sorted(found)} at once"
        for document, found in revisions.items()
        if len(found) > 1
    ]


def question() -> bytes:
    """Return some vector to ask with."""
    return b"\x00\x00\x00\x3d" * DIMENSION


class Watcher:
    """Such processes, seen from the test: one of each task.

    One reads files, the other asks: a process that closes a file of a SQLite database loses the
    locks that its connections hold on it, and reads what another one truncates.
    """

    def __init__(
        self, environment: dict[str, str], tasks: tuple[str, ...] = (ANSWERS, BYTES)
    ) -> None:
        self._processes = [
            subprocess.Popen(
                [sys.executable, __file__, task],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for task in tasks
        ]

    def watch(
        self, root: Path, never: list[str], turned: list[str], pause_s: float = PAUSE_S
    ) -> None:
        """Begin to look at `root/.doxtr`, with a pause after each look."""
        words = {"never": never, "turned": turned}
        self._say({"root": str(root / ".doxtr"), "pause_s": pause_s, **words})

    def report(self) -> dict[str, Any]:
        """Stop looking and return what was seen; `looks` is how often the first process looked."""
        self._say({})
        first, *others = [self._report_of(process) for process in self._processes]
        for other in others:
            first["faults"] += other["faults"]
        return first

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.communicate(timeout=30)

    def _say(self, order: dict[str, object]) -> None:
        for process in self._processes:
            assert process.stdin is not None
            assert process.poll() is None, f"a watcher ended with {process.returncode}"
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()

    @staticmethod
    def _report_of(process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"a watcher ended with {process.wait()}"
        return dict(json.loads(line))


def main(of_bytes: bool) -> None:
    """Look until nobody asks any more."""
    faulthandler.enable()
    watch: Watch | None = None
    pause_s = PAUSE_S
    # Unbuffered, so that a line which is there is one that `select` tells about.
    orders = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 - for ever
    while True:
        waits = None if watch is None else pause_s
        if select.select([orders], [], [], waits)[0]:
            line = orders.readline()
            if not line:
                return
            order = json.loads(line)
            if watch is not None:
                watch.look()
                watch.close()
                print(json.dumps(watch.report()), flush=True)  # noqa: T201 - read by the test
                watch = None
            if order:
                pause_s = order["pause_s"]
                words = ([word.encode() for word in order[key]] for key in ("never", "turned"))
                watch = Watch(Path(order["root"]), *words, of_bytes)
        if watch is not None:
            watch.look()


if __name__ == "__main__":
    main(of_bytes=sys.argv[1] == BYTES)
