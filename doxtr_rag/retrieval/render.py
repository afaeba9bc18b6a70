"""An answer as an agent reads it: cited Markdown, marked as content, scrubbed and capped.

TypeScript renders the same (`pi_extension/render.ts`): `contract/README.md` states the format,
`contract/vectors/render.json` holds both to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from doxtr_rag.core.ports import Degradation
from doxtr_rag.retrieval.lines import LIMITS, WORDS, is_within_caps, line, paragraphs, quoted
from doxtr_rag.retrieval.records import HitRecord

NOTHING_ASKED = WORDS["nothing_asked"]


def render_answer(hits: Sequence[HitRecord], degraded: Sequence[Degradation]) -> str:
    """Return hits and what they had to do without, at most 50,000 characters and 2,000 lines."""
    notes = "\n".join(
        f"Note: {line(d.detail)} ({line(d.code)})" for d in degraded[: LIMITS["max_notes"]]
    )
    if not hits:
        return paragraphs([WORDS["nothing_found"], notes])
    blocks = [_hit(number, hit) for number, hit in enumerate(hits, start=1)]
    for kept in range(len(blocks), -1, -1):
        left = len(blocks) - kept
        gap = WORDS["cut_hits"].replace("{count}", str(left)) if left else ""
        whole = paragraphs([WORDS["preamble"], *blocks[:kept], gap, notes])
        if is_within_caps(whole):
            break
    return whole


def head(hit: HitRecord, heading: str) -> str:
    """Return the lines that say what a hit is and where it comes from."""
    lines = [
        heading + (line(hit["title"]) or line(hit["document"])),
        line(" > ".join(hit["breadcrumb"])),
        f"Source: {_source(hit)}",
        f"Cite as: {line(hit['citation'])}",
        f"Scope: {line(hit['scope'])}, store: {line(hit['store'])}, "
        f"document: {line(hit['document'])}",
    ]
    return "\n".join(filter(None, lines))


def _hit(number: int, hit: HitRecord) -> str:
    return paragraphs([head(hit, f"### {number}. "), quoted(hit["text"])])


def _source(hit: HitRecord) -> str:
    url, locator = hit["url"], hit["locator"]
    if url and not url.startswith("#"):
        return line(url, LIMITS["max_url_chars"])
    place = line(hit["document"])
    if not locator or locator["value"] == "":
        return place
    end = "" if locator["end"] is None else f"-{locator['end']}"
    return f"{place}, " + line(f"{locator['kind']} {locator['value']}{end}")
