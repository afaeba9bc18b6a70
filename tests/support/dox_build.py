"""Builds Sphinx's own documentation with and without the extension, once a test session.

python tests/support/dox_build.py > tests/baselines/dox_reference.json
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import sphinx_docs

REPOSITORY = Path(__file__).resolve().parent.parent.parent
SWITCH = "DOX_REFERENCE_EXTENSION"
SETTINGS = f"""
import os

intersphinx_mapping = {{}}
if os.environ.get({SWITCH!r}):
    extensions.append("doxtr_rag")
    rag_embedding_provider = "tiny"
    rag_source_roots = ["doc/usage"]
    rag_serve = "off"
"""
BUILD_TIMEOUT_S = 540
STORES = (".doxtr/shared", ".doxtr/chroma")


@dataclass(frozen=True)
class Build:
    """One finished build: where its pages and its project lie, and what it warned of."""

    project: Path
    html: Path
    status: int
    output: str
    warnings: tuple[str, ...]

    def counts(self) -> dict[str, int]:
        """Return how much the knowledge base holds."""
        documents, sections, chunks, shared = set(), set(), 0, 0
        for folder in STORES:
            with closing(sqlite3.connect(self.project / folder / "corpus.sqlite3")) as connection:
                rows = connection.execute("SELECT document, anchor, scope FROM chunks").fetchall()
            documents |= {document for document, _, _ in rows}
            sections |= {(document, anchor) for document, anchor, _ in rows}
            chunks += len(rows)
            shared += sum(scope == "SHARED_ORG" for _, _, scope in rows)
        return {
            "documents": len(documents),
            "sections": len(sections),
            "chunks": chunks,
            "shared_chunks": shared,
            "warnings": len(self.warnings),
        }


@functools.cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="dox-")


@functools.cache
def _project() -> Path:
    """Copy the unpacked source package: its documentation builds nowhere but in place."""
    unpacked = sphinx_docs.source().parent
    project = Path(_scratch().name) / unpacked.name
    shutil.copytree(unpacked, project)
    with (project / "doc" / "conf.py").open("a", encoding="utf-8") as conf:
        conf.write(SETTINGS)
    return project


@functools.cache
def build(*, with_extension: bool) -> Build:
    """Build the html pages with two processes; the source folder is the same for both builds."""
    sys.path.insert(0, str(REPOSITORY / "test_harness"))
    from test_runner import build_environment  # noqa: PLC0415 - found through the path above

    project = _project()
    name = "with" if with_extension else "without"
    html = project.parent / f"html-{name}"
    warnings = project.parent / f"{name}.txt"
    environment = build_environment() | {SWITCH: "1" if with_extension else ""}
    folders = ["-d", f"{html}-doctrees", "-w", str(warnings), str(project / "doc"), str(html)]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-j", "2", *folders],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    lines = warnings.read_text(encoding="utf-8").splitlines()
    found = tuple(sorted(line for line in lines if "WARNING: " in line or "ERROR: " in line))
    return Build(project, html, done.returncode, done.stdout, found)


def main() -> None:
    """Print the baseline that the present code gives."""
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    built = build(with_extension=True)
    sys.stdout.write(json.dumps(built.counts(), indent=2) + "\n")


if __name__ == "__main__":
    main()
