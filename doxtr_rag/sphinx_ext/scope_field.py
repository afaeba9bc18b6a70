"""What a page says of its own scope, and traces of having tried to: doubt is no affirmation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from pathlib import Path

from docutils import nodes

from doxtr_rag.core.scope import Scope, ScopeSignal

SCOPE_FIELD = "access_scope"
DOCUMENT_SIGNAL = "document"
ALIKE = 0.85
"""Similarity from which a field's name is taken for a slip of the pen."""

_STATED = re.compile(r"\W*access[ _-]?scope\W*:", re.IGNORECASE)
_FRONT_MATTER = re.compile(r"\s*---[ \t]*\n(.*?)(\n(---|\.\.\.)\s|\Z)", re.DOTALL)


def is_scope_field(name: str) -> bool:
    """Say whether a field's name is the one, in any case and with hyphens too."""
    return _normal(name) == SCOPE_FIELD


def is_alike(name: str) -> bool:
    """Say whether a field's name was probably meant to be the one."""
    return SequenceMatcher(None, _normal(name), SCOPE_FIELD).ratio() >= ALIKE


def _normal(name: str) -> str:
    return name.strip().casefold().replace("-", "_").replace(" ", "_")


def metadata_signals(metadata: Mapping[str, object]) -> tuple[ScopeSignal, ...]:
    """Return what the fields at the top of a page say."""
    signals = []
    for name, value in metadata.items():
        word = str(value).strip()
        if is_scope_field(name):
            scope = next((scope for scope in Scope if scope.value == word.upper()), None)
            known = "" if scope else f", which is neither {' nor '.join(s.value for s in Scope)}"
            reason = f"{SCOPE_FIELD} says {word!r}{known}"
            signals.append(ScopeSignal(DOCUMENT_SIGNAL, scope, reason))
        elif is_alike(name):
            reason = f"the field {name!r} looks like {SCOPE_FIELD}"
            signals.append(ScopeSignal(DOCUMENT_SIGNAL, None, reason))
    return tuple(signals)


def misplaced_fields(
    doctree: nodes.document, source: Path, metadata: Mapping[str, object]
) -> tuple[str, ...]:
    """Return why a page may have meant to say something of its scope where nothing reads it."""
    found = []
    if any(_is_statement(node) for node in doctree.findall(nodes.Element)):
        found.append(f"{SCOPE_FIELD} stands below the top of the page, where it has no effect")
    if not any(map(is_scope_field, metadata)) and _STATED.search(_front_matter(source)):
        found.append(f"{SCOPE_FIELD} stands in front matter that cannot be read")
    return tuple(found)


def _is_statement(node: nodes.Element) -> bool:
    if isinstance(node, nodes.field_name):
        return is_alike(node.astext())
    if isinstance(node, nodes.meta):
        return is_alike(str(node.get("name", "")))
    if isinstance(node, (nodes.paragraph, nodes.title)):
        return bool(_STATED.match(node.astext()))
    return False


def _front_matter(source: Path) -> str:
    try:
        text = source.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    block = _FRONT_MATTER.match(text)
    return block[1] if block else ""
