"""Where a hit opens: the built page on this machine, or its address."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from doxtr_rag.core.documents import StoredChunk


def page_url(chunk: StoredChunk, pages: Path | None) -> str:
    """Return an address with anchor: absolute, else of the built page, else relative to it."""
    fragment = f"#{chunk.anchor}" if chunk.anchor else ""
    if pages is not None and not urlsplit(chunk.url).scheme:
        page = pages / unquote(chunk.url)
        page = page / "index.html" if page.is_dir() else page
        if page.is_file():
            return page.resolve().as_uri() + fragment
    return chunk.url + fragment
