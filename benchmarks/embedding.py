"""How fast embedding is, and what fraction of the machine's arithmetic it uses.

    python benchmarks/embedding.py offline [FILE...]        minilm-offline; weights are fetched once
    taskset -c 0 python benchmarks/embedding.py full FOLDER bge-m3's size with random weights

`offline` embeds the paragraphs of text files, or docstrings of the standard library. `full` writes
2.3 GB to FOLDER unless they are there, and compares with numpy's sgemm on the same cores. Where
OPENBLAS_CORETYPE is set, unset it and OPENBLAS_L2_SIZE: they slow numpy and flatter the share.
"""

from __future__ import annotations

import argparse
import ctypes
import inspect
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np

from doxtr_rag.bootstrap.project import model_folders
from doxtr_rag.config.environment import read_environment
from doxtr_rag.core.profiles import EmbeddingProfile
from doxtr_rag.embedding.onnx import CPU_BUDGET, OnnxEmbedder, cpu_budget
from doxtr_rag.embedding.registry import BGE_M3, MINILM_OFFLINE
from doxtr_rag.embedding.session import ModelSession, usable_cores
from doxtr_rag.embedding.weights import fetch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from tiny_model import Shape, make_model

FULL = Shape(
    layers=24,
    hidden=1024,
    heads=16,
    inner=4096,
    vocabulary=250_002,
    positions=8_194,
    dimension=1024,
)
FLOP_A_TOKEN, FLOP_A_TOKEN_AND_LENGTH = 604e6, 98e3
LENGTHS = (32, 128, 512)


class TimedSession(ModelSession):
    """Adds up the time spent inside the runtime."""

    seconds = 0.0

    def run(self, output, ids, mask):
        """Run one batch and stop the time."""
        started = time.perf_counter()
        found = super().run(output, ids, mask)
        self.seconds += time.perf_counter() - started
        return found


def docstrings(modules: tuple[str, ...] = ("asyncio", "email", "json", "logging", "unittest")):
    """Return the docstrings of some standard modules and of what they define."""
    texts = set()
    for name in modules:
        module = __import__(name)
        owners = [v for v in vars(module).values() if isinstance(v, (type, ModuleType))]
        members = [member for owner in owners for member in vars(owner).values()]
        found = (inspect.getdoc(thing) for thing in [module, *owners, *members] if callable(thing))
        texts |= {text for text in found if text}
    return sorted(texts)


def paragraphs(files: list[Path]) -> list[str]:
    """Return the paragraphs of text files."""
    texts = (file.read_text(encoding="utf-8") for file in files)
    return [part for text in texts for part in text.split("\n\n") if part.strip()]


def measure_offline(files: list[Path]) -> None:
    """Embed many texts with the offline profile."""
    folder = fetch(MINILM_OFFLINE, model_folders(read_environment()))
    session = TimedSession(MINILM_OFFLINE, folder, "cpu")
    embedder = OnnxEmbedder(MINILM_OFFLINE, folder, session=session)
    texts = paragraphs(files) if files else docstrings()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in embedder.embed(texts):
        pass
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    counts = embedder.counts
    print(f"{counts.texts} texts, {counts.tokens} tokens, {counts.truncated} cut")
    print(f"{counts.tokens / cpu:.0f} tokens a CPU-second, {counts.tokens / wall:.0f} a second")
    print(f"{counts.padded_tokens / counts.tokens:.3f} padded tokens a real one")
    print(f"{100 * (1 - session.seconds / wall):.1f} % of the time outside the runtime")


def measure_full(folder: Path) -> None:
    """Run batches of several lengths through a model of bge-m3's size."""
    if not (folder / BGE_M3.model_file).is_file():
        started = time.perf_counter()
        make_model((folder / BGE_M3.model_file).parent, FULL)
        size = (folder / "onnx" / "model.onnx_data").stat().st_size
        print(f"wrote {size / 1e9:.2f} GB in {time.perf_counter() - started:.0f} s")
    print(f"{usable_cores()} cores, numpy runs {blas_kernel()}")
    before = sgemm_rate()
    session = ModelSession(BGE_M3, folder, "cpu")
    rates = {length: full_rate(session, BGE_M3, length) for length in LENGTHS}
    sgemm = (before + sgemm_rate()) / 2
    print(f"numpy sgemm {sgemm / 1e9:.1f} GFLOP a CPU-second")
    for length, tokens in rates.items():
        flops = tokens * (FLOP_A_TOKEN + FLOP_A_TOKEN_AND_LENGTH * length)
        print(
            f"length {length}: {tokens:.0f} tokens a CPU-second, {flops / 1e9:.1f} GFLOP a "
            f"CPU-second, {100 * flops / sgemm:.0f} % of sgemm"
        )


def full_rate(session: ModelSession, profile: EmbeddingProfile, length: int) -> float:
    """Return the tokens of a CPU-second in batches of the usual budget."""
    draw = np.random.default_rng(length)
    rows = max(1, cpu_budget(usable_cores()) // length)
    ids = draw.integers(4, FULL.vocabulary - 1, (rows, length))
    mask = np.ones_like(ids)
    session.run("sentence_embedding", ids[:1], mask[:1])
    started = time.process_time()
    vectors = session.run("sentence_embedding", ids, mask)
    seconds = time.process_time() - started
    assert vectors.shape == (len(ids), profile.dimension)
    assert np.isfinite(vectors).all()
    return ids.size / seconds


def sgemm_rate(rows: int = CPU_BUDGET, inner: int = 1024, columns: int = 4096) -> float:
    """Return numpy's arithmetic in a CPU-second on matrices like the model's."""
    draw = np.random.default_rng(0)
    left = draw.standard_normal((rows, inner), np.float32)
    right = draw.standard_normal((inner, columns), np.float32)
    left @ right
    started, done = time.process_time(), 0
    while time.process_time() - started < 2:
        left @ right
        done += 2 * rows * inner * columns
    return done / (time.process_time() - started)


def blas_kernel() -> str:
    """Return the kernel that numpy's OpenBLAS chose, where that can be found out."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
        path = next(line.split()[-1] for line in lines if "openblas" in line)
        name = ctypes.CDLL(path).scipy_openblas_get_corename64_
    except (OSError, StopIteration, AttributeError):
        return "an unknown kernel"
    name.restype = ctypes.c_char_p
    return name().decode()


def main() -> None:
    """Run the measurement that was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="what", required=True)
    commands.add_parser("offline").add_argument("files", nargs="*", type=Path)
    commands.add_parser("full").add_argument("folder", type=Path)
    asked = parser.parse_args()
    if asked.what == "offline":
        measure_offline(asked.files)
    else:
        measure_full(asked.folder)


if __name__ == "__main__":
    main()
