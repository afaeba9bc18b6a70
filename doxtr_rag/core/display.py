"""Stored text as it may be shown: nothing in it steers a terminal or breaks an encoding."""

from __future__ import annotations

import re
import unicodedata

ESCAPES = re.compile(r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)|\[[0-?]*[ -/]*[@-~]|.)?", re.DOTALL)
"""ANSI escape sequences (ECMA-48): operating system commands, control sequences, two-byte ones."""


def without_controls(text: str) -> str:
    """Return a text without escape sequences and control characters; tab and newline stay.

    Lone surrogates become U+FFFD.
    """
    visible = (c for c in ESCAPES.sub("", text) if c in "\t\n" or unicodedata.category(c) != "Cc")
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in visible)
