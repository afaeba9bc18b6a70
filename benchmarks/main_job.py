"""Measures a Sphinx build with the extension beside the same build without it: `make bench`.

    python benchmarks/main_job.py [--full-model FOLDER]

The corpus is the documentation of Sphinx, embedded with minilm-offline. Every build is a process
of its own; CPU-seconds come first, since they do not depend on who else uses the machine. A missed
target is printed, not an error. Figures, logs and stores stay in `.cache/bench`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import corpus_readings
from bench_projects import FOLDER, PROFILE, REPOSITORY, WITH, WITHOUT, Build, Project, fresh_project
from process_usage import CommandError, measure

MIB = 1024 * 1024
REPEATS = 3
MOST_OUTSIDE = 0.25
MOST_ADDED_S = 1.0
MOST_PADDED = 1.05
MOST_MEMORY = 2
EMBEDDING_PHASES = ("embedding", "model loaded")
LEAST_SHOWN_S = 0.01
NOT_LOADED = {"chromadb", "onnxruntime", "numpy"}


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table; a figure without a target is there to explain the others."""

    name: str
    value: str
    target: str = ""
    is_met: bool | None = None

    @property
    def verdict(self) -> str:
        """What the last column says."""
        return "" if self.is_met is None else "met" if self.is_met else "NOT MET"


@dataclass(slots=True)
class Record:
    """The figures as they come, and the measurements behind them."""

    figures: list[Figure] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, value: str, target: str = "", is_met: bool | None = None) -> None:
        """Add a line and print it at once."""
        figure = Figure(name, value, target, is_met)
        self.figures.append(figure)
        say(f"{figure.name:<46} {figure.value:<44} {figure.target:<34} {figure.verdict}".rstrip())

    def keep(self, name: str, build: Build) -> None:
        """Keep what a build measured."""
        self.measured[name] = {**asdict(build.usage), **build.observed}


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def machine() -> dict[str, Any]:
    """Return what the figures depend on, without a name of the machine."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
    }


def measure_cold(record: Record, plain: Project, rag: Project) -> None:
    """Build both from nothing; figures 1, 4 and 5."""
    without = plain.build("cold")
    with_it = rag.build("cold", "--phases")
    record.keep("cold without", without)
    record.keep("cold with", with_it)
    record.add("cold build without", cost(without))
    record.add("cold build with", cost(with_it))
    added = with_it.usage.cpu_s - without.usage.cpu_s
    phases = with_it.observed["phases"]
    embedding = sum(phases.get(name, 0.0) for name in EMBEDDING_PHASES)
    outside = (added - embedding) / added
    record.add("added by the extension", f"{added:.1f} CPU-s, {embedding:.1f} of them embedding")
    record.add(
        "share of it outside embedding",
        f"{outside:.1%}",
        f"<= {MOST_OUTSIDE:.0%}",
        outside <= MOST_OUTSIDE,
    )
    add_phases(record, with_it)
    record.add("    not metered", f"{added - sum(phases.values()):.2f} CPU-s")
    measure_padding(record, rag, embedding)
    measure_memory(record, without, with_it)


def measure_padding(record: Record, rag: Project, embedding_s: float) -> None:
    """Read the run's own counts; figure 4."""
    report = corpus_readings.run_reports(rag.root)[0]
    record.measured["run"] = report
    ratio = report["padded_tokens"] / report["tokens"]
    rate = report["tokens"] / embedding_s
    record.add(
        "embedded",
        f"{report['embedded']} texts, {report['tokens']} tokens, {rate:.0f} a CPU-s",
    )
    record.add("padded over real tokens", f"{ratio:.3f}", f"<= {MOST_PADDED}", ratio <= MOST_PADDED)
    truncated = report["truncated"]
    record.add("texts cut to the model's limit", f"{truncated}", "0", truncated == 0)
    record.add("size of both stores", f"{corpus_readings.size(rag.root) / MIB:.0f} MiB")


def measure_memory(record: Record, without: Build, with_it: Build) -> None:
    """Compare the largest process of each build; figure 5."""
    output = FOLDER / "model_memory.json"
    measure([sys.executable, str(Path(__file__).with_name("model_memory.py")), PROFILE], output)
    model = json.loads(output.read_text(encoding="utf-8"))
    record.measured["model memory"] = model
    plain, peak = without.usage.peak, with_it.usage.largest_peak
    most = MOST_MEMORY * plain + model["total"]
    record.add("memory of the model and one batch", f"{model['total'] / MIB:.0f} MiB")
    record.add("peak of sphinx-build without", memory(without))
    record.add(
        "peak of sphinx-build with",
        memory(with_it),
        f"<= {MOST_MEMORY} x without + model = {most / MIB:.0f} MiB",
        peak <= most,
    )


def measure_no_change(record: Record, plain: Project, rag: Project) -> None:
    """Build both again and again without a change; figure 2."""
    runs = len(corpus_readings.run_reports(rag.root))
    pairs = [(plain.build(f"same-{n}"), rag.build(f"same-{n}")) for n in range(REPEATS)]
    for number, (without, with_it) in enumerate(pairs):
        record.keep(f"no change {number} without", without)
        record.keep(f"no change {number} with", with_it)
    walls = [min(pair[side].usage.wall_s for pair in pairs) for side in (0, 1)]
    cpus = [min(pair[side].usage.cpu_s for pair in pairs) for side in (0, 1)]
    record.add("no-change build without", f"{cpus[0]:.2f} CPU-s, {walls[0]:.2f} s")
    record.add("no-change build with", f"{cpus[1]:.2f} CPU-s, {walls[1]:.2f} s")
    added, load = walls[1] - walls[0], os.getloadavg()[0]
    record.add(
        "added to a no-change build",
        f"{cpus[1] - cpus[0]:.2f} CPU-s, {added:.2f} s (best of {REPEATS}, load {load:.1f})",
        f"<= {MOST_ADDED_S:.0f} s",
        added <= MOST_ADDED_S,
    )
    more = corpus_readings.run_reports(rag.root)[runs:]
    embedded = sum(report["embedded"] for report in more)
    record.add("embedded by it", f"{embedded} texts", "0", embedded == 0)
    loaded = sorted(
        NOT_LOADED & {name for _, build in pairs for name in build.observed["imported"]}
    )
    said = ", ".join(loaded) or "none"
    record.add(f"loaded by it, of {', '.join(sorted(NOT_LOADED))}", said, "none", not loaded)


def measure_edit(record: Record, plain: Project, rag: Project) -> None:
    """Add a sentence to one paragraph of one page; figure 3."""
    before = corpus_readings.texts(rag.root)
    for project in (plain, rag):
        project.edit()
    without, with_it = plain.build("edit"), rag.build("edit", "--phases")
    record.keep("edit without", without)
    record.keep("edit with", with_it)
    after = corpus_readings.texts(rag.root)
    report = corpus_readings.run_reports(rag.root)[-1]
    fresh = set(after.values()) - set(before.values())
    changed = [chunk for chunk, text in after.items() if before.get(chunk) != text]
    record.measured["edit run"] = {**report, "changed_chunks": changed}
    record.add("one-paragraph edit without", cost(without))
    record.add("one-paragraph edit with", cost(with_it))
    record.add(
        "texts embedded after a one-paragraph edit",
        f"{report['embedded']}, in {len(changed)} changed chunks of {len(after)}",
        f"{len(fresh)}, the texts that changed",
        report["embedded"] == len(fresh) > 0,
    )
    add_phases(record, with_it)


def add_phases(record: Record, build: Build) -> None:
    """Add where a build spent what the extension costs, and its memory after each phase."""
    resident = build.observed["resident"]
    phases = {name: s for name, s in build.observed["phases"].items() if s >= LEAST_SHOWN_S}
    for name, seconds in sorted(phases.items(), key=lambda item: -item[1]):
        memory_then = f", {resident[name] / MIB:.0f} MiB then" if name in resident else ""
        record.add(f"    {name}", f"{seconds:.2f} CPU-s{memory_then}")


def cost(build: Build) -> str:
    """Say what a build cost."""
    return f"{build.usage.cpu_s:.1f} CPU-s, {build.usage.wall_s:.1f} s"


def memory(build: Build) -> str:
    """Say how large the processes of a build grew."""
    usage = build.usage
    return f"{usage.peak / MIB:.0f} MiB, largest child {usage.children_peak / MIB:.0f} MiB"


def measure_full_model(record: Record, folder: Path) -> None:
    """Run the embedding benchmark on a model of full size."""
    script = str(Path(__file__).with_name("embedding.py"))
    done = subprocess.run(
        [sys.executable, script, "full", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CommandError(f"exit {done.returncode}: {script} full {folder}\n{done.stderr}")
    record.measured["full model"] = done.stdout.splitlines()
    for line in done.stdout.splitlines():
        say(f"full-size model: {line}")


def main() -> int:
    """Measure everything, print the table, write it down."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full-model", type=Path, metavar="FOLDER")
    asked = parser.parse_args()
    facts = machine()
    say(
        f"{facts['cores']} cores of {facts['processor']}, {facts['memory_gib']} GiB, "
        f"load {facts['load']:.1f}, Python {facts['python']}, profile {PROFILE}"
    )
    fetch = [sys.executable, "-m", "doxtr_rag", "fetch-weights", "--profile", PROFILE, "--quiet"]
    subprocess.run(fetch, check=True, stdout=subprocess.DEVNULL)
    record = Record(measured={"machine": facts})
    projects = fresh_project("without", WITHOUT), fresh_project("with", WITH)
    try:
        measure_cold(record, *projects)
        measure_no_change(record, *projects)
        measure_edit(record, *projects)
        if asked.full_model:
            measure_full_model(record, asked.full_model)
    except CommandError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    finally:
        record.measured["figures"] = [asdict(figure) for figure in record.figures]
        written = FOLDER / "main_job.json"
        written.write_text(json.dumps(record.measured, indent=1), encoding="utf-8")
    met = [figure.is_met for figure in record.figures if figure.is_met is not None]
    say(f"{sum(met)} of {len(met)} targets met; all figures in {written.relative_to(REPOSITORY)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
