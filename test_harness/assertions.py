"""What the two stores of a harness build must hold, read with nothing but sqlite3."""

from __future__ import annotations

import hashlib
import html
import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

PAGES = "out"
SHARED, PRIVATE = "SHARED_ORG", "LOCAL_PRIVATE"
MARK = re.compile(r"(?P<kind>PUBLIC|PRIVATE|CUSTOM|HIDDEN)MARK-(?P<word>[a-z]+)")
DEFAULT_SCOPES = {"PUBLICMARK": SHARED, "CUSTOMMARK": SHARED, "PRIVATEMARK": PRIVATE}
COLUMNS = "id, project, origin, document, anchor, text, title, breadcrumb, url, source_file, scope"


@dataclass(frozen=True)
class Expectation:
    """What one build is expected to leave behind; the fields of `conf_overrides/*.json`."""

    claim: str
    builder: str = "html"
    jobs: int = 1
    source: str = "source"
    root_marker: str = ""
    conf: Mapping[str, object] = field(default_factory=dict)
    scopes: Mapping[str, str] = field(default_factory=dict)
    same_as: str = ""
    url_prefix: str = ""
    url_style: str = "html"
    max_chars: int = 0
    project: str = "harness"
    shared_store: str = ".doxtr/shared"
    private_store: str = ".doxtr/chroma"

    @classmethod
    def read(cls, path: Path) -> Expectation:
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def scope_of(self, kind: str) -> str | None:
        """The scope of a marker's text; None for text that no reader sees."""
        return {**DEFAULT_SCOPES, **self.scopes}.get(f"{kind}MARK")


@dataclass(frozen=True)
class Chunk:
    """A row of the table `chunks`."""

    id: str
    project: str
    origin: str
    document: str
    anchor: str
    text: str
    title: str
    breadcrumb: str
    url: str
    source_file: str
    scope: str

    @property
    def words(self) -> str:
        return f"{self.title}\n{self.breadcrumb}\n{self.text}"


@dataclass(frozen=True)
class Store:
    """One store folder of a finished build."""

    folder: Path
    scope: str
    chunks: tuple[Chunk, ...]

    @classmethod
    def read(cls, folder: Path, scope: str) -> Store:
        corpus = folder / "corpus.sqlite3"
        if not corpus.exists():
            return cls(folder, scope, ())
        with closing(sqlite3.connect(corpus)) as connection:
            rows = connection.execute(f"SELECT {COLUMNS} FROM chunks ORDER BY id").fetchall()  # noqa: S608 - constants
        return cls(folder, scope, tuple(Chunk(*row) for row in rows))

    def markers(self) -> set[str]:
        return {found[0] for chunk in self.chunks for found in MARK.finditer(chunk.words)}


def stores(root: Path, expected: Expectation) -> tuple[Store, Store]:
    """Read the shared and the private store of a finished build."""
    return (
        Store.read(root / expected.shared_store, SHARED),
        Store.read(root / expected.private_store, PRIVATE),
    )


def knowledge_digest(root: Path, expected: Expectation) -> dict[str, str]:
    """Return chunk id -> hash of everything a reader may get; equal for equal knowledge bases."""
    return {
        f"{store.scope} {chunk.id}": hashlib.sha256(repr(chunk).encode()).hexdigest()
        for store in stores(root, expected)
        for chunk in store.chunks
    }


def problems(root: Path, expected: Expectation) -> list[str]:
    """Return everything that is wrong with the stores of a build, in words."""
    shared, private = stores(root, expected)
    sources = markers_of_the_sources(root, expected.source)
    return [
        *wrong_stores(sources, shared, private, expected),
        *leaks(sources, shared, expected),
        *wrong_fields(root, shared, expected),
        *wrong_fields(root, private, expected),
        *broken_addresses(root / PAGES, (*shared.chunks, *private.chunks), expected),
    ]


def markers_of_the_sources(root: Path, source: str) -> dict[str, tuple[str, str]]:
    """Return marker -> (kind, word) of every marker written in the project."""
    found = {}
    for folder in (source, "noter", "NDA", "harness_module"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in {".rst", ".md", ".txt", ".py"}:
                for match in MARK.finditer(path.read_text(encoding="utf-8")):
                    found[match[0]] = (match["kind"], match["word"])
    return found


def wrong_stores(
    sources: Mapping[str, tuple[str, str]], shared: Store, private: Store, expected: Expectation
) -> Iterator[str]:
    """Yield every marker that is not in exactly the store of its scope."""
    places = defaultdict(set)
    for store in (shared, private):
        for marker in store.markers():
            places[marker].add(store.scope)
    for marker, (kind, _) in sorted(sources.items()):
        scope = expected.scope_of(kind)
        wanted = {scope} if scope else set()
        if places[marker] != wanted:
            yield f"{marker}: expected in {sorted(wanted)}, found in {sorted(places[marker])}"


def leaks(
    sources: Mapping[str, tuple[str, str]], shared: Store, expected: Expectation
) -> Iterator[str]:
    """Yield every trace of text that is not shared in any byte of the shared store."""
    words = {
        word.encode()
        for kind, word in sources.values()
        if kind in {"PRIVATE", "HIDDEN", "CUSTOM"} and expected.scope_of(kind) != SHARED
        # Short words of hidden text are English; only whole markers are looked for there.
        if kind != "HIDDEN"
    } | {b"privatemark", b"hiddenmark"}
    for path in sorted(shared.folder.rglob("*")) if shared.folder.exists() else ():
        if path.is_file():
            content = path.read_bytes().lower()
            for word in sorted(word for word in words if word in content):
                yield f"{path.relative_to(shared.folder)} holds {word.decode()!r}"


def wrong_fields(root: Path, store: Store, expected: Expectation) -> Iterator[str]:
    """Yield every chunk with a scope, address, file, project or size that cannot be right."""
    for chunk in store.chunks:
        if chunk.scope != store.scope:
            yield f"{chunk.id}: scope {chunk.scope} in the store of {store.scope}"
        if chunk.url.partition("#")[0] != page_url(chunk.document, expected):
            yield f"{chunk.id}: url {chunk.url!r}, expected {page_url(chunk.document, expected)!r}"
        if chunk.project != expected.project or not chunk.id.startswith(f"{chunk.project}/"):
            yield f"{chunk.id}: project {chunk.project!r}, expected {expected.project!r}"
        if Path(chunk.source_file).is_absolute() or not (root / chunk.source_file).is_file():
            yield f"{chunk.id}: source file {chunk.source_file!r} is not a file of the project"
        if expected.max_chars and len(chunk.text) > expected.max_chars:
            yield f"{chunk.id}: {len(chunk.text)} characters, the cap is {expected.max_chars}"
        if str(root) in chunk.words:
            yield f"{chunk.id}: names a folder of this machine"


def broken_addresses(
    pages: Path, chunks: tuple[Chunk, ...], expected: Expectation
) -> Iterator[str]:
    """Yield every address that does not open at its place among the pages that were written."""
    if expected.builder != expected.url_style:
        return
    for chunk in chunks:
        address, _, anchor = chunk.url.removeprefix(expected.url_prefix).partition("#")
        page = pages / address / "index.html" if not address.endswith(".html") else pages / address
        place = f'id="{html.escape(unquote(anchor))}"' if anchor else ""
        if not page.is_file() or place not in page.read_text(encoding="utf-8"):
            yield f"{chunk.id}: {chunk.url} opens no page at that place"


def page_url(document: str, expected: Expectation) -> str:
    """Return the address of a page without its anchor."""
    if expected.url_style == "html":
        return f"{expected.url_prefix}{document}.html"
    folder = re.sub(r"(^|/)index$", r"\1", document)
    return expected.url_prefix + (f"{folder}/" if folder and not folder.endswith("/") else folder)
