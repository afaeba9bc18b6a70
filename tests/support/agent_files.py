"""Small files for tests of what agents read: written from a table, read back as one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

TOOL = 'export default (pi) => pi.registerTool({ name: "search_knowledge_base" });\n'
"""An extension that registers a tool of ours."""


def write_tree(folder: Path, files: Mapping[str, object]) -> Path:
    """Write files below a folder; what is no text is written as JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
    return folder


def tree_of(folder: Path) -> dict[str, str]:
    """Return every file and link below a folder with what it holds."""
    return {
        path.relative_to(folder).as_posix(): (
            f"-> {path.readlink()}" if path.is_symlink() else path.read_text(encoding="utf-8")
        )
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }
