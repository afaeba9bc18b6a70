"""The files that Python and TypeScript share: patterns, field names, limits, test vectors."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

FOLDER = "pi_extension/contract"


@cache
def contract(name: str) -> Any:
    """Return a shared file as JSON, by its name without `.json`."""
    text = files("doxtr_rag").joinpath(f"{FOLDER}/{name}.json").read_text(encoding="utf-8")
    return json.loads(text)
