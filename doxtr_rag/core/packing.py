"""Packing the pieces of one section into parts that fit, with some overlap between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from doxtr_rag.core.cutting import Room, sentences
from doxtr_rag.core.documents import Block
from doxtr_rag.core.pieces import Cutter, Piece, groups, is_continued, render
from doxtr_rag.core.ports import TokenCounter

TIGHTER = 0.85
ATTEMPTS = 60
PARAGRAPH_END = 2
"""Characters between two blocks."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a section that becomes a chunk: its text, tokens of its input, its blocks."""

    text: str
    tokens: int
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Budget:
    """What a part may hold beside its header.

    `room` is never exceeded, `target` is what packing aims at, `overlap` what a part may repeat.
    """

    header: str
    cap_tokens: int
    room: Room
    target: Room
    overlap: Room | None

    def scaled(self, factor: float) -> tuple[Room, Room]:
        """Return room and target with fewer tokens, for text that counts higher as a whole."""
        room = Room(max(1, int(self.room.tokens * factor)), self.room.chars)
        target = Room(max(1, int(self.target.tokens * factor)), self.target.chars)
        return room, target

    def embedded(self, text: str) -> str:
        """Return the embedding input of a text."""
        return "\n\n".join(filter(None, (self.header, text)))


def divide(blocks: Sequence[Block], budget: Budget, counter: TokenCounter) -> list[Part] | None:
    """Return the parts of a section that is too long for one; None when nothing is short enough.

    Tokens of pieces nearly add up. Where they do not, everything is cut a little smaller.
    """
    for attempt in range(ATTEMPTS):
        room, target = budget.scaled(TIGHTER**attempt)
        pieces = Cutter(room, target, counter).pieces(blocks)
        packed = pack(pieces, room, target)
        overlaps = _overlaps(packed, room, budget.overlap, counter)
        parts = _measure(packed, overlaps, budget, counter)
        if parts is not None:
            return parts
    return None


def pack(pieces: Sequence[Piece], room: Room, target: Room) -> list[list[Piece]]:
    """Return pieces in parts of about the target; a remainder joins the part before if it fits."""
    parts: list[list[Piece]] = []
    current: list[Piece] = []
    used = (0, 0)
    for piece in pieces:
        tokens, chars = _cost(current[-1] if current else None, piece)
        if current and target.shares(used[0] + tokens, used[1] + chars) > 1:
            parts.append(current)
            current, used = [], (0, 0)
            tokens, chars = _cost(None, piece)
        current.append(piece)
        used = used[0] + tokens, used[1] + chars
    parts.append(current)
    parts = [part for part in parts if any(not piece.text.isspace() for piece in part)]
    if len(parts) > 1 and room.shares(*_size([*parts[-2], *parts[-1]])) == 1:
        parts[-2:] = [[*parts[-2], *parts[-1]]]
    return parts


def _cost(before: Piece | None, piece: Piece) -> tuple[int, int]:
    """Return the tokens and characters that a piece adds."""
    if before is not None and is_continued(before, piece):
        return piece.tokens, len(piece.glue) + len(piece.text)
    frame_tokens = piece.frame.tokens if piece.frame else 0
    frame_chars = piece.frame.chars if piece.frame else 0
    gap = PARAGRAPH_END if before is not None else 0
    return piece.tokens + frame_tokens, len(piece.text) + frame_chars + gap


def _size(part: Sequence[Piece]) -> tuple[int, int]:
    costs = [_cost(part[at - 1] if at else None, piece) for at, piece in enumerate(part)]
    return sum(tokens for tokens, _ in costs), sum(chars for _, chars in costs)


def _overlaps(
    parts: Sequence[Sequence[Piece]], room: Room, limit: Room | None, counter: TokenCounter
) -> list[list[Piece]]:
    """Return what each part repeats of the one before."""
    found: list[list[Piece]] = [[] for _ in parts]
    if limit is None:
        return found
    tails = {at: _tail(part, limit) for at, part in enumerate(parts[:-1], start=1)}
    special, *counts = counter.count(["", *(text for tail in tails.values() for text in tail)])
    left = iter(counts)
    for at, tail in tails.items():
        tokens, chars = _size(parts[at])
        space = min(limit.tokens, room.tokens - tokens), room.chars - chars
        text, used = _longest([(sentence, next(left) - special) for sentence in tail], *space)
        if text:
            found[at] = [Piece(parts[at - 1][-1].block, text, used)]
    return found


def _tail(part: Sequence[Piece], limit: Room) -> list[str]:
    """Return the whole sentences at the end of a part that are short enough, last one first."""
    found: list[str] = []
    chars = 0
    for piece in reversed(groups(part)[-1]):
        if not piece.may_overlap:
            break
        for sentence in reversed(sentences(piece.text)):
            chars += len(sentence)
            if chars > limit.chars:
                return found
            found.append(sentence)
    return found


def _longest(
    tail: Sequence[tuple[str, int]], most_tokens: int, most_chars: float
) -> tuple[str, int]:
    """Return the sentences that fit, in reading order, and their tokens."""
    text, used = "", 0
    for sentence, tokens in tail:
        is_short = len(sentence) + len(text) + PARAGRAPH_END <= most_chars
        if used + tokens > most_tokens or not is_short:
            break
        text, used = sentence + text, used + tokens
    return text, used


def _measure(
    packed: Sequence[Sequence[Piece]],
    overlaps: Sequence[Sequence[Piece]],
    budget: Budget,
    counter: TokenCounter,
) -> list[Part] | None:
    """Return parts with what they really count, None when one is too long even by itself."""
    texts = [render([*overlap, *part]) for overlap, part in zip(overlaps, packed, strict=True)]
    counts = counter.count([budget.embedded(text) for text in texts])
    long = [at for at, count in enumerate(counts) if count > budget.cap_tokens]
    plain = [render(packed[at]) for at in long]
    recounted = counter.count([budget.embedded(text) for text in plain]) if long else []
    for at, text, count in zip(long, plain, recounted, strict=True):
        texts[at], counts[at] = text, count
    if any(count > budget.cap_tokens for count in counts):
        return None
    blocks = [tuple(dict.fromkeys(piece.block for piece in part)) for part in packed]
    return [Part(*fields) for fields in zip(texts, counts, blocks, strict=True)]
