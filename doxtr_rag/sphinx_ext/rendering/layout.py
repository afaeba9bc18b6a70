"""Markdown blocks put into lists, quotes and labels, without a word about doctrees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from doxtr_rag.core.documents import Block, BlockKind

PACKED_CHARS = 800
"""A list longer than this becomes several blocks, so that it can be cut between its items."""

_LIST_ITEM = re.compile(r"(?:-|\(?\w+[.)]) ")
_IN_LIST = re.compile(rf"\s|{_LIST_ITEM.pattern}")
_BACKTICKS = re.compile(r"`{3,}")


def text_block(text: str, links: Iterable[str] = ()) -> list[Block]:
    """Return a TEXT block; none for empty text."""
    return [Block(BlockKind.TEXT, text, tuple(dict.fromkeys(links)))] if text.strip() else []


def code_block(code: str, language: str = "") -> list[Block]:
    """Return a CODE block whose fence is longer than any inside; none for empty code."""
    code = code.strip("\n")
    if not code.strip():
        return []
    fence = "`" * max([3, *(len(found) + 1 for found in _BACKTICKS.findall(code))])
    return [Block(BlockKind.CODE, f"{fence}{language}\n{code}\n{fence}")]


def joined(blocks: Sequence[Block], separator: str) -> Block:
    """Return TEXT blocks as one."""
    links = dict.fromkeys(link for block in blocks for link in block.links)
    return Block(BlockKind.TEXT, separator.join(block.text for block in blocks), tuple(links))


def with_links(blocks: list[Block], links: Sequence[str], position: int) -> list[Block]:
    """Add links to the block at a position of a list that may be empty."""
    if blocks and links:
        merged = dict.fromkeys((*blocks[position].links, *links))
        blocks[position] = replace(blocks[position], links=tuple(merged))
    return blocks


def labelled(label: str, blocks: Sequence[Block], separator: str) -> list[Block]:
    """Put a label before the first block when that is text, else on its own."""
    head = text_block(label)
    if head and blocks and blocks[0].kind is BlockKind.TEXT:
        return [joined((*head, blocks[0]), separator), *blocks[1:]]
    return [*head, *blocks]


def item(marker: str, blocks: Sequence[Block]) -> list[Block]:
    """Return one list item: text carries the marker or its indentation, code and tables neither."""
    indent = " " * (len(marker) + 1)
    result: list[Block] = []
    for block in blocks:
        if block.kind is not BlockKind.TEXT:
            if not result and marker != "-":
                result.append(Block(BlockKind.TEXT, marker))
            result.append(block)
            continue
        text = "\n".join(indent + line if line else line for line in block.text.split("\n"))
        if not result:
            text = f"{marker} {text[len(indent) :]}"
        shifted = replace(block, text=text)
        if result and result[-1].kind is BlockKind.TEXT:
            separator = "\n" if _LIST_ITEM.match(block.text) else "\n\n"
            shifted = joined((result.pop(), shifted), separator)
        result.append(shifted)
    return result


def packed(items: Iterable[Sequence[Block]]) -> list[Block]:
    """Return the blocks of list items, short neighbours put together in one block."""
    result: list[Block] = []
    is_open = False
    for blocks in items:
        if is_open and _fits(result[-1], blocks):
            above, below = result.pop(), blocks[0]
            result.append(joined((above, below), _gap(above.text, below.text)))
            continue
        result.extend(blocks)
        is_open = len(blocks) == 1 and blocks[0].kind is BlockKind.TEXT
    return result


def _gap(above: str, below: str) -> str:
    """Return what keeps two items apart: text right below a list item would continue it."""
    last_line = above.rpartition("\n")[2]
    continues = _IN_LIST.match(last_line) and not _LIST_ITEM.match(below)
    return "\n\n" if continues or "\n\n" in above or "\n\n" in below else "\n"


def _fits(last: Block, blocks: Sequence[Block]) -> bool:
    if len(blocks) != 1 or blocks[0].kind is not BlockKind.TEXT:
        return False
    return len(last.text) + len(blocks[0].text) <= PACKED_CHARS


def quoted(blocks: Iterable[Block]) -> list[Block]:
    """Mark text as a quotation; code and tables stay as they are."""
    return [
        replace(block, text="\n".join(f"> {line}".rstrip() for line in block.text.split("\n")))
        if block.kind is BlockKind.TEXT
        else block
        for block in blocks
    ]
