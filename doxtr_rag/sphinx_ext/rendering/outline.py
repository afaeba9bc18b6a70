"""What opens a section of its own: headings, described objects, glossary terms, needs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from docutils import nodes
from sphinx import addnodes

from doxtr_rag.core.documents import Block
from doxtr_rag.sphinx_ext.rendering import tables
from doxtr_rag.sphinx_ext.rendering.inline import code_span
from doxtr_rag.sphinx_ext.rendering.layout import packed, text_block
from doxtr_rag.sphinx_ext.rendering.lists import definition_list_item
from doxtr_rag.sphinx_ext.rendering.renderer import Handler, Heading, Renderer
from doxtr_rag.sphinx_ext.rendering.signatures import signature_name, signature_text
from doxtr_rag.sphinx_ext.rendering.visibility import is_hidden, one_line


def page_title(document: nodes.document) -> str:
    """Return the title of the page: the document's own, else that of its first section."""
    title = next((node for node in document.children if isinstance(node, nodes.title)), None)
    if title is None:
        section = next((node for node in document.children if _is_section(node)), None)
        title = None if section is None else _title(section)
    return "" if title is None else one_line(title)


def _is_section(node: nodes.Node) -> bool:
    return isinstance(node, nodes.section) and "system-messages" not in node["classes"]


def _title(section: nodes.Element) -> nodes.Element | None:
    return next((node for node in section.children if isinstance(node, nodes.title)), None)


def _section(renderer: Renderer, node: nodes.Element) -> list[Block]:
    if not _is_section(node):
        return []
    title = _title(node)
    text = "" if title is None else one_line(title)
    links = () if title is None else renderer.inline.links(title)
    anchor = next(iter(node["ids"]), "")
    body = [child for child in node.children if child is not title]
    heading = Heading(anchor, text, text, links)
    if _opens_page(node):
        renderer.page_section(heading, lambda: renderer.blocks(body))
    else:
        renderer.section(heading, lambda: renderer.blocks(body))
    return []


def _opens_page(node: nodes.Element) -> bool:
    document = node.parent
    if not isinstance(document, nodes.document) or _title(document) is not None:
        return False
    return next(filter(_is_section, document.children)) is node


def _described(renderer: Renderer, node: nodes.Element) -> list[Block]:
    signatures = [child for child in node.children if isinstance(child, addnodes.desc_signature)]
    body = [child for child in node.children if not isinstance(child, addnodes.desc_signature)]
    opening = next((signature for signature in signatures if signature["ids"]), None)
    if opening is None:
        return [*_signature_lines(renderer, signatures), *renderer.blocks(body)]
    others = [signature for signature in signatures if signature is not opening]

    def content() -> list[Block]:
        blocks = [*_signature_lines(renderer, others), *renderer.blocks(body)]
        return blocks or _signature_lines(renderer, [opening])

    links = renderer.inline.links(opening)
    heading = Heading(opening["ids"][0], signature_text(opening), signature_name(opening), links)
    renderer.section(heading, content)
    return []


def _signature_lines(renderer: Renderer, signatures: Sequence[nodes.Element]) -> list[Block]:
    return packed(
        text_block(code_span(signature_text(signature)), renderer.inline.links(signature))
        for signature in signatures
    )


def _glossary(renderer: Renderer, node: nodes.Element) -> list[Block]:
    blocks: list[Block] = []
    for child in node.children:
        if isinstance(child, nodes.definition_list):
            blocks += packed(_glossary_entry(renderer, entry) for entry in child.children)
        else:
            blocks += renderer.blocks([child])
    return blocks


def _glossary_entry(renderer: Renderer, node: nodes.Element) -> list[Block]:
    if is_hidden(node):
        return []
    terms = [child for child in node.children if isinstance(child, nodes.term)]
    opening = next((term for term in terms if term["ids"]), None)
    if opening is None:
        return definition_list_item(renderer, node)
    others = ", ".join(f"**{one_line(term)}**" for term in terms if term is not opening)
    body = [child for child in node.children if not isinstance(child, nodes.term)]
    title = one_line(opening)
    heading = Heading(opening["ids"][0], title, title, renderer.inline.links(opening))
    renderer.section(
        heading, lambda: [*text_block(others), *renderer.blocks(body)] or text_block(title)
    )
    return []


def _table(renderer: Renderer, node: nodes.Element) -> list[Block]:
    if "need" in node["classes"] and node["ids"]:
        return _need(renderer, node)
    return tables.table(renderer, node)


def _need(renderer: Renderer, node: nodes.Element) -> list[Block]:
    """Open a section for a need of sphinx-needs: a table whose rows are head, meta and content."""
    rows = list(node.findall(nodes.row))
    anchor = node["ids"][0]
    title = (one_line(rows[0]) if rows else "") or anchor
    entries = chain.from_iterable(row.children for row in rows[1:])
    body = list(chain.from_iterable(entry.children for entry in entries))
    links = renderer.inline.links(rows[0]) if rows else ()
    renderer.section(Heading(anchor, title, title, links), lambda: renderer.blocks(body))
    return []


HANDLERS: dict[str, Handler] = {
    "desc": _described,
    "glossary": _glossary,
    "section": _section,
    "table": _table,
}
