"""Code, equations and the sources of diagrams."""

from __future__ import annotations

from docutils import nodes

from doxtr_rag.core.documents import Block
from doxtr_rag.sphinx_ext.rendering.layout import code_block, text_block, with_links
from doxtr_rag.sphinx_ext.rendering.renderer import Handler, Renderer
from doxtr_rag.sphinx_ext.rendering.visibility import plain_text

_NO_LANGUAGE = {"default", "none"}
_DIAGRAM_LANGUAGES = {
    "graphviz": "dot",
    "mermaid": "mermaid",
    "plantuml": "plantuml",
    "d2": "d2",
    "d2_node": "d2",
    "D2Node": "d2",
    "diagrams": "python",
}


def _literal_block(renderer: Renderer, node: nodes.Element) -> list[Block]:
    language = str(node.get("language", ""))
    blocks = code_block(plain_text(node), "" if language in _NO_LANGUAGE else language)
    return with_links(blocks, renderer.inline.links(node), 0)


def _doctest_block(renderer: Renderer, node: nodes.Element) -> list[Block]:
    return with_links(code_block(plain_text(node), "pycon"), renderer.inline.links(node), 0)


def _math_block(_: Renderer, node: nodes.Element) -> list[Block]:
    return text_block(f"$$\n{plain_text(node).strip()}\n$$")


def _production_list(renderer: Renderer, node: nodes.Element) -> list[Block]:
    names = [str(child.get("tokenname", "")) for child in node.children]
    rules = [plain_text(child).rstrip() for child in node.children]
    # Before Sphinx 8.2 the name of a token is an attribute only.
    if not any("::=" in rule for rule in rules):
        width = max(map(len, names), default=0)
        heads = [f"{name.ljust(width)} ::= " if name else " " * (width + 5) for name in names]
        rules = [head + rule.lstrip() for head, rule in zip(heads, rules, strict=True)]
    return with_links(code_block("\n".join(rules)), renderer.inline.links(node), 0)


def _diagram(renderer: Renderer, node: nodes.Element) -> list[Block]:
    source = node.get("code") or node.get("uml")
    if not source:
        return renderer.leaf(node)
    names = (base.__name__ for base in type(node).__mro__)
    language = next(_DIAGRAM_LANGUAGES[name] for name in names if name in _DIAGRAM_LANGUAGES)
    return code_block(str(source), language)


def _inheritance_diagram(renderer: Renderer, node: nodes.Element) -> list[Block]:
    names = [plain_text(child).strip() for child in node.children]
    return text_block(", ".join(filter(None, names)), renderer.inline.links(node))


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_DIAGRAM_LANGUAGES, _diagram),
    "doctest_block": _doctest_block,
    "inheritance_diagram": _inheritance_diagram,
    "literal_block": _literal_block,
    "math_block": _math_block,
    "productionlist": _production_list,
}
