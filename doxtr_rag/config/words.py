"""From the text of an environment variable to its value; a ValueError says what was expected."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from doxtr_rag.config import checks

NOTHING: Mapping[str, str] = MappingProxyType({})
YES = frozenset({"1", "true", "yes", "on"})
NO = frozenset({"0", "false", "no", "off"})
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def switch(text: str) -> bool:
    """Read a switch (retrieval R55).

    Raises:
        ValueError: it is another word.
    """
    word = text.lower()
    if word not in YES | NO:
        raise ValueError("one of 1, 0, true, false, yes, no, on, off")
    return word in YES


def number(lowest: int, highest: int | None = None) -> Callable[[str], int]:
    """Return a reader of whole numbers between two bounds, both included."""
    expected = f"a whole number from {lowest} " + ("up" if highest is None else f"to {highest}")

    def read(text: str) -> int:
        value = number_or_text(text)
        if isinstance(value, str) or value < lowest or (highest is not None and value > highest):
            raise ValueError(expected)
        return value

    return read


def number_or_text(text: str) -> int | str:
    """Read a whole number; give anything else back."""
    is_number = WHOLE_NUMBER.fullmatch(text) and len(text) < checks.SHOWN_CHARACTERS
    return int(text) if is_number else text


def seconds(text: str) -> float:
    """Read a duration.

    Raises:
        ValueError: it is no number above 0.
    """
    expected = "a number of seconds above 0"
    try:
        value = float(text)
    except ValueError as error:
        raise ValueError(expected) from error
    if not 0 < value < math.inf:
        raise ValueError(expected)
    return value


def folder(text: str) -> Path:
    """Read a path; a leading ~ is the home folder.

    Raises:
        ValueError: it cannot be one.
    """
    if not checks.is_folder_name(text):
        raise ValueError("a path")
    return Path(text).expanduser() if text.startswith("~/") else Path(text)


def address(text: str) -> str:
    """Read an address.

    Raises:
        ValueError: it is not http or https, or carries credentials.
    """
    if not checks.is_http_uri(text):
        raise ValueError("an http or https address without user and password")
    return text


def addresses(text: str) -> tuple[str, ...]:
    """Read addresses, comma separated.

    Raises:
        ValueError: one is not http or https, or carries credentials.
    """
    return tuple(address(item) for item in listed(text))


def listed(text: str) -> tuple[str, ...]:
    """Read a comma-separated list."""
    return tuple(item.strip() for item in text.split(",") if item.strip())


def headers(text: str) -> Mapping[str, str]:
    """Read `k=v;k=v`.

    Raises:
        ValueError: a part has no `=`, or its name is no header name.
    """
    pairs = [part.partition("=") for part in text.split(";") if part.strip()]
    for name, equals, value in pairs:
        if not equals or not HEADER_NAME.fullmatch(name.strip()) or not value.isprintable():
            raise ValueError("headers as k=v;k=v")
    return MappingProxyType({name.strip(): value.strip() for name, _, value in pairs})


def preprocessing(text: str) -> str:
    """Read which hooks run (hooks H58).

    Raises:
        ValueError: it is another word.
    """
    word = text.lower()
    if word in {"default", "on", "1", "true", "yes"}:
        return "default"
    if word in {"off", "0", "false", "no"}:
        return "off"
    if word != "approved":
        raise ValueError("one of default, approved, off")
    return word
