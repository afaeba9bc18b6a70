"""What `scale.py` measures, each in a process of its own: one store of one size in one folder.

    python benchmarks/scale_steps.py STEP FOLDER RECORDS

A folder holds `vectors.npy` and `texts.json`; the store is built in it from them. The embedder
looks its vectors up, so that no model is needed and every second is a second of ours. Prints one
line of JSON.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import resource
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
from process_usage import peak_memory

from doxtr_rag.core.chunking import ChunkLimits
from doxtr_rag.core.documents import (
    Block,
    BlockKind,
    DocumentContext,
    DocumentInput,
    Harvest,
    Locator,
    Section,
    digest,
)
from doxtr_rag.core.ports import EmbeddingCounts
from doxtr_rag.core.scope import Scope, ScopeSignal
from doxtr_rag.indexing.engine import IngestionEngine, RunOptions
from doxtr_rag.indexing.vectors import Model
from doxtr_rag.storage import BuildCache, EmbeddedStore, open_reader, open_store, refresh_indexes

FINGERPRINT = "5" * 64
PROJECT, ORIGIN = "bench", "sphinx"
SECTIONS_A_DOCUMENT = 22
"""As many chunks as a page of Sphinx's documentation has."""

LIMITS = ChunkLimits(target_tokens=100_000, cap_tokens=100_000, max_chars=0, overlap_chars=0)
EMBEDDED_AT_ONCE = 256
EDITS = 3
SHARED = (ScopeSignal("path", Scope.SHARED_ORG, "all of the benchmark is shared"),)
RECORD = re.compile(r"record (\d+) revision (\d+)")
TOP_K = 50
"""What the query side asks a store for."""


class Prepared:
    """The vectors and texts of a folder."""

    fingerprint = FINGERPRINT

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts = EmbeddingCounts()

    @functools.cached_property
    def texts(self) -> list[str]:
        """The texts of real chunks, fewer than there are records."""
        return list(json.loads((self.folder / "texts.json").read_text(encoding="utf-8")))

    @functools.cached_property
    def rows(self) -> Any:
        """A vector a record."""
        return np.load(self.folder / "vectors.npy", mmap_mode="r")

    @property
    def dimension(self) -> int:
        """The number of components of a vector."""
        return int(self.rows.shape[1])

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return a length for each text."""
        return [len(text) // 5 for text in texts]

    def embed(self, texts: Sequence[str]) -> Iterator[list[tuple[int, bytes]]]:
        """Look the vectors up; a revision turns its vector by a place."""
        for start in range(0, len(texts), EMBEDDED_AT_ONCE):
            numbers = range(start, min(len(texts), start + EMBEDDED_AT_ONCE))
            yield [(at, self._vector(texts[at])) for at in numbers]
            self.counts += EmbeddingCounts(len(numbers), len(numbers), len(numbers))

    def embed_query(self, text: str) -> bytes:
        """Look the vector of one text up."""
        return self._vector(text)

    def _vector(self, text: str) -> bytes:
        found = RECORD.search(text)
        assert found
        record, revision = map(int, found.groups())
        return np.roll(self.rows[record], revision).tobytes()


def harvest(prepared: Prepared, records: int, revisions: dict[int, int]) -> Harvest:
    """Return all documents; `revisions` are the times that a document was edited."""
    numbers = range(-(-records // SECTIONS_A_DOCUMENT))
    documents = [_document(prepared, at, records, revisions.get(at, 0)) for at in numbers]
    return Harvest(PROJECT, ORIGIN, tuple(documents))


def _document(prepared: Prepared, number: int, records: int, revision: int) -> DocumentInput:
    name = f"part{number // 100:03}/page{number:05}"
    first = number * SECTIONS_A_DOCUMENT
    own = range(first, min(records, first + SECTIONS_A_DOCUMENT))

    def load() -> tuple[Section, ...]:
        return tuple(_section(prepared, at, revision if at == first else 0) for at in own)

    context = DocumentContext(
        ("Bench", f"Part {number // 100}"), f"{name}.html", f"source/{name}.rst", SHARED
    )
    return DocumentInput(name, digest(number, revision), context, load)


def _section(prepared: Prepared, record: int, revision: int) -> Section:
    text = prepared.texts[record % len(prepared.texts)]
    body = f"{text}\n\nThis is record {record} revision {revision}."
    locator = Locator("line", record % 1000, record % 1000 + 5)
    return Section(f"s{record}", (f"Section {record}",), (Block(BlockKind.TEXT, body),), locator)


class Bench:
    """The stores of a folder and an engine over them, as a build has them."""

    def __init__(self, folder: Path, records: int, stack: ExitStack) -> None:
        self.prepared, self.records = Prepared(folder), records
        self.phases: dict[str, float] = {}
        self.stores = {
            scope: stack.enter_context(open_store(_store(folder, scope), scope, scope.value))
            for scope in Scope
        }
        build_cache = stack.enter_context(closing(BuildCache(folder / "cache.db")))
        prepared = self.prepared
        self.engine = IngestionEngine(
            model=Model(
                FINGERPRINT, prepared.dimension, lambda: prepared, lambda: Prepared(folder)
            ),
            stores=self.stores,
            cache=build_cache,
            options=RunOptions(LIMITS),
            refresh_indexes=self._refresh,
            progress=lambda *_: None,
        )

    def run(self, revisions: dict[int, int], documents: Harvest | None = None) -> Any:
        """Ingest; `phases` holds how long it took, and how long of that the index took."""
        self.phases = {"index": 0.0}
        documents = documents or harvest(self.prepared, self.records, revisions)
        started = time.perf_counter()
        report = self.engine.ingest(documents)
        self.phases["whole"] = time.perf_counter() - started
        return report

    def _refresh(self, outdated: Sequence[Any]) -> None:
        started = time.perf_counter()
        refresh_indexes([store for store in outdated if isinstance(store, EmbeddedStore)])
        self.phases["index"] += time.perf_counter() - started


def _store(folder: Path, scope: Scope = Scope.SHARED_ORG) -> Path:
    return folder / ("shared" if scope is Scope.SHARED_ORG else "private")


def fill(folder: Path, records: int) -> dict[str, Any]:
    """Build the store from nothing."""
    with ExitStack() as stack:
        bench = Bench(folder, records, stack)
        report = bench.run({})
        assert report.embedded == records, report
        chunks = bench.stores[Scope.SHARED_ORG].stats().chunks
        assert chunks == records, chunks
        return {
            "whole_s": bench.phases["whole"],
            "index_s": bench.phases["index"],
            "bytes": bench.stores[Scope.SHARED_ORG].stats().bytes_on_disk,
        }


def unchanged(folder: Path, records: int) -> dict[str, Any]:
    """Run again without a change, in a process that holds Sphinx, as that of a build does."""
    import sphinx.application  # noqa: F401, PLC0415 - its memory is part of a build's

    with ExitStack() as stack:
        bench = Bench(folder, records, stack)
        documents = harvest(bench.prepared, records, {})
        before = peak_memory()
        report = bench.run({}, documents)
    assert report.is_unchanged, report
    return {"peak": peak_memory(), "before": before, "whole_s": bench.phases["whole"]}


def edited(folder: Path, records: int) -> dict[str, Any]:
    """Change one section of one document, several times; return the median times."""
    revisions: dict[int, int] = {}
    diffs, indexes = [], []
    with ExitStack() as stack:
        bench = Bench(folder, records, stack)
        for at in range(EDITS):
            revisions[at] = 1
            report = bench.run(revisions)
            assert (report.embedded, report.changed_documents) == (1, 1), report
            indexes.append(bench.phases["index"])
            diffs.append(bench.phases["whole"] - bench.phases["index"])
    return {
        "diff_s": statistics.median(diffs),
        "index_s": statistics.median(indexes),
        "peak": peak_memory(),
    }


def rebuilt(folder: Path, records: int) -> dict[str, Any]:
    """Derive the index from the corpus; the model is not there to be asked."""
    started = time.perf_counter()
    with open_store(_store(folder), Scope.SHARED_ORG, "shared") as store:
        store.rebuild()
    return {"whole_s": time.perf_counter() - started, "cpu_s": _cpu_seconds(), "records": records}


def bare(folder: Path, records: int) -> dict[str, Any]:
    """Load the same vectors with plain chromadb: the same graph, written to disk once."""
    import chromadb  # noqa: PLC0415 - the thing measured

    from doxtr_rag.storage.chroma import BATCH, Graph  # noqa: PLC0415

    started = time.perf_counter()
    graph = Graph()
    hnsw = {
        "space": "cosine",
        "sync_threshold": records,
        "max_neighbors": graph.max_neighbors,
        "ef_construction": graph.ef_construction,
        "ef_search": graph.ef_search,
    }
    client = chromadb.PersistentClient(path=str(folder / "bare"))
    made = client.create_collection("bare", embedding_function=None, configuration={"hnsw": hnsw})
    rows = Prepared(folder).rows
    for start in range(0, records, BATCH):
        part = range(start, min(records, start + BATCH))
        ids = [hashlib.sha256(str(at).encode()).hexdigest() for at in part]
        made.upsert(ids=ids, embeddings=np.ascontiguousarray(rows[part.start : part.stop]))
    assert made.count() == records
    client.close()
    return {"whole_s": time.perf_counter() - started, "cpu_s": _cpu_seconds(), "records": records}


def _cpu_seconds() -> float:
    """Return the processor time of this process from its start, and of its children."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def opened(folder: Path, records: int) -> dict[str, Any]:
    """Open the store and answer one question, in a process that has just started."""
    store = _store(folder)
    if "--cold" in sys.argv:
        _forget_pages(store)
    question = np.load(folder / "questions.npy")[0].tobytes()
    started = time.perf_counter()
    with open_reader(store, Scope.SHARED_ORG, "shared") as reader:
        hits = reader.dense(question, TOP_K)
        first = time.perf_counter() - started
        assert not reader.degradations()
        assert len(hits) == min(records, TOP_K)
        started = time.perf_counter()
        reader.dense(question, TOP_K)
        again = time.perf_counter() - started
    return {"first_s": first, "again_s": again, "peak": peak_memory()}


def _forget_pages(folder: Path) -> None:
    """Have the system read the files from the disk again."""
    for file in folder.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def served(folder: Path, records: int) -> dict[str, Any]:
    """Serve the store until standard input ends; the first line printed says where."""
    import uvicorn  # noqa: PLC0415 - only a server needs it

    from doxtr_rag.servers.app import Threads, api_app  # noqa: PLC0415
    from doxtr_rag.servers.gate import Gate  # noqa: PLC0415
    from doxtr_rag.servers.identity import make_token  # noqa: PLC0415
    from doxtr_rag.servers.lifecycle import bind_exactly, port_of  # noqa: PLC0415
    from doxtr_rag.servers.model import ModelHost, ModelNames  # noqa: PLC0415
    from doxtr_rag.servers.stores import OpenStore, ServedStore, StoreHealth  # noqa: PLC0415
    from doxtr_rag.storage import CollectionView, corpus_stamp  # noqa: PLC0415

    prepared, place = Prepared(folder), _store(folder)

    def open_it() -> OpenStore:
        reader = open_reader(place, Scope.SHARED_ORG, "shared")
        return OpenStore(reader, CollectionView(reader), reader.close)

    store = ServedStore(
        "shared",
        Scope.SHARED_ORG,
        open_store=open_it,
        stamp=lambda: corpus_stamp(place),
        look=lambda: StoreHealth("ready"),
    )
    names = ModelNames("bench", "bench", prepared.dimension, FINGERPRINT)
    threads, listener, token = Threads(), bind_exactly("127.0.0.1", 0), make_token()
    app = api_app(
        ModelHost(names, lambda: lambda: prepared),
        {"shared": store},
        page_of=lambda _: None,
        health=dict,
        threads=threads,
    )
    port = port_of(listener)
    gate = Gate({port: app}, kb_id="bench", token=token)
    config = uvicorn.Config(gate, lifespan="off", ws="none", access_log=False, log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    print(json.dumps({"port": port, "token": token, "pid": os.getpid()}), flush=True)
    sys.stdin.read()
    server.should_exit = server.force_exit = True
    thread.join(10)
    threads.close()
    store.close()
    return {"peak": peak_memory(), "records": records}


STEPS: dict[str, Callable[[Path, int], dict[str, Any]]] = {
    step.__name__: step for step in (fill, unchanged, edited, rebuilt, bare, opened, served)
}

if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))), flush=True)
