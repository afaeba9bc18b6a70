"""An answer as an agent reads it: cited Markdown, marked as content, scrubbed and capped.

TypeScript renders the same (`pi_extension/render.ts`): `contract/README.md` states the format,
`contract/vectors/render.json` holds both to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from doxtr_rag.core.contract import contract
from doxtr_rag.core.display import without_controls
from doxtr_rag.core.ports import Degradation
from doxtr_rag.core.scrub import scrub
from doxtr_rag.retrieval.documents import DocumentSections
from doxtr_rag.retrieval.records import HitRecord

WHITE_SPACE = re.compile("[ \t\n\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
LINE_ENDS = str.maketrans({"\u2028": "\n", "\u2029": "\n"})

_LIMITS: dict[str, int] = contract("metadata")["limits"]
_WORDS: dict[str, str] = contract("metadata")["rendering"]


def render_answer(hits: Sequence[HitRecord], degraded: Sequence[Degradation]) -> str:
    """Return hits and what they had to do without, at most 50,000 characters and 2,000 lines."""
    notes = "\n".join(
        f"Note: {_line(d.detail)} ({_line(d.code)})" for d in degraded[: _LIMITS["max_notes"]]
    )
    if not hits:
        return _stacked([_WORDS["nothing_found"], notes])
    blocks = [_hit(number, hit) for number, hit in enumerate(hits, start=1)]
    return _fitting(blocks, notes, _WORDS["cut_hits"])


def render_outline(found: DocumentSections) -> str:
    """Return the sections of a document, one a line, indented by their level."""
    first = min(len(s.first.breadcrumb) for s in found.sections)
    lines = [
        f"{'  ' * (len(s.first.breadcrumb) - first)}- {_line(s.title)} "
        f"(section: {_line(s.first.anchor) or _line(s.title)})"
        for s in found.sections
    ]
    head = f"Document {_line(found.document)} of the {_line(found.store)} store:"
    shown = lines[: _LIMITS["max_lines"] // 2]
    left = len(lines) - len(shown)
    return _stacked([head, "\n".join(shown), f"[cut: {left} more sections]" if left else ""])


def render_sections(sections: Sequence[tuple[str, str, str]]) -> str:
    """Return sections, each `(title, url, text)`, as quoted blocks."""
    blocks = [
        f"### {_line(title)}\nSource: {_line(url, _LIMITS['max_url_chars'])}\n\n{_quoted(text)}"
        for title, url, text in sections
    ]
    return _fitting(blocks, "", "[cut: {count} more sections that did not fit]")


def _fitting(blocks: Sequence[str], notes: str, cut: str) -> str:
    """Return the preamble, as many blocks as the limits let through, and the notes."""
    for kept in range(len(blocks), -1, -1):
        left = len(blocks) - kept
        said = cut.replace("{count}", str(left)) if left else ""
        whole = _stacked([_WORDS["preamble"], *blocks[:kept], said, notes])
        is_short = len(whole) <= _LIMITS["max_chars"]
        if is_short and whole.count("\n") < _LIMITS["max_lines"]:
            break
    return whole


def _hit(number: int, hit: HitRecord) -> str:
    lines = [
        f"### {number}. {_line(hit['title']) or _line(hit['document'])}",
        _line(" > ".join(hit["breadcrumb"])),
        f"Source: {_source(hit)}",
        f"Cite as: {_line(hit['citation'])}",
        f"Scope: {_line(hit['scope'])}, store: {_line(hit['store'])}, "
        f"document: {_line(hit['document'])}",
    ]
    return "\n".join(filter(None, lines)) + "\n\n" + _quoted(hit["text"])


def _source(hit: HitRecord) -> str:
    url, locator = hit["url"], hit["locator"]
    if url and not url.startswith("#"):
        return _line(url, _LIMITS["max_url_chars"])
    place = _line(hit["document"])
    if not locator or locator["value"] == "":
        return place
    end = "" if locator["end"] is None else f"-{locator['end']}"
    return f"{place}, " + _line(f"{locator['kind']} {locator['value']}{end}")


def _quoted(text: str) -> str:
    """Return a text as a quoted block that nothing in it can end."""
    clean = _clean(text).translate(LINE_ENDS).strip("\n")
    shown = clean[: _LIMITS["max_chunk_chars"]]
    shown = "\n".join(shown.split("\n")[: _LIMITS["max_chunk_lines"]])
    lines = [f"> {line}" if line else ">" for line in shown.split("\n")]
    if len(shown) < len(clean):
        lines.append(_WORDS["cut_chunk"].replace("{count}", str(len(clean) - len(shown))))
    return "\n".join(lines)


def _line(text: str, limit: int = _LIMITS["max_field_chars"]) -> str:
    """Return a text as one line of at most `limit` characters."""
    line = WHITE_SPACE.sub(" ", _clean(text)).strip(" ")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _clean(text: str) -> str:
    return scrub(without_controls(text))


def _stacked(blocks: Sequence[str]) -> str:
    return "\n\n".join(filter(None, blocks))
