"""Where a hit opens: the page that the last build wrote on this machine, or its address."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from doxtr_rag.bootstrap.project import Project
from doxtr_rag.core.documents import StoredChunk
from doxtr_rag.core.errors import StoreError
from doxtr_rag.storage import BuildCache

T = TypeVar("T")
FileStamp = tuple[int, int, int, int]

PAGES_KEY = "pages_folder"


class BuiltPages:
    """Where the last build wrote its pages, read again once a build has written since."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._read: tuple[FileStamp | None, str | None] = (None, None)

    def folder(self) -> Path | None:
        """Return the folder; None when no build wrote pages, or they are gone."""
        stamp = file_stamp(self._project.settings.cache_db)
        if stamp != self._read[0]:
            # A build that is writing keeps the file for a moment: what was read last still holds.
            with suppress(StoreError):
                self._read = (stamp, _recorded_folder(self._project))
        value = self._read[1]
        return Path(value) if value and Path(value).is_dir() else None


def _recorded_folder(project: Project) -> str | None:
    return read_cached(project, None, lambda cache: cache.get_value(PAGES_KEY))


def file_stamp(file: Path) -> FileStamp | None:
    """Return what tells a file's content from an earlier one's; None when there is no file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def document_url(first: StoredChunk, pages: Path | None) -> str:
    """Return where a document opens that starts with a chunk; "" when nobody knows."""
    return built_page(first, pages) or first.url


def read_cached(project: Project, missing: T, read: Callable[[BuildCache], T]) -> T:
    """Read from the build cache without making one.

    Raises:
        StoreError: another process keeps it, or it cannot be read.
    """
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
    return f"#{chunk.anchor}" if chunk.anchor and "#" not in chunk.url else ""
