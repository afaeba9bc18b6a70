"""Which nodes of a resolved doctree a reader of the page does not see."""

from __future__ import annotations

from functools import cache

from docutils import nodes

_SHOWN = {"target", "autosummary_table"}
_HIDDEN = {
    # docutils marks comments, substitution definitions, pending and index nodes as Invisible.
    "Invisible",
    "colspec",
    "decoration",
    "meta",
    "raw",
    "sd_tab_input",
    "system_message",
    "tabular_col_spec",
    "toctree",
    "transition",
    "viewcode_anchor",
    # Sphinx resolves these; one that is left over was not decided to be shown.
    "ifconfig",
    "only",
}
_HIDDEN_CLASSES = {"headerlink", "needs_collapse", "viewcode-back", "viewcode-link"}
_MACHINE_CLASS = "todo-source"
"""A list of todos shows where each stands: a path of the machine that built the page."""


def is_hidden(node: nodes.Node) -> bool:
    """Tell whether a page does not show the node's text."""
    if _is_hidden_kind(type(node).__mro__):
        return True
    if not isinstance(node, nodes.Element):
        return False
    classes = node.get("classes", ())
    if isinstance(node, nodes.topic):
        return "contents" in classes
    if isinstance(node, nodes.paragraph):
        return _MACHINE_CLASS in classes
    return isinstance(node, nodes.inline) and not _HIDDEN_CLASSES.isdisjoint(classes)


@cache
def _is_hidden_kind(ancestry: tuple[type, ...]) -> bool:
    for name in (base.__name__ for base in ancestry):
        if name in _SHOWN or name in _HIDDEN:
            return name in _HIDDEN
    return False


def plain_text(node: nodes.Node) -> str:
    """Return the text a reader sees, without markup and with its white space."""
    if is_hidden(node):
        return ""
    if isinstance(node, nodes.Text):
        return str(node.astext())
    if isinstance(node, nodes.image):
        return str(node.get("alt", ""))
    return "".join(map(plain_text, node.children))


def one_line(node: nodes.Node) -> str:
    """Return the text a reader sees on a single line, as titles need it."""
    return " ".join(plain_text(node).split())
