"""Length-sorted batches under a budget of padded tokens: lengths in, batches of indices out."""

from __future__ import annotations

from collections.abc import Sequence

SMALL_BATCH = 256
"""Padded tokens below which one batch more costs as much as the padding it saves."""

FULLNESS = 0.75
"""The least share of a row that must be a text's own tokens, in batches that are not small."""


def distinct(texts: Sequence[str]) -> dict[str, list[int]]:
    """Return each different text with the places where it stands, in order of first sight."""
    places: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        places.setdefault(text, []).append(index)
    return places


def longest_first(lengths: Sequence[int]) -> list[int]:
    """Return the indices of `lengths`, longest first, so that neighbours pad each other little."""
    return sorted(range(len(lengths)), key=lambda index: -lengths[index])


def next_batch(
    order: Sequence[int],
    start: int,
    lengths: Sequence[int],
    budget: int,
    fixed_rows: int | None = None,
) -> Sequence[int]:
    """Return the next stretch of a longest-first order that fits the budget; never empty.

    It ends early where padding would outgrow what a larger batch saves, as in a short run of texts
    of very different lengths. A model with fixed rows computes all of them whatever they hold.
    """
    if fixed_rows is not None:
        return order[start : start + fixed_rows]
    widest = max(1, lengths[order[start]])
    limit = min(max(1, budget // widest), len(order) - start)
    rows = 1
    while rows < limit and (
        rows * widest < SMALL_BATCH or lengths[order[start + rows]] >= FULLNESS * widest
    ):
        rows += 1
    return order[start : start + rows]
