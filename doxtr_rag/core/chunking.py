"""From the sections of a document to its chunks: their text, size, overlap and ids."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from doxtr_rag.core.cutting import Room, clean, cut
from doxtr_rag.core.documents import Block, DocumentChunk, DocumentInput, Section, digest
from doxtr_rag.core.errors import LimitExceededError
from doxtr_rag.core.identity import chunk_id
from doxtr_rag.core.packing import Budget, Part, divide
from doxtr_rag.core.ports import TokenCounter

LAYOUT = 2
"""Changes when the same text and limits give other chunks."""

LEAST_CAP = 16
HEADER_SHARE = 3
"""The titles may take one part in this many of the cap."""

OVERLAP_SHARE = 0.15
"""The most that overlap may take of the target."""

HEADER_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """How long chunks may be; tokens count titles and special tokens, characters the text alone.

    `max_chars` of 0 or less leaves only the tokens.
    """

    target_tokens: int
    cap_tokens: int
    max_chars: int
    overlap_chars: int

    def __post_init__(self) -> None:
        if not 0 < self.target_tokens <= self.cap_tokens or self.cap_tokens < LEAST_CAP:
            raise ValueError(f"expected a target up to the cap, and a cap from {LEAST_CAP} up")

    @property
    def hash(self) -> str:
        """The hash of everything that decides how text is cut."""
        return digest(
            LAYOUT, self.target_tokens, self.cap_tokens, self.max_chars, self.overlap_chars
        )

    @property
    def chars(self) -> float:
        """The most characters of a text."""
        return self.max_chars if self.max_chars > 0 else math.inf

    def budget(self, header: str, header_tokens: int) -> Budget:
        """Return what is left for text under a header of so many tokens, special ones included."""
        room = Room(max(1, self.cap_tokens - header_tokens), self.chars)
        tokens = max(self.target_tokens - header_tokens, room.tokens // 2, 1)
        overlap_chars = min(max(0, self.overlap_chars), self.chars // 2)
        overlap = int(self.target_tokens * OVERLAP_SHARE)
        return Budget(
            header=header,
            cap_tokens=self.cap_tokens,
            room=room,
            # Leaves the characters that the overlap takes.
            target=Room(min(tokens, room.tokens), self.chars - overlap_chars),
            overlap=Room(overlap, overlap_chars) if overlap and overlap_chars else None,
        )


@dataclass(frozen=True, slots=True)
class _Passage:
    """A section with text, and the titles it is embedded under."""

    section: Section
    blocks: tuple[Block, ...]
    breadcrumb: tuple[str, ...]
    header: str = ""

    @property
    def text(self) -> str:
        return "\n\n".join(block.text for block in self.blocks)

    @property
    def whole(self) -> tuple[int, ...]:
        return tuple(range(len(self.blocks)))


def chunk_document(
    project: str, item: DocumentInput, limits: ChunkLimits, counter: TokenCounter
) -> list[DocumentChunk]:
    """Return the chunks of one document, in reading order; a section without text has none.

    Raises:
        LimitExceededError: no text is short enough for the cap.
    """
    chunking = limits.hash
    used: Counter[str] = Counter()
    chunks: list[DocumentChunk] = []
    for passage, part in _parts(item, limits, counter):
        anchor = clean(passage.section.anchor)
        used[anchor] += 1
        links = (link for at in part.blocks for link in passage.blocks[at].links)
        chunks.append(
            DocumentChunk(
                chunk_id=chunk_id(project, item.document, anchor, used[anchor]),
                project=project,
                document=item.document,
                anchor=anchor,
                text=part.text,
                header=passage.header,
                breadcrumb=passage.breadcrumb,
                url=item.context.url,
                source_file=item.context.source_file,
                locator=passage.section.locator,
                links=tuple(dict.fromkeys(links)),
                signals=item.context.signals,
                metadata=item.context.metadata,
                chunking=chunking,
                tokens=part.tokens,
                position=len(chunks),
            )
        )
    return chunks


def _parts(
    item: DocumentInput, limits: ChunkLimits, counter: TokenCounter
) -> Iterator[tuple[_Passage, Part]]:
    """Yield the parts of each passage; all that may fit as a whole are counted at once."""
    passages = _passages(item, limits, counter)
    inputs = {
        at: f"{passage.header}\n\n{text}"
        for at, passage in enumerate(passages)
        if len(text := passage.text) <= limits.chars
    }
    counts = dict(zip(inputs, counter.count(list(inputs.values())), strict=True)) if inputs else {}
    for at, passage in enumerate(passages):
        if counts.get(at, limits.cap_tokens + 1) <= limits.cap_tokens:
            yield passage, Part(passage.text, counts[at], passage.whole)
            continue
        header_tokens = counter.count([f"{passage.header}\n\n"])[0]
        budget = limits.budget(passage.header, header_tokens)
        parts = divide(passage.blocks, budget, counter)
        if parts is None:
            title = passage.breadcrumb[-1]
            reason = f"nothing of {title!r} fits {limits.cap_tokens} tokens: raise the cap"
            raise LimitExceededError(item.document, reason)
        yield from ((passage, part) for part in parts)


def _passages(
    item: DocumentInput, limits: ChunkLimits, counter: TokenCounter
) -> Sequence[_Passage]:
    bare = []
    for section in item.load():
        blocks = tuple(filter(None, map(_usable, section.blocks)))
        titles = _titles(section.titles) or (item.document,)
        breadcrumb = _titles(item.context.breadcrumb) + titles
        if blocks:
            bare.append(_Passage(section, blocks, breadcrumb))
    headers = _headers({passage.breadcrumb for passage in bare}, limits, counter)
    return [
        _Passage(passage.section, passage.blocks, passage.breadcrumb, headers[passage.breadcrumb])
        for passage in bare
    ]


def _usable(block: Block) -> Block | None:
    """Return a block as it is stored; None without anything to read."""
    text = clean(block.text).strip("\n").rstrip()
    return Block(block.kind, text, block.links) if text else None


def _titles(titles: tuple[str, ...]) -> tuple[str, ...]:
    """Return titles as lines; those without anything to read are left out."""
    return tuple(filter(None, (" ".join(clean(title).split()) for title in titles)))


def _headers(
    breadcrumbs: set[tuple[str, ...]], limits: ChunkLimits, counter: TokenCounter
) -> dict[tuple[str, ...], str]:
    """Return each breadcrumb as it is embedded: outermost titles go first, then its own end."""
    order = sorted(breadcrumbs)
    paths = [_joined(breadcrumb) for breadcrumb in order]
    counts = counter.count(paths) if paths else []
    most = limits.cap_tokens // HEADER_SHARE
    return {
        breadcrumb: path
        if tokens <= most and len(path) <= HEADER_CHARACTERS
        else _shortened(breadcrumb, most, counter)
        for breadcrumb, path, tokens in zip(order, paths, counts, strict=True)
    }


def _shortened(breadcrumb: tuple[str, ...], most: int, counter: TokenCounter) -> str:
    paths = [_joined(breadcrumb[at:]) for at in range(1, len(breadcrumb))]
    short = [path for path in paths if len(path) <= HEADER_CHARACTERS]
    special, *counts = counter.count(["", *short])
    for path, tokens in zip(short, counts, strict=True):
        if tokens <= most:
            return path
    room = Room(max(1, most - special), HEADER_CHARACTERS)
    return cut(breadcrumb[-1], room, counter)[0][0].rstrip()


def _joined(titles: Sequence[str]) -> str:
    return " > ".join(titles)
