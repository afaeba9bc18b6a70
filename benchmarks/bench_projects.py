"""Two copies of Sphinx's documentation, one with the extension, and their builds."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from process_usage import Usage, measure

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDER = REPOSITORY / ".cache" / "bench"
PROFILE = "minilm-offline"
WITHOUT = """
intersphinx_mapping = {}  # no network
"""
WITH = f"""{WITHOUT}
extensions.append("doxtr_rag")
rag_embedding_provider = {PROFILE!r}
rag_source_roots = ["doc/usage", "doc/tutorial", "doc/man", "doc/extdev"]  # the rest is private
rag_serve = "off"
"""
EDITED = "usage/quickstart.rst"
PARAGRAPH = "Sphinx comes with a script called :program:`sphinx-quickstart` that sets up a\n"
SENTENCE = "Nobody has to write the first files by hand.\n"


@dataclass(frozen=True, slots=True)
class Build:
    """One finished build: its cost, and what it observed of itself."""

    usage: Usage
    observed: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Project:
    """A copy of the documentation that is built in place."""

    folder: Path
    source: Path

    @property
    def root(self) -> Path:
        """The folder that holds `.doxtr`."""
        return self.source.parent

    def build(self, name: str, *flags: str, jobs: int = 2) -> Build:
        """Run one `sphinx-build -b html` and return what it cost.

        Raises:
            CommandError: the build failed.
        """
        report = self.folder / f"{name}.json"
        doctrees, html = self.folder / "doctrees", self.folder / "html"
        usage = measure(
            [
                *(sys.executable, str(Path(__file__).with_name("observed_build.py")), str(report)),
                *(*flags, "--", "-b", "html", "-j", str(jobs), "-d", str(doctrees)),
                *(str(self.source), str(html)),
            ],
            self.folder / f"{name}.log",
        )
        return Build(usage, json.loads(report.read_text(encoding="utf-8")))

    def edit(self) -> None:
        """Add a sentence to one paragraph."""
        page = self.source / EDITED
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace(PARAGRAPH, SENTENCE + PARAGRAPH, 1), encoding="utf-8")


def fresh_project(name: str, settings: str) -> Project:
    """Return a copy that was never built."""
    sys.path.insert(0, str(REPOSITORY / "tests" / "support"))
    import sphinx_docs  # noqa: PLC0415 - found through the path above

    unpacked = sphinx_docs.source().parent
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    copy = folder / unpacked.name
    shutil.copytree(unpacked, copy)
    with (copy / "doc" / "conf.py").open("a", encoding="utf-8") as conf:
        conf.write(settings)
    return Project(folder, copy / "doc")
