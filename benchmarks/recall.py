"""How much of the exact answer the index finds, by how densely its graph is linked.

    python benchmarks/recall.py grid 10000 --dimension 384    real vectors
    python benchmarks/recall.py grid 100000 --dimension 384   jittered copies of them
    python benchmarks/recall.py churn 7000                    200 small refreshes replace 30 %

Questions are real vectors that are not in the index, and vectors near ones that are. Recall is
against exact search. Unreachable are the records that a query for all of them does not find, and
`unreachable_then` those that are left when they were written once more.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
from real_vectors import SEED, Matrix, copies, jittered, projected, real_vectors

from doxtr_rag.storage import chroma

COLLECTION = "recall"
IN_STORE = 10_000
QUESTIONS = 300
TOP_K = 10
COPY_COSINE = 0.9
QUESTION_COSINE = 0.9
TIE = 1e-5
WRITTEN_AT_ONCE = 2000
NEIGHBORS = (16, 32, 48)
CONSTRUCTION = (100, 200)
SEARCH = (100, 200, 400, 800)


@dataclass(frozen=True, slots=True)
class Figures:
    """One setting measured."""

    records: int
    dimension: int
    max_neighbors: int
    ef_construction: int
    ef_search: int
    build_cpu_s: float
    graph_bytes: int
    unreachable: int
    unreachable_then: int
    recall_other: float
    recall_near: float
    query_p50_ms: float


def keys(count: int) -> list[str]:
    """Return ids like a store's: hashes."""
    return [hashlib.sha256(str(at).encode()).hexdigest() for at in range(count)]


def batches(ids: list[str], vectors: Matrix) -> Iterator[list[tuple[str, bytes]]]:
    """Yield records in the order of their ids, as a store writes them."""
    order = sorted(range(len(ids)), key=ids.__getitem__)
    for start in range(0, len(order), WRITTEN_AT_ONCE):
        yield [(ids[at], vectors[at].tobytes()) for at in order[start : start + WRITTEN_AT_ONCE]]


def build(place: Path, ids: list[str], vectors: Matrix, graph: chroma.Graph) -> float:
    """Write a generation; return its CPU-seconds."""
    started = time.process_time()
    opened = chroma.create(place, COLLECTION, len(ids), graph)
    for batch in batches(ids, vectors):
        opened.write(batch)
    opened.close()
    return time.process_time() - started


def unreachable(place: Path, ids: list[str], dimension: int) -> set[str]:
    """Return the records that a query for all of them does not find."""
    opened = chroma.open_generation(place, COLLECTION)
    reached = opened.reached(dimension, len(ids))
    opened.close()
    return set(ids) - reached


def search_wider(place: Path, ef_search: int) -> None:
    """Change how many records a query looks at, for whoever opens the generation next."""
    import chromadb  # noqa: PLC0415 - as the package does

    client = chromadb.PersistentClient(path=str(place))
    found = client.get_collection(COLLECTION, embedding_function=None)
    found.modify(configuration={"hnsw": {"ef_search": ef_search}})
    client.close()


def recall(
    opened: chroma.ChromaGeneration, ids: list[str], vectors: Matrix, questions: Matrix
) -> tuple[float, float]:
    """Return recall@10, a tie counting as found, and the median time of a query in ms."""
    at = {text_hash: row for row, text_hash in enumerate(ids)}
    found, times = 0, []
    for question in questions:
        scores = vectors @ question
        least = np.partition(scores, -TOP_K)[-TOP_K] - TIE
        started = time.perf_counter()
        answer = opened.nearest(question.tobytes(), TOP_K)
        times.append(time.perf_counter() - started)
        found += sum(scores[at[text_hash]] >= least for text_hash, _ in answer)
    return found / (TOP_K * len(questions)), 1000 * float(np.median(times))


def grid(count: int, dimension: int, graphs: list[chroma.Graph], searched: list[int]) -> None:
    """Measure every graph with every width of search; one line of JSON each."""
    real = real_vectors()
    stored, other = real[:IN_STORE], real[IN_STORE : IN_STORE + QUESTIONS]
    vectors = stored[:count] if count <= IN_STORE else copies(stored, count, COPY_COSINE)
    picked = np.random.default_rng(SEED).choice(len(vectors), QUESTIONS, replace=False)
    near = jittered(vectors[picked], QUESTION_COSINE, SEED)
    if dimension > vectors.shape[1]:
        vectors, other, near = (projected(m, dimension) for m in (vectors, other, near))
    ids = keys(len(vectors))
    for graph in graphs:
        with tempfile.TemporaryDirectory(prefix="doxtr-recall-") as folder:
            place = Path(folder)
            cpu = build(place, ids, vectors, graph)
            size = sum(f.stat().st_size for f in place.glob("*/*"))
            missing = unreachable(place, ids, vectors.shape[1])
            linked = [(key, vectors[at].tobytes()) for at, key in enumerate(ids) if key in missing]
            if linked:
                chroma.link_again(place, COLLECTION, linked)
            left = unreachable(place, ids, vectors.shape[1])
            for ef_search in searched:
                search_wider(place, ef_search)
                opened = chroma.open_generation(place, COLLECTION)
                from_other, p50 = recall(opened, ids, vectors, other)
                from_near, _ = recall(opened, ids, vectors, near)
                opened.close()
                figures = Figures(
                    *(len(ids), vectors.shape[1], graph.max_neighbors, graph.ef_construction),
                    *(ef_search, round(cpu, 1), size, len(missing), len(left)),
                    *(round(from_other, 4), round(from_near, 4), round(p50, 2)),
                )
                print(json.dumps(asdict(figures)), flush=True)


def churn(count: int, refreshes: int, share: float) -> None:
    """Replace a share of the records in many small changes of one generation.

    A refresh changes a copy of the generation in use. Copying changes nothing in it, so all of
    them are made in one folder here, and nothing ever starts afresh as a store would.
    """
    real = real_vectors()
    each = round(share * count / refreshes)
    ids, vectors = keys(count), real[:count].copy()
    fresh = real[count : count + each * refreshes]
    asked = jittered(real[-QUESTIONS:], QUESTION_COSINE, SEED)
    draw = np.random.default_rng(SEED)
    graph = chroma.Graph()
    with tempfile.TemporaryDirectory(prefix="doxtr-churn-") as folder:
        place = Path(folder) / "changed"
        place.mkdir()
        build(place, ids, vectors, graph)
        for at in range(refreshes):
            if at % (refreshes // 4) == 0:
                _print_churn(place, str(at), ids, vectors, asked)
            rows = draw.choice(count, each, replace=False)
            gone = [ids[row] for row in rows]
            for row, key in zip(rows, keys_of(at, each), strict=True):
                ids[row] = key
            vectors[rows] = fresh[at * each : (at + 1) * each]
            _change(place, gone, [(ids[row], vectors[row].tobytes()) for row in rows])
        _print_churn(place, str(refreshes), ids, vectors, asked)
        build_anew = Path(folder) / "built"
        build_anew.mkdir()
        build(build_anew, ids, vectors, graph)
        _print_churn(build_anew, "built anew", ids, vectors, asked)


def keys_of(refresh: int, count: int) -> list[str]:
    """Return ids that no other refresh has."""
    return [hashlib.sha256(f"{refresh} {at}".encode()).hexdigest() for at in range(count)]


def _change(place: Path, gone: list[str], come: list[tuple[str, bytes]]) -> None:
    """Do to a generation what a small refresh does to a copy of it."""
    opened = chroma.open_generation(place, COLLECTION)
    opened.persist_after(len(gone) + len(come))
    opened.close()
    opened = chroma.open_generation(place, COLLECTION)
    opened.remove(gone)
    opened.write(sorted(come))
    opened.close()


def _print_churn(
    place: Path, refreshes: str, ids: list[str], vectors: Matrix, questions: Matrix
) -> None:
    opened = chroma.open_generation(place, COLLECTION)
    found, p50 = recall(opened, ids, vectors, questions)
    figures = {
        "refreshes": refreshes,
        "records": len(ids),
        "recall": round(found, 4),
        "unreachable": len(ids) - opened.reachable(vectors.shape[1], len(ids)),
        "query_p50_ms": round(p50, 2),
        "graph_bytes": sum(f.stat().st_size for f in place.glob("*/*")),
    }
    opened.close()
    print(json.dumps(figures), flush=True)


def main() -> None:
    """Run the measurement that was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="what", required=True)
    of_grid = commands.add_parser("grid")
    of_grid.add_argument("records", type=int)
    of_grid.add_argument("--dimension", type=int, default=384)
    of_grid.add_argument("--neighbors", type=int, nargs="+", default=NEIGHBORS)
    of_grid.add_argument("--construction", type=int, nargs="+", default=CONSTRUCTION)
    of_grid.add_argument("--search", type=int, nargs="+", default=SEARCH)
    of_churn = commands.add_parser("churn")
    of_churn.add_argument("records", type=int)
    of_churn.add_argument("--refreshes", type=int, default=200)
    of_churn.add_argument("--share", type=float, default=0.3)
    asked = parser.parse_args()
    if asked.what == "churn":
        churn(asked.records, asked.refreshes, asked.share)
        return
    graphs = [chroma.Graph(*pair) for pair in product(asked.neighbors, asked.construction)]
    grid(asked.records, asked.dimension, graphs, asked.search)


if __name__ == "__main__":
    sys.exit(main())
