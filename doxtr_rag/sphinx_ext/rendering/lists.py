"""Lists of every kind as Markdown text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from docutils import nodes

from doxtr_rag.core.documents import Block
from doxtr_rag.sphinx_ext.rendering.enumerators import enumerator
from doxtr_rag.sphinx_ext.rendering.inline import code_span, marked
from doxtr_rag.sphinx_ext.rendering.layout import item, labelled, packed, text_block, with_links
from doxtr_rag.sphinx_ext.rendering.renderer import Handler, Renderer
from doxtr_rag.sphinx_ext.rendering.visibility import is_hidden, one_line


def bullet_list(renderer: Renderer, node: nodes.Element) -> list[Block]:
    """Render an unordered list."""
    return packed(item("-", renderer.blocks(child.children)) for child in _visible(node))


def enumerated_list(renderer: Renderer, node: nodes.Element) -> list[Block]:
    """Render an ordered list with the enumerators that its page shows."""
    return packed(
        item(enumerator(node, number), renderer.blocks(child.children))
        for number, child in enumerate(_visible(node), int(node.get("start", 1)))
    )


def definition_list_item(renderer: Renderer, node: nodes.Element) -> list[Block]:
    """Render terms in bold, their definition indented below them."""
    head, links = _terms(renderer, node)
    definitions = [child.children for child in node.children if isinstance(child, nodes.definition)]
    body = renderer.blocks(chain.from_iterable(definitions))
    return item("-", with_links(labelled(head, body, "\n"), links, 0))


def _definition_list(renderer: Renderer, node: nodes.Element) -> list[Block]:
    return packed(definition_list_item(renderer, child) for child in _visible(node))


def _terms(renderer: Renderer, node: nodes.Element) -> tuple[str, list[str]]:
    head = ""
    links: list[str] = []
    for child in node.children:
        text, targets = renderer.inline.render(child.children)
        if isinstance(child, nodes.term):
            head += f"{', ' if head else ''}{marked('**', text)}"
        elif isinstance(child, nodes.classifier):
            head += f" : {marked('*', text)}"
        else:
            continue
        links += targets
    return head, links


def _field_list(renderer: Renderer, node: nodes.Element) -> list[Block]:
    return packed(_field(renderer, child) for child in _visible(node))


def _field(renderer: Renderer, node: nodes.Element) -> list[Block]:
    name = next((child for child in node.children if isinstance(child, nodes.field_name)), None)
    bodies = [child for child in node.children if isinstance(child, nodes.field_body)]
    label = "" if name is None else f"**{one_line(name)}:**"
    siblings = list(chain.from_iterable(body.children for body in bodies))
    return labelled(label, renderer.blocks(siblings), label_separator(siblings))


def label_separator(siblings: list[nodes.Node]) -> str:
    """Return what follows a label: a paragraph goes on in its line, anything else below it."""
    first = next((node for node in siblings if not is_hidden(node)), None)
    return " " if isinstance(first, nodes.paragraph | nodes.Inline | nodes.Text) else "\n"


def _option_list(renderer: Renderer, node: nodes.Element) -> list[Block]:
    return packed(item("-", _option(renderer, child)) for child in _visible(node))


def _option(renderer: Renderer, node: nodes.Element) -> list[Block]:
    options = ", ".join(
        code_span("".join(part.astext() for part in option.children))
        for option in node.findall(nodes.option)
    )
    described = [child for child in node.children if isinstance(child, nodes.description)]
    body = renderer.blocks(chain.from_iterable(child.children for child in described))
    return labelled(options, body, "\n")


def _line_block(renderer: Renderer, node: nodes.Element) -> list[Block]:
    lines = list(_lines(renderer, node, ""))
    text = "\n".join(line for line, _ in lines)
    return text_block(text, chain.from_iterable(links for _, links in lines))


def _lines(
    renderer: Renderer, node: nodes.Element, indent: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for child in _visible(node):
        if isinstance(child, nodes.line_block):
            yield from _lines(renderer, child, indent + "  ")
        else:
            text, links = renderer.inline.render(child.children)
            yield (indent + text if text else ""), links


def _visible(node: nodes.Element) -> Iterator[nodes.Element]:
    return (child for child in node.children if not is_hidden(child))


HANDLERS: dict[str, Handler] = {
    "bullet_list": bullet_list,
    "definition_list": _definition_list,
    "definition_list_item": definition_list_item,
    "enumerated_list": enumerated_list,
    "field": _field,
    "field_list": _field_list,
    "line_block": _line_block,
    "option_list": _option_list,
}
