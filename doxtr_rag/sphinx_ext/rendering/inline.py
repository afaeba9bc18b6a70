"""Inline nodes as Markdown text, with the documents they link to.

Text is stored to be quoted, so nothing of it is escaped: markup is added only where the text
cannot be mistaken for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from docutils import nodes
from sphinx import addnodes

from doxtr_rag.sphinx_ext.rendering.signatures import signature_text
from doxtr_rag.sphinx_ext.rendering.visibility import is_hidden, plain_text

_SOFT_BREAK = re.compile(r"[ \t]*\n[ \t]*")
_BACKTICKS = re.compile(r"`+")
_LINE_BREAK = "sd_line_break"


def code_span(text: str) -> str:
    """Return the text as inline code, whatever backticks it contains."""
    text = _SOFT_BREAK.sub(" ", text)
    if not text.strip():
        return text
    fence = "`" * (max(map(len, _BACKTICKS.findall(text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def marked(marker: str, text: str) -> str:
    """Put emphasis markers around the text, unless they could not be told from its own."""
    core = text.strip()
    if not core or marker in core or core.startswith(marker[0]):
        return text
    before, _, after = text.partition(core)
    return f"{before}{marker}{core}{marker}{after}"


class InlineText:
    """Renders runs of inline nodes of one document."""

    def __init__(self, docname: str, resolve_link: Callable[[str], str | None] | None) -> None:
        self._docname = docname
        self._resolve_link = resolve_link

    def render(self, run: Iterable[nodes.Node]) -> tuple[str, tuple[str, ...]]:
        """Return the text of a run on one line, and the `document#anchor`s it links to."""
        links: list[str] = []
        text = "".join(self._node(node, links) for node in run)
        return _SOFT_BREAK.sub(" ", text).strip(), tuple(dict.fromkeys(links))

    def links(self, node: nodes.Element) -> tuple[str, ...]:
        """Return the `document#anchor`s that a node and its descendants link to."""
        found = (self._link(reference) for reference in node.findall(nodes.reference))
        return tuple(dict.fromkeys(filter(None, found)))

    def _link(self, reference: nodes.Element) -> str | None:
        if "refid" in reference:
            return f"{self._docname}#{reference['refid']}"
        if "refuri" in reference and self._resolve_link is not None:
            return self._resolve_link(reference["refuri"])
        return None

    def _node(self, node: nodes.Node, links: list[str]) -> str:
        if isinstance(node, nodes.Text):
            return str(node.astext())
        if is_hidden(node):
            return ""
        if isinstance(node, nodes.reference):
            return self._reference(node, links)
        verbatim = _verbatim(node)
        if verbatim is not None:
            links.extend(self.links(node))
            return verbatim
        return _decorated(node, "".join(self._node(child, links) for child in node.children))

    def _reference(self, node: nodes.Element, links: list[str]) -> str:
        link = self._link(node)
        if link is not None:
            links.append(link)
        if "sd-hide-link-text" in node.get("classes", ()):
            return ""
        return "".join(self._node(child, links) for child in node.children)


def _verbatim(node: nodes.Element) -> str | None:
    """Return the Markdown of a node whose content is no markup; None for any other node."""
    if isinstance(node, nodes.literal):
        return code_span(plain_text(node))
    if isinstance(node, addnodes.desc_inline):
        return code_span(signature_text(node))
    if isinstance(node, nodes.math):
        return f"${plain_text(node).strip()}$"
    if isinstance(node, nodes.image):
        alt = str(node.get("alt", ""))
        return f"![{alt}]" if alt else ""
    if isinstance(node, nodes.footnote_reference | nodes.citation_reference):
        return f"[{plain_text(node)}]"
    return None if node.children else _attribute_text(node)


def _attribute_text(leaf: nodes.Element) -> str:
    if type(leaf).__name__ == _LINE_BREAK:
        return " "
    source = leaf.get("code") or leaf.get("uml")
    return code_span(str(source)) if source else str(leaf.get("alt") or "")


def _decorated(node: nodes.Element, text: str) -> str:
    if isinstance(node, nodes.strong):
        return marked("**", text)
    if isinstance(node, nodes.emphasis | nodes.title_reference):
        return marked("*", text)
    if isinstance(node, nodes.superscript):
        return f"^{text}"
    if isinstance(node, nodes.abbreviation) and node.get("explanation"):
        return f"{text} ({node['explanation']})"
    return text if isinstance(node, nodes.Inline) else f" {text} "
