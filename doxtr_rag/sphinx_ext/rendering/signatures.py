"""Signatures of described objects as one readable line."""

from __future__ import annotations

from docutils import nodes
from sphinx import addnodes

from doxtr_rag.sphinx_ext.rendering.visibility import is_hidden


def signature_text(signature: nodes.Element) -> str:
    """Return the signature on one line, with the brackets and commas a page shows."""
    return " ".join(_text(signature).split())


def signature_name(signature: nodes.Element) -> str:
    """Return the name a signature declares; the whole signature when it declares several."""
    names = list(signature.findall(addnodes.desc_name))
    if len(names) != 1:
        return signature_text(signature)
    qualifiers = "".join(_text(node) for node in signature.findall(addnodes.desc_addname))
    return f"{qualifiers}{_text(names[0])}".strip()


def _text(node: nodes.Node) -> str:
    if isinstance(node, nodes.Text):
        return str(node.astext())
    if is_hidden(node):
        return ""
    if isinstance(node, addnodes.desc_parameterlist):
        return f"({_parameters(node)})"
    if isinstance(node, addnodes.desc_type_parameter_list):
        return f"[{_parameters(node)}]"
    text = "".join(map(_text, node.children))
    if isinstance(node, addnodes.desc_returns):
        return f" -> {text}"
    return f"{text} " if isinstance(node, addnodes.desc_signature_line) else text


def _parameters(group: nodes.Element) -> str:
    text = ""
    for child in group.children:
        comma = ", " if text else ""
        if isinstance(child, addnodes.desc_optional):
            text += f"[{comma}{_parameters(child)}]"
        else:
            text += comma + _text(child)
    return text
