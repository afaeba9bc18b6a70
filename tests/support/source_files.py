"""A Sphinx project as file names and texts, for what `sphinx_project` has no words for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sphinx_project import Project


def write(root: Path, files: Mapping[str, str], code: str = "", **settings: Any) -> None:
    """Make `root/source` hold exactly these files and a conf.py that ends with some code."""
    source = root / "source"
    conf = Project(settings=settings)._conf()
    wanted = {source / name: text for name, text in {**files, "conf.py": conf + code}.items()}
    for path in source.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def titled(title: str, *paragraphs: str) -> str:
    """Return a reStructuredText document."""
    return "\n\n".join((f"{title}\n{'=' * max(4, len(title.encode()))}", *paragraphs)) + "\n"


def contents(*pages: str, options: str = "") -> str:
    """Return the root document: a table of contents of these pages."""
    entries = "".join(f"   {page}\n" for page in pages)
    return titled("Demo", "Welcome.", f".. toctree::\n{options}\n{entries}")
