"""Where a hit opens: the page that the last build wrote on this machine, or its address."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from doxtr_rag.bootstrap.project import Project
from doxtr_rag.core.documents import StoredChunk
from doxtr_rag.storage import BuildCache

T = TypeVar("T")

PAGES_KEY = "pages_folder"


def pages_folder(project: Project) -> Path | None:
    """Return where the last build wrote its pages; None when none did, or they are gone."""
    value = read_cached(project, None, lambda cache: cache.get_value(PAGES_KEY))
    return Path(value) if value and Path(value).is_dir() else None


def read_cached(project: Project, missing: T, read: Callable[[BuildCache], T]) -> T:
    """Read from the build cache without making one."""
    if not project.settings.cache_db.is_file():
        return missing
    with closing(BuildCache(project.settings.cache_db)) as build_cache:
        return read(build_cache)


def built_page(chunk: StoredChunk, pages: Path | None) -> str | None:
    """Return the `file:` URL, with anchor, of a chunk's built page; None when there is none."""
    if pages is None or urlsplit(chunk.url).scheme:
        return None
    page = pages / unquote(chunk.url)
    page = page / "index.html" if page.is_dir() else page
    return page.resolve().as_uri() + _fragment(chunk) if page.is_file() else None


def page_url(chunk: StoredChunk, pages: Path | None) -> str:
    """Return an address with anchor: absolute, else of the built page, else relative to it."""
    return built_page(chunk, pages) or chunk.url + _fragment(chunk)


def _fragment(chunk: StoredChunk) -> str:
    return f"#{chunk.anchor}" if chunk.anchor else ""
