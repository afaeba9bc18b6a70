"""Harvested pages on disk beside the doctrees: one atomic file a document, and a manifest.

The spool outlives a build, so that a document that Sphinx does not resolve again is still at hand,
and survives a kill: a page counts only when the manifest, written last, agrees with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkstemp
from typing import Any
from urllib.parse import quote

from doxtr_rag.core.documents import Block, BlockKind, Locator, Section
from doxtr_rag.core.errors import CorruptDocumentError, StoreUnavailableError

SCHEMA = 4
"""Of the files and of the renderer: a higher number makes every document be resolved again."""


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """What the manifest knows of one page.

    `stamp` is Sphinx's time of reading, `words` the last words of the cross-references it holds,
    `links` the documents they lead to. `files` are those it shows text of, unknown to Sphinx,
    `doubts` what it may have meant to say of its scope.
    """

    stamp: int
    body_hash: str
    words: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @classmethod
    def from_row(cls, row: list[Any]) -> SpoolEntry:
        """Return the entry of a row of the manifest."""
        stamp, body_hash, *lists = row
        words, links, files, doubts = map(tuple, lists)
        return cls(int(stamp), str(body_hash), words, links, files, doubts)

    def as_row(self) -> list[Any]:
        """Return the entry as a row of the manifest."""
        lists = (self.words, self.links, self.files, self.doubts)
        return [self.stamp, self.body_hash, *lists]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The pages of one builder and language, and the inventory their references were resolved by.

    `inventory` maps the last word of every referable name to a hash of what it refers to.
    `conditions` stands for tags and settings that decide how a page is resolved.
    """

    entries: Mapping[str, SpoolEntry] = field(default_factory=dict)
    inventory: Mapping[str, str] = field(default_factory=dict)
    conditions: str = ""


class Spool:
    """The folder that holds them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, conditions: str = "") -> Manifest:
        """Start a build: return the manifest of the last one, and note that one is under way.

        A build that was killed between resolving pages and writing them may have left Sphinx
        convinced that they are up to date, so its spool counts as empty. So does one of pages
        that were resolved under other conditions.

        Raises:
            StoreUnavailableError: the folder cannot be written.
        """
        manifest = Manifest() if self._unfinished.exists() else self.load_manifest()
        _write(self._unfinished, "")
        is_of_this_kind = manifest.conditions == conditions
        return manifest if is_of_this_kind else Manifest(conditions=conditions)

    def load_manifest(self) -> Manifest:
        """Return the manifest; an empty one when it is missing, damaged or of another schema."""
        try:
            raw = json.loads(self._manifest.read_text(encoding="utf-8"))
            if raw["schema"] != SCHEMA:
                return Manifest()
            entries = {name: SpoolEntry.from_row(row) for name, row in raw["entries"].items()}
            return Manifest(entries, dict(raw["inventory"]), str(raw["conditions"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return Manifest()

    def finish(self, manifest: Manifest) -> None:
        """End a build: write the manifest and drop the pages it does not name.

        Raises:
            StoreUnavailableError: the folder cannot be written.
        """
        entries = {name: entry.as_row() for name, entry in manifest.entries.items()}
        raw = {
            "schema": SCHEMA,
            "conditions": manifest.conditions,
            "entries": entries,
            "inventory": dict(manifest.inventory),
        }
        _write(self._manifest, json.dumps(raw, ensure_ascii=True, sort_keys=True))
        named = {self._page(name).name for name in manifest.entries}
        with _foreseen(self._folder):
            for path in self._folder.glob("*.page.json"):
                if path.name not in named:
                    path.unlink(missing_ok=True)
            self._unfinished.unlink(missing_ok=True)

    def has(self, docname: str) -> bool:
        """Say whether a page of that name lies here."""
        return self._page(docname).is_file()

    def write(self, docname: str, sections: tuple[Section, ...]) -> str:
        """Keep a page and return the hash of its body.

        Raises:
            StoreUnavailableError: the page cannot be written.
        """
        text = json.dumps([_section_row(s) for s in sections], ensure_ascii=True)
        _write(self._page(docname), text)
        return _hash(text)

    def read(self, docname: str, body_hash: str) -> tuple[Section, ...]:
        """Return the sections of a page.

        Raises:
            CorruptDocumentError: the page is missing or is not the one with that hash.
        """
        try:
            text = self._page(docname).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CorruptDocumentError(docname, f"harvested page unreadable: {error}") from error
        if _hash(text) != body_hash:
            raise CorruptDocumentError(docname, "harvested page changed on disk: build again")
        return tuple(_section(row) for row in json.loads(text))

    @property
    def _unfinished(self) -> Path:
        return self._folder / "unfinished"

    @property
    def _manifest(self) -> Path:
        return self._folder / "manifest.json"

    def _page(self, docname: str) -> Path:
        name = quote(docname, safe="")
        # A file name holds 255 bytes on common file systems.
        short = name if len(name) <= 200 else f"{name[:120]}-{_hash(docname)[:32]}"  # noqa: PLR2004
        return self._folder / f"{short}.page.json"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _write(path: Path, text: str) -> None:
    with _foreseen(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A name of its own, since two builds may write one page at once.
        handle, name = mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with open(handle, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
                file.write(text)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)


@contextmanager
def _foreseen(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailableError(
            f"{path} cannot be written ({error.strerror or error}): free space or repair the "
            "folder, then build again"
        ) from error


def _section_row(section: Section) -> list[Any]:
    locator = section.locator
    place = None if locator is None else [locator.kind, locator.value, locator.end]
    blocks = [[block.kind.value, block.text, block.links] for block in section.blocks]
    return [section.anchor, section.titles, blocks, place]


def _section(row: list[Any]) -> Section:
    anchor, titles, blocks, place = row
    return Section(
        anchor=anchor,
        titles=tuple(titles),
        blocks=tuple(Block(BlockKind(kind), text, tuple(links)) for kind, text, links in blocks),
        locator=None if place is None else Locator(*place),
    )
