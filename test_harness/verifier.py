"""Compare the warnings of HTML and LaTeX builds with the committed counts.

python test_harness/verifier.py [--update]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from assertions import Expectation  # noqa: E402 - needs the path above
from test_runner import build_environment, prepare, sphinx_build  # noqa: E402 - the same

BASELINE = HERE / "baseline.json"
BUILDERS = ("html", "latex")


def measure(scratch: Path) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Build both projects with both builders and return the warnings of each."""
    environment = build_environment() | {"DOCS_EMBEDDING_PROFILE": "tiny"}
    harness = scratch / "harness"
    harness.mkdir()
    documentation = scratch / "documentation" / "docs"
    ignore = shutil.ignore_patterns("_build", ".doxtr", "__pycache__")
    shutil.copytree(HERE.parent / "docs", documentation, ignore=ignore)
    sources = {
        "test_harness": prepare(Expectation(claim="as it is"), harness),
        "docs": documentation,
    }
    counts, texts = {}, {}
    for project, source in sources.items():
        for builder in BUILDERS:
            name = f"{project} {builder}"
            status, output, warnings = sphinx_build(
                source, scratch / f"{project}-{builder}", builder, 1, environment
            )
            if status:
                raise SystemExit(f"{name}: exit {status}\n{output}")
            counts[name], texts[name] = len(warnings), warnings
    return counts, texts


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--update", action="store_true", help="write the counts as the baseline")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="verifier-") as scratch:
        counts, texts = measure(Path(scratch))
    if options.update:
        BASELINE.write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    failed = False
    for name, count in counts.items():
        is_same = count == baseline.get(name)
        failed = failed or not is_same
        verdict = "ok" if is_same else "FAILED"
        print(f"{verdict:7} {name}: {count} warnings, {baseline.get(name)} expected")
        if not is_same:
            print("".join(f"        {line}\n" for line in texts[name]), end="")
    if failed:
        print("if the change is meant: .venv/bin/python test_harness/verifier.py --update")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
