"""The nouns of the pipeline: what each stage hands to the next."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias

from doxtr_rag.core.scope import Scope, ScopeDecision, ScopeSignal

Vector: TypeAlias = bytes
"""One embedding: little-endian float32, `4 * dimension` bytes, L2 norm 1."""

MetadataValue: TypeAlias = str | int | float | bool
Metadata: TypeAlias = Mapping[str, MetadataValue]

NO_METADATA: Metadata = MappingProxyType({})


def digest(*parts: object) -> str:
    """Return the SHA-256 of JSON-serialisable values, as 64 hexadecimal digits."""
    canonical = json.dumps(parts, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Locator:
    """Where a chunk sits in its source's own addressing scheme: anchor, page, sheet, line."""

    kind: str
    value: int | str
    end: int | str | None = None

    def __str__(self) -> str:
        end = "" if self.end is None else f"-{self.end}"
        return f"{self.kind} {self.value}{end}"


class BlockKind(Enum):
    """How a block may be cut: prose anywhere between words, tables and code between lines."""

    TEXT = "text"
    TABLE = "table"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Block:
    """One paragraph, list, table or code listing, as Markdown.

    A TABLE is a Markdown table whose first two lines are the header and its rule. CODE starts and
    ends with its fence. `links` are the documents it refers to, as `document#anchor`.
    """

    kind: BlockKind
    text: str
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A titled stretch of a document, as a parser sees it.

    `titles` is the path of titles inside the document, outermost first, its own last; a stretch
    before the first heading has none. `anchor` is "" for it, and for a document without headings.
    """

    anchor: str
    titles: tuple[str, ...]
    blocks: tuple[Block, ...]
    locator: Locator | None = None


@dataclass(frozen=True, slots=True)
class DocumentContext:
    """What a document's surroundings say about it; may change while its own text does not.

    `breadcrumb` holds the titles of the pages above it, outermost first, without its own. `url`
    is the address of the page, without an anchor. `source_file` is relative to the project root.
    `withheld` holds the titles that a shared document's breadcrumb lacks, since their pages are
    private.
    """

    breadcrumb: tuple[str, ...]
    url: str
    source_file: str
    signals: tuple[ScopeSignal, ...]
    metadata: Metadata = field(default_factory=lambda: NO_METADATA)
    withheld: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        """The hash of everything above."""
        signals = [(s.origin, s.scope.value if s.scope else None, s.reason) for s in self.signals]
        metadata = sorted(self.metadata.items())
        return digest(self.breadcrumb, self.url, self.source_file, signals, metadata, self.withheld)


@dataclass(frozen=True, slots=True)
class DocumentInput:
    """One document as a run finds it; its sections are read only when something changed."""

    document: str
    body_hash: str
    context: DocumentContext
    load: Callable[[], tuple[Section, ...]]


@dataclass(frozen=True, slots=True)
class Harvest:
    """The documents of one origin, and which documents they speak for.

    A stored document of the same project and origin that is in neither `documents` nor `kept` is
    gone, when `is_complete`. `kept` exist but could not be refreshed: their chunks stay, unless
    their context says that they are private. `failures` maps those that should have been
    refreshed to the reason why they were not.
    """

    project: str
    origin: str
    documents: tuple[DocumentInput, ...]
    kept: Mapping[str, DocumentContext] = field(default_factory=dict)
    is_complete: bool = True
    failures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DocumentChunk:
    """A section-bounded piece of one document: the unit of storage and embedding.

    `chunk_id` is `<project>/<document>#<anchor>[~n]`. `breadcrumb` is the whole title path, own
    title last; `header` is that path as it is embedded, cut where it would crowd out the body.
    `chunking` is the hash of the settings that cut it, `tokens` the length of the embedding input,
    `position` its place in the document's reading order, from 0.
    """

    chunk_id: str
    project: str
    document: str
    anchor: str
    text: str
    header: str = ""
    breadcrumb: tuple[str, ...] = ()
    url: str = ""
    source_file: str = ""
    locator: Locator | None = None
    links: tuple[str, ...] = ()
    signals: tuple[ScopeSignal, ...] = ()
    metadata: Metadata = field(default_factory=lambda: NO_METADATA)
    chunking: str = ""
    tokens: int = 0
    position: int = 0

    @property
    def title(self) -> str:
        """The title of the section, or of the document before its first section."""
        return self.breadcrumb[-1] if self.breadcrumb else self.document

    @property
    def embedding_text(self) -> str:
        """The text that is embedded: the section path, then the body."""
        return "\n\n".join(filter(None, (self.header, self.text)))

    @property
    def text_hash(self) -> str:
        """The hash that finds a vector to reuse and a text that was counted already."""
        return hashlib.sha256(self.embedding_text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ScopedChunk:
    """A chunk whose scope is final; the only kind a store accepts."""

    chunk: DocumentChunk
    decision: ScopeDecision

    @property
    def scope(self) -> Scope:
        """The audience the chunk may be stored for."""
        return self.decision.scope

    @property
    def content_hash(self) -> str:
        """The hash that decides whether the stored chunk must be written again."""
        chunk = self.chunk
        locator = chunk.locator
        return digest(
            chunk.text_hash,
            chunk.breadcrumb,
            chunk.url,
            chunk.source_file,
            None if locator is None else (locator.kind, locator.value, locator.end),
            chunk.links,
            sorted(chunk.metadata.items()),
            chunk.chunking,
            chunk.position,
            self.scope.value,
        )


@dataclass(frozen=True, slots=True)
class StoredHash:
    """What a store remembers of a chunk for comparison."""

    document: str
    content_hash: str
    text_hash: str
    breadcrumb: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as a store gives it back to a reader."""

    chunk_id: str
    project: str
    document: str
    anchor: str
    text: str
    breadcrumb: tuple[str, ...]
    url: str
    source_file: str
    locator: Locator | None
    scope: Scope
    text_hash: str
    content_hash: str
    links: tuple[str, ...]
    metadata: Metadata
