"""Sizes as a person compares them."""

from __future__ import annotations

KIB = 1024


def shown_size(size: int) -> str:
    """Return a number of bytes with a unit a person can compare."""
    amount, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if amount < KIB:
            break
        amount, unit = amount / KIB, larger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
