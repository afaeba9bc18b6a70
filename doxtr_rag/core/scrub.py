"""Secrets taken out of text; the patterns are shared with TypeScript."""

from __future__ import annotations

import re
from functools import cache

from doxtr_rag.core.contract import contract


@cache
def _rules() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple(
        (
            re.compile(rule["pattern"], re.IGNORECASE if rule.get("ignore_case") else 0),
            _template(rule["replacement"]),
        )
        for rule in contract("scrub")["rules"]
    )


def _template(replacement: str) -> str:
    r"""Return a replacement as Python writes it: `$1` is `\g<1>`."""
    return re.sub(r"\$(\d)", r"\\g<\1>", replacement.replace("\\", r"\\"))


def scrub(text: str) -> str:
    """Return a text with every secret replaced by `[scrubbed:<rule>]`; idempotent."""
    for pattern, replacement in _rules():
        text = pattern.sub(replacement, text)
    return text
