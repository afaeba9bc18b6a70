r"""JSON text that every reader takes: half of a surrogate pair is legal JSON and no character.

Strict readers refuse the whole text for one `\ud800`.
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    r"""
      \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}    # a whole pair
    | (?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})
    | \\.                                                           # an escaped backslash too
    """,
    re.VERBOSE,
)


def without_half_pairs(json_text: str) -> str:
    r"""Return JSON text in which every lone surrogate escape is `\ufffd`."""
    return _ESCAPE.sub(lambda found: r"\ufffd" if found["half"] else found[0], json_text)
