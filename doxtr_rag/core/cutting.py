"""Where text may be cut: after sentences, then between words, then between characters."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from doxtr_rag.core.ports import TokenCounter

SENTENCE_END = re.compile(
    r"""
      (?<=[.!?…])["')\]»”\u2019]{0,3}\s+(?=[^\sa-z])    # "e.g. this" goes on in lower case
    | (?<=[\u3002\uff01\uff1f])["」』\uff09]{0,3}\s*
    | \n[ \t]*\n\s*
    | \n(?=[ \t]*(?:[-*+•]|[0-9]{1,3}[.)])[ \t])
    """,
    re.VERBOSE,
)
UNUSABLE = re.compile(r"[\x00\ud800-\udfff]")
SPACES = " \n\t\r\u3000\xa0"
LONGEST_COUNTED = 16_384
"""Characters above which a text is cut before its tokens are counted."""

JOINED = re.compile("\u200d|.\ufe0f")


def clean(text: str) -> str:
    """Return text that every encoding and database takes: no NUL, no lone surrogate."""
    return UNUSABLE.sub("\ufffd", text)


def sentences(text: str) -> list[str]:
    """Return consecutive pieces that end where sentences, list items or paragraphs end."""
    ends = [match.end() for match in SENTENCE_END.finditer(text)]
    bounds = [0, *ends, len(text)]
    return [text[a:b] for a, b in pairwise(bounds) if a < b]


@dataclass(frozen=True, slots=True)
class Room:
    """How much fits: tokens, and characters unless that is unbounded."""

    tokens: int
    chars: float = math.inf

    def __post_init__(self) -> None:
        if self.tokens < 1 or self.chars < 1:
            raise ValueError("there must be room for a character")

    def shares(self, tokens: int, chars: int) -> int:
        """Return how many times the room is needed."""
        by_chars = 1 if self.chars == math.inf else math.ceil(chars / self.chars)
        return max(1, by_chars, math.ceil(tokens / self.tokens))


def cut(text: str, room: Room, counter: TokenCounter) -> list[tuple[str, int]]:
    """Return consecutive pieces that fit, each with its tokens; words stay whole where they can.

    A single character is never cut, whatever it costs.
    """
    done: dict[int, tuple[str, int]] = {}
    waiting = _starts(_slices(text, math.ceil(len(text) / LONGEST_COUNTED)), 0)
    while waiting:
        counts = counter.count([piece for _, piece in waiting])
        special = counter.count([""])[0]
        smaller: list[tuple[int, str]] = []
        for (start, piece), count in zip(waiting, counts, strict=True):
            tokens = max(0, count - special)
            shares = room.shares(tokens, len(piece))
            if shares == 1 or len(piece) == 1:
                done[start] = (piece, tokens)
            else:
                smaller += _starts(_slices(piece, shares), start)
        waiting = smaller
    return [done[start] for start in sorted(done)]


def _starts(pieces: Iterator[str], start: int) -> list[tuple[int, str]]:
    located = []
    for piece in pieces:
        located.append((start, piece))
        start += len(piece)
    return located


def _slices(text: str, shares: int) -> Iterator[str]:
    """Yield about equal slices, cut after white space where there is some."""
    size = max(1, math.ceil(len(text) / max(1, shares)))
    start = 0
    while len(text) - start > size:
        end = _word_end(text, start, size) or _character_end(text, start, start + size)
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _word_end(text: str, start: int, size: int) -> int:
    """Return the last word's end within a slice, or the end of a word not much longer; else 0."""
    before = max(text.rfind(space, start, start + size) for space in SPACES) + 1
    if before > start:
        return before
    longest = min(start + 2 * size, len(text) - 1)
    found = (text.find(space, start + size, longest) for space in SPACES)
    return min((at + 1 for at in found if at >= 0), default=0)


def _character_end(text: str, start: int, end: int) -> int:
    """Return a cut at or before `end` that keeps composed characters whole where it can."""
    for at in range(end, start, -1):
        if not unicodedata.combining(text[at]) and not JOINED.search(text[at - 1 : at + 1]):
            return at
    return end
