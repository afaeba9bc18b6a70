"""Tables as Markdown tables.

A table without a header row gets an empty header: its first row is no header. A cell that spans
rows is repeated in each of them while it is short, so that a row makes sense alone; one that spans
columns is followed by empty cells, or repeated in the header.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from docutils import nodes

from doxtr_rag.core.documents import Block, BlockKind
from doxtr_rag.sphinx_ext.rendering.asides import caption
from doxtr_rag.sphinx_ext.rendering.inline import code_span
from doxtr_rag.sphinx_ext.rendering.renderer import Renderer
from doxtr_rag.sphinx_ext.rendering.visibility import is_hidden

REPEATED_CHARS = 100

_LINE_BREAK = re.compile(r"\s*\n\s*")


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of one cell and how many columns and rows it takes."""

    text: str
    columns: int = 1
    rows: int = 1


def markdown_table(header: Sequence[Sequence[Cell]], body: Sequence[Sequence[Cell]]) -> str:
    """Return header rows, which are merged into one, and body rows as a Markdown table."""
    heads, rows = _grid(header, is_header=True), _grid(body, is_header=False)
    width = max((max(row, default=-1) + 1 for row in (*heads, *rows)), default=0)
    if not width:
        return ""
    head = {column: _merged([row.get(column, "") for row in heads]) for column in range(width)}
    lines = [_row(line, width) for line in (head, *rows)]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def _merged(texts: Sequence[str]) -> str:
    return " ".join(dict.fromkeys(filter(None, texts)))


def _row(cells: dict[int, str], width: int) -> str:
    texts = (cells.get(column, "").replace("|", "\\|") for column in range(width))
    return f"| {' | '.join(texts)} |"


def _grid(rows: Sequence[Sequence[Cell]], *, is_header: bool) -> list[dict[int, str]]:
    """Place the cells of rows in columns, and repeat those that span."""
    grid: list[dict[int, str]] = []
    spanning: dict[int, Cell] = {}
    for row in rows:
        line = {column: cell.text for column, cell in spanning.items()}
        spanning = {
            column: Cell(cell.text, rows=cell.rows - 1)
            for column, cell in spanning.items()
            if cell.rows > 1
        }
        column = 0
        for cell in row:
            while column in line:
                column += 1
            for offset in range(cell.columns):
                text = cell.text if is_header or not offset else ""
                line[column + offset] = text
                if cell.rows > 1:
                    repeated = text if len(text) <= REPEATED_CHARS else ""
                    spanning[column + offset] = Cell(repeated, rows=cell.rows - 1)
        grid.append(line)
    return grid


def table(renderer: Renderer, node: nodes.Element) -> list[Block]:
    """Render a table after its caption."""
    blocks: list[Block] = []
    for child in node.children:
        if isinstance(child, nodes.title):
            blocks += caption(renderer, child)
        elif isinstance(child, nodes.tgroup):
            blocks += _group(renderer, child)
    return blocks


def _group(renderer: Renderer, node: nodes.Element) -> list[Block]:
    links: dict[str, None] = {}
    header = [row for head in node.children if isinstance(head, nodes.thead) for row in head]
    body = [row for part in node.children if isinstance(part, nodes.tbody) for row in part]
    heads = [_cells(renderer, row, links) for row in header]
    rows = [_cells(renderer, row, links) for row in body]
    text = markdown_table(heads, rows)
    return [Block(BlockKind.TABLE, text, tuple(links))] if text else []


def _cells(renderer: Renderer, row: nodes.Element, links: dict[str, None]) -> list[Cell]:
    cells = []
    for entry in row.children:
        if is_hidden(entry):
            continue
        blocks = renderer.blocks(entry.children)
        links.update(dict.fromkeys(link for block in blocks for link in block.links))
        text = " ".join(map(_cell_text, blocks))
        columns, rows = int(entry.get("morecols", 0)) + 1, int(entry.get("morerows", 0)) + 1
        cells.append(Cell(text, columns, rows))
    return cells


def _cell_text(block: Block) -> str:
    """Return a block on one line: a cell cannot hold more."""
    lines = block.text.split("\n")
    if block.kind is BlockKind.CODE:
        return " ".join(code_span(line.strip()) for line in lines[1:-1] if line.strip())
    if block.kind is BlockKind.TABLE:
        return " ".join((lines[0], *lines[2:])).replace("\\|", "|")
    return _LINE_BREAK.sub(" ", block.text)
