"""Text of a knowledge base as Markdown may hold it: clean, on one line or quoted, capped.

`pi_extension/contract/README.md` states the rules; TypeScript follows the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from doxtr_rag.core.contract import contract
from doxtr_rag.core.display import without_controls
from doxtr_rag.core.scrub import scrub

LIMITS: dict[str, int] = contract("metadata")["limits"]
WORDS: dict[str, str] = contract("metadata")["rendering"]

_WHITE_SPACE = re.compile("[ \t\n\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_LINE_ENDS = str.maketrans({"\u2028": "\n", "\u2029": "\n"})


@dataclass(frozen=True, slots=True)
class Cap:
    """How much of a text is quoted: characters, then lines of them."""

    chars: int
    lines: int


CHUNK_CAP = Cap(LIMITS["max_chunk_chars"], LIMITS["max_chunk_lines"])


def cleaned(text: str) -> str:
    """Return a text without control characters and secrets."""
    return scrub(without_controls(text))


def line(text: str, limit: int = LIMITS["max_field_chars"]) -> str:
    """Return a clean text as one line of at most `limit` characters."""
    whole = _WHITE_SPACE.sub(" ", cleaned(text)).strip(" ")
    return whole if len(whole) <= limit else whole[: limit - 1] + "…"


def quoted(text: str, cap: Cap = CHUNK_CAP) -> str:
    """Return a clean text as a quoted block that nothing in it can end."""
    whole = cleaned(text).translate(_LINE_ENDS).strip("\n")
    shown = "\n".join(whole[: cap.chars].split("\n")[: cap.lines])
    lines = [f"> {each}" if each else ">" for each in shown.split("\n")]
    if len(shown) < len(whole):
        lines.append(WORDS["cut_chunk"].replace("{count}", str(len(whole) - len(shown))))
    return "\n".join(lines)


def paragraphs(parts: Sequence[str]) -> str:
    """Join the paragraphs that are not empty."""
    return "\n\n".join(filter(None, parts))


def is_within_caps(text: str) -> bool:
    """Say whether a text is within what a tool may hand to a model."""
    return len(text) <= LIMITS["max_chars"] and text.count("\n") < LIMITS["max_lines"]
