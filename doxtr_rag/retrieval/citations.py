"""Receipts: how a passage is cited, and the verbatim words that show it."""

from __future__ import annotations

import re

from doxtr_rag.core.documents import StoredChunk

MAX_QUOTE = 300
"""Characters of a quote."""

_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")
_BRACKETS = str.maketrans({"[": "(", "]": ")"})


def citation(chunk: StoredChunk) -> str:
    """Return `[Title §Heading]`; brackets in titles cannot close it early."""
    titles = [_SPACE.sub(" ", title).translate(_BRACKETS) for title in chunk.breadcrumb[-2:]]
    return f"[{' §'.join(titles) or chunk.document}]"


def quote(text: str, query: str) -> str:
    """Return the lines of the text that share most words with the query, verbatim.

    Always a substring of `text`, at most `MAX_QUOTE` characters.
    """
    wanted = {word.casefold() for word in _WORD.findall(query)}
    lines = [match.span() for match in re.finditer(r"[^\n]*\S[^\n]*", text)]
    if not lines:
        return ""

    def shared(span: tuple[int, int]) -> int:
        words = {word.casefold() for word in _WORD.findall(text[span[0] : span[1]])}
        return len(words & wanted)

    first = max(range(len(lines)), key=lambda i: (shared(lines[i]), -i))
    start, end = lines[first]
    for _, following_end in lines[first + 1 :]:
        if following_end - start > MAX_QUOTE:
            break
        end = following_end
    return _cut(text[start:end])


def _cut(text: str) -> str:
    if len(text) <= MAX_QUOTE:
        return text
    shortened = text[:MAX_QUOTE]
    head, space, _ = shortened.rpartition(" ")
    return head if space and len(head) > MAX_QUOTE // 2 else shortened
