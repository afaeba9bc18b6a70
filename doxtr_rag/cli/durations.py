"""Spans of time as a person reads them."""

from __future__ import annotations

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def shown_duration(seconds: float | None) -> str:
    """Return a span of time in its largest unit, seconds with one decimal."""
    if seconds is None:
        return "an unknown time"
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"
