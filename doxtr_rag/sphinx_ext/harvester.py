"""Turns a resolved doctree into the sections of its document; the tree is only read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from docutils import nodes

from doxtr_rag.core.documents import Block, Section
from doxtr_rag.core.errors import CorruptDocumentError, DoxtrRagError
from doxtr_rag.sphinx_ext.rendering import asides, listings, lists, outline
from doxtr_rag.sphinx_ext.rendering.inline import InlineText
from doxtr_rag.sphinx_ext.rendering.links import InternalLinks
from doxtr_rag.sphinx_ext.rendering.renderer import Handler, Renderer, Shown

__all__ = ["InternalLinks", "caption_labels", "harvest"]

NO_LABELS: Mapping[str, str] = {}

_HANDLERS: dict[str, Handler] = {
    **asides.HANDLERS,
    **listings.HANDLERS,
    **lists.HANDLERS,
    **outline.HANDLERS,
}


def harvest(
    doctree: nodes.document,
    docname: str,
    *,
    resolve_link: Callable[[str], str | None] | None = None,
    labels: Mapping[str, str] = NO_LABELS,
    show_todos: bool = False,
) -> tuple[Section, ...]:
    """Return the sections of a document as a reader of its page sees them.

    `resolve_link` turns a reference URI into `document#anchor`, None for one that leaves the
    build. `labels` are the numbers before captions, by id of figure, table or listing. A todo
    stays in the tree when its page does not show it, so it is left out unless `show_todos` is set.

    Raises:
        CorruptDocumentError: A node could not be rendered, or the tree is nested too deeply.
    """
    inline = InlineText(docname, resolve_link)
    renderer = Renderer(_HANDLERS, inline, Shown(labels, show_todos))
    try:
        return _sections(renderer, doctree)
    except DoxtrRagError:
        raise
    except Exception as error:
        reason = f"its doctree cannot be rendered: {type(error).__name__}: {error}"
        raise CorruptDocumentError(docname, reason) from error


def _sections(renderer: Renderer, doctree: nodes.document) -> tuple[Section, ...]:
    title = outline.page_title(doctree)
    renderer.path = (title,) if title else ()
    body = [node for node in doctree.children if not isinstance(node, nodes.title)]
    blocks: list[Block] = renderer.blocks(body)
    opening = Section("", renderer.path, tuple(blocks))
    return tuple(chain([opening] if blocks else [], renderer.sections))


def caption_labels(
    numbers: Mapping[str, Mapping[str, Sequence[int]]], formats: Mapping[str, str]
) -> dict[str, str]:
    """Return id -> "Fig. 1.2", from a document's figure numbers and `numfig_format`."""
    return {
        anchor: formats[kind] % ".".join(map(str, number))
        for kind, anchors in numbers.items()
        if kind in formats
        for anchor, number in anchors.items()
    }
