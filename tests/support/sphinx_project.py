"""A small Sphinx project as a value: written to disk, changed, built in this process or beside."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sphinx import locale
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

SUPPORT = Path(__file__).parent


@dataclass
class Page:
    """One reStructuredText document."""

    title: str
    sections: list[tuple[str, str]] = field(default_factory=list)
    scope: str | None = None
    refers_to: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    preamble: str = ""

    def source(self, name: str) -> str:
        """Return the text of the document; every heading has a label made of name and number."""
        parts = [f":access_scope: {self.scope}\n"] if self.scope else []
        if self.preamble:
            parts.append(f"{self.preamble}\n")
        parts.append(f".. _{name.replace('/', '-')}-top:\n\n{_heading(self.title, '=')}")
        if self.refers_to:
            shown = " and ".join(
                f":doc:`/{other}`, :ref:`{other.replace('/', '-')}-top`" for other in self.refers_to
            )
            parts.append(f"See {shown}.\n")
        parts += [f"{_heading(title, '-')}\n{body}\n" for title, body in self.sections]
        if self.children:
            entries = "\n".join(f"   /{child}" for child in self.children)
            parts.append(f".. toctree::\n\n{entries}\n")
        return "\n".join(parts)


def _heading(title: str, rule: str) -> str:
    return f"{title}\n{rule * max(4, len(title.encode()))}\n"


@dataclass
class Project:
    """Pages and settings; `root/source` holds what is written."""

    pages: dict[str, Page] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def write(self, root: Path) -> None:
        """Make `root/source` hold exactly these pages; files that are right are not touched."""
        source = root / "source"
        wanted = {source / "conf.py": self._conf()}
        for name, page in self.pages.items():
            wanted[source / f"{name}.rst"] = page.source(name)
        for path in source.rglob("*.rst"):
            if path not in wanted:
                path.unlink()
        for path, text in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")

    def _conf(self) -> str:
        values = {
            "project": "Demo",
            "extensions": ["doxtr_rag"],
            "rag_embedding_provider": "tiny",
            "rag_device": "cpu",
            "rag_root": "..",
            **self.settings,
        }
        return "".join(f"{key} = {value!r}\n" for key, value in values.items())


@dataclass(frozen=True)
class Build:
    """What a build printed and how it ended."""

    status: int
    output: str
    warnings: str


def build(
    root: Path,
    builder: str = "html",
    *,
    jobs: int = 1,
    filenames: tuple[str, ...] = (),
    source: str = "source",
    **overrides,
) -> Build:
    """Build `root/source` in this process, doctrees in one place for every builder."""
    status, warning = io.StringIO(), io.StringIO()
    with _docutils(root / source):
        app = Sphinx(
            srcdir=root / source,
            confdir=root / source,
            outdir=root / "_build" / builder,
            doctreedir=root / "_build" / "doctrees",
            buildername=builder,
            parallel=jobs,
            status=status,
            warning=warning,
            confoverrides=overrides,
        )
        app.build(filenames=[str(root / source / name) for name in filenames])
    return Build(app.statuscode, status.getvalue(), warning.getvalue())


@contextmanager
def _docutils(source: Path) -> Iterator[None]:
    with patch_docutils(str(source)), docutils_namespace():
        yield
    # Sphinx keeps the language of a build for the next one in the process.
    locale.translators.clear()


def start(
    root: Path, builder: str = "html", *arguments: str, output: str = "_build"
) -> subprocess.Popen[str]:
    """Start the same build as a process of its own; `output` holds its pages and doctrees."""
    command = [sys.executable, "-m", "sphinx", "-b", builder, *arguments]
    command += ["-d", str(root / output / "doctrees")]
    command += [str(root / "source"), str(root / output / builder)]
    return subprocess.Popen(
        command,
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def child_environment() -> dict[str, str]:
    """Return the environment in which a child finds the tiny profile."""
    search_path = os.pathsep.join(filter(None, (str(SUPPORT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": search_path, "PYTHONUNBUFFERED": "1"}
