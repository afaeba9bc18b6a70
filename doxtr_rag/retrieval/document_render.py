"""A document's outline and a section between its neighbours, as Markdown.

TypeScript renders the same (`pi_extension/document-render.ts`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from doxtr_rag.retrieval.documents import DocumentSections, SectionText
from doxtr_rag.retrieval.lines import (
    CHUNK_CAP,
    WORDS,
    Cap,
    is_within_caps,
    line,
    paragraphs,
    quoted,
)
from doxtr_rag.retrieval.records import HitRecord
from doxtr_rag.retrieval.render import head

SECTION_CAP = Cap(chars=30_000, lines=1_200)
NEIGHBOUR_CAP = Cap(CHUNK_CAP.chars, CHUNK_CAP.lines // 2)
MAX_LEVEL = 8
KEPT_SHARE = 0.9
CUT_OUTLINE = "[cut: {count} more sections that did not fit]"


def render_outline(found: DocumentSections, url: str) -> str:
    """Return the sections of a document in reading order, with what kb_read calls them."""
    title = "\n".join(
        [
            f"## {line(found.document)}",
            f"Project: {line(found.project)}, store: {line(found.store)}",
            *([f"Source: {line(url)}"] if url else []),
        ]
    )
    entries = [_entry(section) for section in found.sections]
    kept = len(entries)
    whole = _outline(title, entries, kept)
    while kept and not is_within_caps(whole):
        kept = math.floor(kept * KEPT_SHARE)
        whole = _outline(title, entries, kept)
    return whole


def render_reading(section: HitRecord, before: HitRecord | None, after: HitRecord | None) -> str:
    """Return a section whole, with the starts of the sections before and after it."""
    return paragraphs(
        [
            WORDS["preamble"],
            _section(section, "### ", SECTION_CAP),
            _section(before, "#### Before it: ", NEIGHBOUR_CAP) if before else "",
            _section(after, "#### After it: ", NEIGHBOUR_CAP) if after else "",
        ]
    )


def _outline(title: str, entries: Sequence[str], kept: int) -> str:
    left = len(entries) - kept
    gap = CUT_OUTLINE.replace("{count}", str(left)) if left else ""
    return paragraphs([WORDS["preamble"], title, "\n".join(entries[:kept]), gap])


def _entry(section: SectionText) -> str:
    level = min(max(len(section.first.breadcrumb) - 1, 0), MAX_LEVEL)
    title, anchor = line(section.title), section.first.anchor
    name = f"section {line(anchor)}" if anchor else f'section "{title}"'
    return f"{'  ' * level}- {title} ({name}, {len(section.text)} characters)"


def _section(hit: HitRecord, heading: str, cap: Cap) -> str:
    return paragraphs([head(hit, heading), quoted(hit["text"], cap)])
