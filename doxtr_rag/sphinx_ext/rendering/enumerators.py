"""The numbers and letters of ordered lists."""

from __future__ import annotations

from docutils import nodes

_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
    (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def enumerator(node: nodes.Element, number: int) -> str:
    """Return what an enumerated list shows before its item of that number."""
    kind = str(node.get("enumtype", "arabic"))
    text = str(number)
    if kind.endswith("roman"):
        text = _roman(number)
    elif kind.endswith("alpha"):
        text = _letters(number)
    text = text.upper() if kind.startswith("upper") else text
    return f"{node.get('prefix', '')}{text}{node.get('suffix', '.') or '.'}"


def _roman(number: int) -> str:
    text = ""
    for value, numeral in _ROMAN:
        count, number = divmod(number, value)
        text += numeral * count
    return text


def _letters(number: int) -> str:
    text = ""
    while number > 0:
        number, letter = divmod(number - 1, len(_ALPHABET))
        text = _ALPHABET[letter] + text
    return text
