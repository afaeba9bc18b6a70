"""How places in a knowledge base are named by people and programs."""

from __future__ import annotations

import re
from collections.abc import Callable

WILDCARDS = "*?"


def section_id(chunk_id: str) -> str:
    """Return the section a chunk is a part of: its id without `~n`.

    `#` in a document's name and `~` in an anchor are percent-encoded in chunk ids.
    """
    document, separator, anchor = chunk_id.partition("#")
    return document + separator + anchor.partition("~")[0]


def document_matcher(filter_text: str) -> Callable[[str], bool]:
    """Return whether a document's name passes a filter, letter case ignored.

    A filter with `*` or `?` is a glob over the whole name, where `*` crosses slashes; any other
    is a part of the name.
    """
    wanted = filter_text.strip().casefold()
    if not any(card in wanted for card in WILDCARDS):
        return lambda name: wanted in name.casefold()
    parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in wanted)
    pattern = re.compile("".join(parts), re.DOTALL)
    return lambda name: pattern.fullmatch(name.casefold()) is not None
