"""What a search costs through the server, beside one raw Chroma query to the same server.

    make bench-agents

Fills a store with 10,000 chunks of made-up text, embedded by a tiny model, starts the real server
and has the TypeScript of the Pi extension search it (`pi_extension/tests/bench.test.ts`). All
figures of one run are of one machine at one time; only their ratios compare.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from process_usage import resident_memory

REPOSITORY = Path(__file__).parent.parent
EXTENSION = REPOSITORY / "doxtr_rag" / "pi_extension"
SUPPORT = REPOSITORY / "tests" / "support"
FOLDER_VARIABLE = "TINY_MODEL_DIR"

CHUNKS = 10_000
SECTIONS_A_PAGE = 100
WORDS_A_SECTION = 12
CONF = """project = "Bench"
extensions = ["doxtr_rag"]
rag_embedding_provider = "tiny"
"""


def write_project(root: Path, chunks: int) -> list[str]:
    """Write a Sphinx project with that many sections; return questions about them."""
    numbers = random.Random(7)  # noqa: S311 - made-up text
    words = [
        f"{a}{b}{c}"
        for a in "bdfgklmnprst"
        for b in "aeiou"
        for c in ("ral", "nix", "tom", "vek", "sol")
    ]
    source = root / "source"
    source.mkdir(parents=True)
    (root / "pyproject.toml").write_text("")
    (source / "conf.py").write_text(CONF)
    pages = [f"page{at:03}" for at in range(chunks // SECTIONS_A_PAGE)]
    toctree = "\n".join(f"   {page}" for page in pages)
    (source / "index.rst").write_text(f"Bench\n=====\n\n.. toctree::\n\n{toctree}\n")
    questions = []
    for page in pages:
        lines = [page, "=" * len(page), ""]
        for at in range(SECTIONS_A_PAGE):
            title = f"{numbers.choice(words)} {numbers.choice(words)} {at}"
            text = " ".join(numbers.choices(words, k=WORDS_A_SECTION))
            lines += [title, "-" * len(title), "", f"{text}.", ""]
        questions.append(" ".join(numbers.choices(words, k=6)))
        (source / f"{page}.rst").write_text("\n".join(lines))
    return questions


def percentile(values: list[float], share: float) -> float:
    """Return the value that so much of all values do not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(command: list[str], cwd: Path, environment: dict[str, str]) -> None:
    """Run a command; its output is shown when it fails."""
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command[:3])}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def measure(root: Path, questions: list[str], searches: int, environment: dict[str, str]) -> dict:
    """Run the TypeScript side; return its figures and the memory of the server around them."""
    command = str(Path(sys.executable).parent / "doxtr-rag")
    run([command, "serve", "--detach"], root, environment)
    status = subprocess.run(
        [command, "serve", "--status", "--json"],
        cwd=root,
        env=environment,
        capture_output=True,
        check=True,
    )
    server = json.loads(status.stdout)["data"]["pid"]
    out = root / "figures.json"
    node = environment | {
        "DOXTR_BENCH_CWD": str(root),
        "DOXTR_BENCH_OUT": str(out),
        "DOXTR_BENCH_QUERIES": json.dumps(questions),
    }
    vitest = ["npx", "vitest", "run", "tests/bench.test.ts"]
    try:
        run(vitest, EXTENSION, node | {"DOXTR_BENCH_SEARCHES": "1000"})
        before = resident_memory(server)
        run(vitest, EXTENSION, node | {"DOXTR_BENCH_SEARCHES": str(searches)})
        after = resident_memory(server)
        cpu = cpu_seconds(server)
    finally:
        run([command, "serve", "--stop"], root, environment)
    figures = json.loads(out.read_text())
    return figures | {"before": before, "after": after, "cpu": cpu}


def line(what: str, figure: str, target: str = "", *, is_met: bool | None = None) -> None:
    """Print one figure."""
    verdict = "" if is_met is None else ("met" if is_met else "MISSED")
    print(f"{what:48} {figure:44} {target:24} {verdict}".rstrip())


def report(figures: dict, searches: int) -> None:
    """Print every figure beside its target."""
    raw, whole = statistics.median(figures["rawMs"]), statistics.median(figures["wholeMs"])
    together = figures["togetherMs"]
    p50, p95 = statistics.median(together), percentile(together, 0.95)
    growth = figures["after"] / figures["before"] - 1
    line("one raw Chroma query, p50", f"{raw:.2f} ms, p95 {percentile(figures['rawMs'], 0.95):.2f}")
    line(
        "whole search in TypeScript, p50",
        f"{whole:.2f} ms, p95 {percentile(figures['wholeMs'], 0.95):.2f}",
    )
    line("their ratio", f"{whole / raw:.2f}", "<= 3", is_met=whole <= 3 * raw)
    requests, stores = figures["requests"], figures["stores"]
    line(
        "HTTP requests a search",
        f"{requests:.2f} for {stores} stores and the embedding",
        f"<= {2 * stores + 1}",
        is_met=requests <= 2 * stores + 1,
    )
    line("connections opened meanwhile", f"{figures['sockets']}")
    line(
        "32 searches at once, lost",
        f"{figures['lost']} of {len(together)}",
        "0",
        is_met=not figures["lost"],
    )
    line(
        "    p95 beside p50",
        f"{p95:.0f} ms, {p50:.0f} ms: {p95 / p50:.2f}",
        "<= 10",
        is_met=p95 <= 10 * p50,
    )
    line(
        f"memory of the server over {searches} searches",
        f"{figures['before'] >> 20} to {figures['after'] >> 20} MiB: {growth:+.1%}",
        "< +10%",
        is_met=growth < 0.1,
    )
    line("CPU of the server in all", f"{figures['cpu']:.1f} CPU-s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    parser.add_argument("--searches", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        environment = {
            **os.environ,
            "CI": "true",
            "PYTHONPATH": str(SUPPORT),
        }
        environment[FOLDER_VARIABLE] = str(Path(folder) / "model")
        make = (
            "import sys, pathlib, tiny_model; tiny_model.make_tiny_model(pathlib.Path(sys.argv[1]))"
        )
        run([sys.executable, "-c", make, environment[FOLDER_VARIABLE]], Path(folder), environment)
        questions = write_project(root, arguments.chunks)
        run(
            [sys.executable, "-m", "sphinx", "-q", "-b", "rag", "source", "build"],
            root,
            environment,
        )
        report(measure(root, questions, arguments.searches, environment), arguments.searches)


if __name__ == "__main__":
    main()
