"""Walks a doctree: finds the renderer of each node, groups inline runs, opens sections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from docutils import nodes

from doxtr_rag.core.documents import Block, Section
from doxtr_rag.sphinx_ext.rendering.layout import code_block, text_block, with_links
from doxtr_rag.sphinx_ext.rendering.visibility import is_hidden

if TYPE_CHECKING:
    from doxtr_rag.sphinx_ext.rendering.inline import InlineText

Handler: TypeAlias = "Callable[[Renderer, nodes.Element], list[Block]]"


@dataclass(frozen=True, slots=True)
class Heading:
    """What opens a section: `name` stands for it in the titles of the sections inside it."""

    anchor: str
    title: str
    name: str
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page shows that its doctree does not say."""

    caption_labels: Mapping[str, str]
    todos: bool


class Renderer:
    """Renders the nodes of one document, and collects its sections in reading order.

    Handlers are found by class name along the inheritance of a node, so that nodes of extensions
    that are not installed cost nothing. A node without one is what its children are.
    """

    def __init__(self, handlers: Mapping[str, Handler], inline: InlineText, shown: Shown) -> None:
        self.inline = inline
        self.shown = shown
        self.sections: list[Section] = []
        self.path: tuple[str, ...] = ()
        self._handlers = handlers
        self._found: dict[type, Handler | None] = {}
        self._textless_links: list[str] = []

    def blocks(self, siblings: Iterable[nodes.Node]) -> list[Block]:
        """Render sibling nodes; neighbouring inline nodes form a paragraph."""
        result: list[Block] = []
        run: list[nodes.Node] = []
        for node in siblings:
            if is_hidden(node):
                continue
            if self._is_inline(node):
                run.append(node)
                continue
            result += self.paragraph(run)
            run = []
            result += self._block(node)
        return result + self.paragraph(run)

    def paragraph(self, run: Sequence[nodes.Node]) -> list[Block]:
        """Render inline nodes as one TEXT block."""
        if not run:
            return []
        text, links = self.inline.render(run)
        if not text:
            self._textless_links += links
        return text_block(text, links)

    def section(self, heading: Heading, content: Callable[[], list[Block]]) -> None:
        """Collect a section; those that open inside its content come after it."""
        outer, outer_links = self.path, self._textless_links
        position = len(self.sections)
        self.sections.append(Section(heading.anchor, (*outer, heading.title), ()))
        self.path = (*outer, heading.name)
        self._textless_links = []
        blocks = with_links(content(), heading.links, 0)
        with_links(blocks, self._textless_links, -1)
        self.sections[position] = replace(self.sections[position], blocks=tuple(blocks))
        self.path, self._textless_links = outer, outer_links

    def page_section(self, heading: Heading, content: Callable[[], list[Block]]) -> None:
        """Collect the section whose title is the page's own: its path starts with itself."""
        outer, self.path = self.path, ()
        self.section(heading, content)
        self.path = outer

    def _block(self, node: nodes.Element) -> list[Block]:
        handler = self._handler(type(node))
        if handler is not None:
            return handler(self, node)
        if node.children:
            return self.blocks(node.children)
        return self.leaf(node)

    def leaf(self, node: nodes.Element) -> list[Block]:
        """Render a node without children by what its attributes hold."""
        source = node.get("code") or node.get("uml")
        return code_block(str(source)) if source else text_block(str(node.get("alt") or ""))

    def _is_inline(self, node: nodes.Node) -> bool:
        if isinstance(node, nodes.Text):
            return True
        if not isinstance(node, nodes.Inline) or self._handler(type(node)) is not None:
            return False
        return bool(node.children) or not (node.get("code") or node.get("uml"))

    def _handler(self, kind: type) -> Handler | None:
        if kind not in self._found:
            names = (base.__name__ for base in kind.__mro__)
            self._found[kind] = next(
                (self._handlers[name] for name in names if name in self._handlers), None
            )
        return self._found[kind]
