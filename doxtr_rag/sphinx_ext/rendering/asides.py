"""Admonitions, quotes, captions, notes and other text with a label."""

from __future__ import annotations

from collections.abc import Sequence

from docutils import nodes
from sphinx.locale import admonitionlabels

from doxtr_rag.core.documents import Block
from doxtr_rag.sphinx_ext.rendering.inline import marked
from doxtr_rag.sphinx_ext.rendering.layout import labelled, quoted, text_block
from doxtr_rag.sphinx_ext.rendering.lists import label_separator
from doxtr_rag.sphinx_ext.rendering.renderer import Handler, Renderer
from doxtr_rag.sphinx_ext.rendering.visibility import one_line


def _admonition(renderer: Renderer, node: nodes.Element) -> list[Block]:
    names = (base.__name__ for base in type(node).__mro__)
    label = next(str(admonitionlabels[name]) for name in names if name in admonitionlabels)
    return labelled(f"**{label}:**", renderer.blocks(node.children), label_separator(node.children))


def _todo(renderer: Renderer, node: nodes.Element) -> list[Block]:
    return renderer.blocks(node.children) if renderer.shown.todos else []


def bold(renderer: Renderer, node: nodes.Element) -> list[Block]:
    """Render a label or title of its own in bold."""
    text, links = renderer.inline.render(node.children)
    return text_block(marked("**", text), links)


def caption(renderer: Renderer, node: nodes.Element) -> list[Block]:
    """Render the caption of a figure, table or listing, with the number its page shows."""
    text, links = renderer.inline.render(node.children)
    labels = renderer.shown.caption_labels
    number = next((labels[name] for name in node.parent["ids"] if name in labels), "")
    return text_block(marked("**", f"{number} {text}".strip()), links)


def _figure(renderer: Renderer, node: nodes.Element) -> list[Block]:
    captions = [child for child in node.children if isinstance(child, nodes.caption)]
    others = [child for child in node.children if not isinstance(child, nodes.caption)]
    return renderer.blocks([*captions, *others])


def _block_quote(renderer: Renderer, node: nodes.Element) -> list[Block]:
    return quoted(renderer.blocks(node.children))


def _attribution(renderer: Renderer, node: nodes.Element) -> list[Block]:
    text, links = renderer.inline.render(node.children)
    return text_block(f"— {text}", links)


def _note_with_label(renderer: Renderer, node: nodes.Element) -> list[Block]:
    label = next((child for child in node.children if isinstance(child, nodes.label)), None)
    body: Sequence[nodes.Node] = [child for child in node.children if child is not label]
    head = "" if label is None else f"[{one_line(label)}]"
    return labelled(head, renderer.blocks(body), " ")


def _container(renderer: Renderer, node: nodes.Element) -> list[Block]:
    if "sd-card-title" in node.get("classes", ()):
        return bold(renderer, node)
    return renderer.blocks(node.children)


_KINDS = (
    "attention", "caution", "danger", "error", "hint", "important", "note", "seealso", "tip",
    "warning",
)  # fmt: skip

HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_KINDS, _admonition),
    "attribution": _attribution,
    "block_quote": _block_quote,
    "caption": caption,
    "centered": bold,
    "citation": _note_with_label,
    "container": _container,
    "dropdown_title": bold,
    "figure": _figure,
    "footnote": _note_with_label,
    "rubric": bold,
    "sd_tab_label": bold,
    "subtitle": bold,
    "title": bold,
    "todo_node": _todo,
}
