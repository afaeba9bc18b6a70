"""From blocks to the pieces that chunks are packed from: never half a row, never half a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from doxtr_rag.core.cutting import Room, cut, sentences
from doxtr_rag.core.documents import Block, BlockKind
from doxtr_rag.core.ports import TokenCounter

FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)\n?")
CELL_END = re.compile(r"(?<!\\)\|")
LABEL_CHARACTERS = 80
FRAME_SHARE = 2
"""A repeated table header or fence may take one part in this many of the room."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around the pieces of one block in every part: a table's header, a fence."""

    head: str
    tail: str = ""
    tokens: int = 0

    @property
    def chars(self) -> int:
        """The characters it adds, line ends included."""
        return sum(len(line) + 1 for line in (self.head, self.tail) if line)

    def around(self, body: str) -> str:
        """Return a body inside the frame."""
        return "\n".join(filter(None, (self.head, body, self.tail)))


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that is not cut further: sentence, row, line, or a whole block.

    Pieces of one `block` and one `frame` are joined by `glue`; sentences carry their white space.
    `may_overlap` marks prose of whole sentences, which the next part may repeat.
    """

    block: int
    text: str
    tokens: int
    glue: str = ""
    frame: Frame | None = None
    may_overlap: bool = False


def render(pieces: Iterable[Piece]) -> str:
    """Return the text of a part."""
    return "\n\n".join(_render_group(group) for group in groups(pieces))


def groups(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Return runs of pieces that belong to one block and one frame."""
    found: list[list[Piece]] = []
    for piece in pieces:
        if found and is_continued(found[-1][-1], piece):
            found[-1].append(piece)
        else:
            found.append([piece])
    return found


def is_continued(before: Piece, after: Piece) -> bool:
    """Say whether a piece stands in the same paragraph, table or listing as the one before."""
    return (before.block, before.frame, before.glue) == (after.block, after.frame, after.glue)


def _render_group(group: Sequence[Piece]) -> str:
    first = group[0]
    body = first.glue.join(piece.text for piece in group)
    if first.frame is not None:
        return first.frame.around(body)
    return body.strip("\n").rstrip()


class Cutter:
    """Cuts the blocks of one section into pieces that fit a room."""

    def __init__(self, room: Room, target: Room, counter: TokenCounter) -> None:
        self._room = room
        self._target = target
        self._counter = counter
        self._special = counter.count([""])[0]

    def pieces(self, blocks: Sequence[Block]) -> list[Piece]:
        """Return the pieces of all blocks, in order; blocks that fit stay whole."""
        counts = self._count([block.text for block in blocks])
        found: list[Piece] = []
        for at, (block, tokens) in enumerate(zip(blocks, counts, strict=True)):
            is_prose = block.kind is BlockKind.TEXT
            room = self._target if is_prose else self._room
            if room.shares(tokens, len(block.text)) == 1:
                has_fence = len(stretches(block.text)) > 1
                found.append(Piece(at, block.text, tokens, may_overlap=is_prose and not has_fence))
            else:
                found += self._split(at, block)
        return found

    def _split(self, at: int, block: Block) -> Iterator[Piece]:
        if block.kind is BlockKind.TABLE:
            return self._rows(at, block.text)
        if block.kind is BlockKind.CODE:
            return self._lines(at, block.text)
        return self._prose(at, block.text)

    def _count(self, texts: Sequence[str]) -> list[int]:
        """Return tokens without special ones; of a long text only whether it is too long."""
        longest = self._room.chars
        counted = [text for text in texts if len(text) <= longest]
        counts = iter(self._counter.count(counted)) if counted else iter(())
        return [
            max(0, next(counts) - self._special) if len(text) <= longest else self._room.tokens + 1
            for text in texts
        ]

    def _prose(self, at: int, text: str) -> Iterator[Piece]:
        """Yield sentences, and listings inside a list or quotation as what they are."""
        for stretch, is_fenced in stretches(text):
            tokens = self._count([stretch])[0]
            if not is_fenced:
                yield from self._sentences(at, stretch)
            elif self._room.shares(tokens, len(stretch)) == 1:
                yield Piece(at, stretch, tokens, "\n\n")
            else:
                yield from self._lines(at, stretch.strip("\n"))

    def _sentences(self, at: int, text: str) -> Iterator[Piece]:
        found = sentences(text)
        for sentence, tokens in zip(found, self._count(found), strict=True):
            if self._room.shares(tokens, len(sentence)) == 1:
                yield Piece(at, sentence, tokens, may_overlap=True)
            else:
                yield from self._words(at, sentence)

    def _words(self, at: int, text: str, glue: str = "") -> Iterator[Piece]:
        for part, tokens in cut(text, self._target, self._counter):
            yield Piece(at, part, tokens, glue)

    def _rows(self, at: int, text: str) -> Iterator[Piece]:
        header, *rows = text.strip("\n").split("\n")
        rule = rows.pop(0) if rows else ""
        frame = self._frame(f"{header}\n{rule}")
        counts = self._count(rows)
        if frame is None:
            yield from self._words(at, header)
        room = self._room if frame is None else self._inside(frame, self._room)
        for row, tokens in zip(rows, counts, strict=True):
            if frame is not None and room.shares(tokens, len(row)) == 1:
                yield Piece(at, row, tokens, "\n", frame)
            else:
                yield from self._cells(at, header, row)

    def _cells(self, at: int, header: str, row: str) -> Iterator[Piece]:
        """Yield a row too long for a table as `Header: cell` lines."""
        labels = [label[:LABEL_CHARACTERS] for label in cells(header)]
        lines = []
        for column, cell in enumerate(cells(row)):
            label = labels[column] if column < len(labels) else ""
            lines.append(f"{label}: {cell}" if label and cell else cell)
        lines = [line for line in lines if line]
        for line, tokens in zip(lines, self._count(lines), strict=True):
            if self._room.shares(tokens, len(line)) == 1:
                yield Piece(at, line, tokens, "\n")
            else:
                yield from self._words(at, line, "\n")

    def _lines(self, at: int, text: str) -> Iterator[Piece]:
        first, *lines = text.split("\n")
        opening = FENCE.fullmatch(first)
        if opening is None:
            return self._sentences(at, text)
        if lines and lines[-1].strip() == opening["fence"]:
            lines.pop()
        closing = opening["indent"] + opening["fence"]
        frame = self._frame(first, closing)
        if frame is None:
            # An info string of that length is content too, but cannot be repeated.
            lines.insert(0, opening["info"])
            frame = self._frame(closing, closing)
        if frame is None:
            return self._words(at, "\n".join(lines))
        return self._framed_lines(at, lines, frame)

    def _framed_lines(self, at: int, lines: Sequence[str], frame: Frame) -> Iterator[Piece]:
        room, target = self._inside(frame, self._room), self._inside(frame, self._target)
        for line, tokens in zip(lines, self._count(lines), strict=True):
            if room.shares(tokens, len(line)) == 1:
                yield Piece(at, line, tokens, "\n", frame)
            else:
                for part, part_tokens in cut(line, target, self._counter):
                    yield Piece(at, part, part_tokens, "\n", frame)

    def _frame(self, head: str, tail: str = "") -> Frame | None:
        """Return a frame to repeat, None when it would crowd out what it frames."""
        frame = self._measured(Frame(head, tail))
        is_small = frame.tokens * FRAME_SHARE <= self._room.tokens
        return frame if is_small and frame.chars * FRAME_SHARE <= self._room.chars else None

    def _measured(self, frame: Frame) -> Frame:
        return replace(frame, tokens=sum(self._count([frame.head, frame.tail])))

    def _inside(self, frame: Frame, room: Room) -> Room:
        return Room(max(1, room.tokens - frame.tokens), max(1, room.chars - frame.chars))


def cells(row: str) -> list[str]:
    """Return the cells of a Markdown table row."""
    found = [cell.strip() for cell in CELL_END.split(row.strip())]
    start = 1 if found and not found[0] else 0
    end = len(found) - 1 if len(found) > 1 and not found[-1] else len(found)
    return found[start:end]


def stretches(text: str) -> list[tuple[str, bool]]:
    """Return consecutive runs of lines, and whether each is a fenced listing with its fences."""
    runs: list[tuple[list[str], bool]] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        found = FENCE.fullmatch(line)
        is_fence = found is not None and (not fence or line.strip() == fence)
        if not runs or runs[-1][1] != bool(fence or is_fence) or (is_fence and not fence):
            runs.append(([], bool(fence or is_fence)))
        runs[-1][0].append(line)
        if found is not None and is_fence:
            fence = "" if fence else found["fence"]
    return [("".join(lines), is_fenced) for lines, is_fenced in runs]
