"""Build the harness in many configurations and check both stores after each.

python test_harness/test_runner.py [--only NAME] [--builder BUILDER] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from assertions import PAGES, Expectation, knowledge_digest, problems  # noqa: E402 - needs the path above

OVERRIDES = {path.stem: path for path in sorted((HERE / "conf_overrides").glob("*.json"))}
BUILD_TIMEOUT_S = 300
LINES_SHOWN = 20


@dataclass(frozen=True)
class Outcome:
    """What a build of one configuration left behind."""

    name: str
    problems: tuple[str, ...]
    digest: dict[str, str]


def build_environment(profile: str = "tiny") -> dict[str, str]:
    """Return the environment in which builds find the package and the tiny model."""
    repository = HERE.parent
    support = repository / "tests" / "support"
    paths = [str(repository), str(support), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    if profile == "tiny" and "TINY_MODEL_DIR" not in environment:
        environment["TINY_MODEL_DIR"] = str(tiny_model())
    return environment


@functools.cache
def tiny_model() -> Path:
    """Write the tiny model once; its folder goes when the process ends."""
    sys.path.insert(0, str(HERE.parent / "tests" / "support"))
    from tiny_model import make_tiny_model  # noqa: PLC0415 - only this profile needs it

    scratch = tempfile.mkdtemp(prefix="tiny-model-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return make_tiny_model(Path(scratch))


def prepare(expected: Expectation, root: Path) -> Path:
    """Copy the project to `root` as the configuration wants it and return its source folder."""
    ignore = shutil.ignore_patterns("__pycache__", ".doxtr", "_build")
    for folder in ("noter", "NDA", "harness_module"):
        shutil.copytree(HERE / folder, root / folder, ignore=ignore)
    source = root / expected.source
    shutil.copytree(HERE / "source", source, ignore=ignore)
    (source / "linked.rst").symlink_to("../NDA/linked.rst")
    if expected.root_marker:
        (root / expected.root_marker).touch()
    with (source / "conf.py").open("a", encoding="utf-8") as conf:
        conf.writelines(f"{key} = {value!r}\n" for key, value in expected.conf.items())
    return source


def sphinx_build(
    source: Path, out: Path, builder: str, jobs: int, environment: dict[str, str]
) -> tuple[int, str, list[str]]:
    """Run sphinx-build and return its exit status, output and warnings."""
    warnings = out.parent / f"{out.name}-warnings.txt"
    warnings.unlink(missing_ok=True)
    arguments = ["-b", builder, "-j", str(jobs), "-d", f"{out}-doctrees", "-w", str(warnings)]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", *arguments, str(source), str(out)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    lines = warnings.read_text(encoding="utf-8").splitlines() if warnings.exists() else []
    return done.returncode, done.stdout, [line for line in lines if "WARNING" in line]


def run(name: str, root: Path, *, builder: str = "", profile: str = "tiny") -> Outcome:
    """Build one configuration in `root` and collect what is wrong.

    Where the same knowledge base is claimed, a second build must not change it.
    """
    expected = Expectation.read(OVERRIDES[name])
    expected = replace(expected, builder=builder or expected.builder)
    if profile != "tiny":
        conf = {**expected.conf, "rag_embedding_provider": profile}
        expected = replace(expected, conf=conf)
    source = prepare(expected, root)
    environment = build_environment(profile)
    found: list[str] = []
    digests = []
    attempts = ("first", "second") if name == "default" or expected.same_as else ("first",)
    for attempt in attempts:
        status, output, _ = sphinx_build(
            source, root / PAGES, expected.builder, expected.jobs, environment
        )
        if status:
            return Outcome(name, (f"{attempt} build: exit {status}\n{output}",), {})
        digests.append(knowledge_digest(root, expected))
    if digests[0] != digests[-1]:
        found.append("a build without a change changed the knowledge base")
    found += problems(root, expected)
    return Outcome(name, tuple(found), digests[0])


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Return the chunks that two knowledge bases do not share."""
    keys = {key for key, _ in one.items() ^ other.items()}
    return [f"differs: {key}" for key in sorted(keys)]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=OVERRIDES, help="build this configuration alone")
    parser.add_argument("--builder", default="", help="use this builder for every configuration")
    parser.add_argument("--profile", default="tiny", help="embedding profile (default: tiny)")
    parser.add_argument("--keep", type=Path, help="leave the built projects in this folder")
    options = parser.parse_args(arguments)
    names = [options.only] if options.only else list(OVERRIDES)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="harness-") as scratch:
        base = options.keep or Path(scratch)
        outcomes = {}
        for name in dict.fromkeys(["default", *names]):
            root = base / name
            root.mkdir(parents=True)
            outcome = run(name, root, builder=options.builder, profile=options.profile)
            outcomes[name] = outcome
            expected = Expectation.read(OVERRIDES[name])
            wrong = list(outcome.problems)
            if expected.same_as and not wrong:
                wrong += differences(outcomes[expected.same_as].digest, outcome.digest)
            failed += bool(wrong)
            print(f"{'FAILED' if wrong else 'ok':7} {name}: {expected.claim}")
            print("".join(f"        {line}\n" for line in wrong[:LINES_SHOWN]), end="")
            if len(wrong) > LINES_SHOWN:
                print(f"        and {len(wrong) - LINES_SHOWN} more")
    print(f"{len(outcomes)} configurations, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
