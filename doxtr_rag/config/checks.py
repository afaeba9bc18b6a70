"""What a value must look like: each check names every problem of one value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from urllib.parse import urlsplit

from doxtr_rag.core.identity import slug
from doxtr_rag.core.paths import normal_part

Check = Callable[[str, object], list[str]]
"""`(name as the user wrote it, value) -> problems`, each a line that needs no context."""

HIGHEST_PORT = 65535
SHOWN_CHARACTERS = 80
LONGEST_NAME = 255
"""Bytes that file systems take for the name of a file."""

PROFILE_NAME = re.compile(r"[^\s/:@]+")
USER_INFORMATION = re.compile(r"(?<=//)[^/@\s]*@")
QUERY = re.compile(r"(?<=\?)[^'\"\s]+")
CHROMA_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]")
SURROGATE = re.compile(r"[\ud800-\udfff]")
UNUSABLE_IN_PATHS = re.compile(r"[\x00-\x1f\ud800-\udfff]")
DEFAULT_PORTS = {"http": 80, "https": 443}


def problem(name: str, expected: str, value: object) -> str:
    """Return one line: the name, what was expected, and the value without credentials."""
    shown = QUERY.sub("***", USER_INFORMATION.sub("***@", _shown(value)))
    if len(shown) > SHOWN_CHARACTERS:
        shown = f"{shown[:SHOWN_CHARACTERS]}…"
    return f"{name}: expected {expected} (got {shown})"


def _shown(value: object) -> str:
    """Return a value for a message, a dictionary without its values: one may be a secret."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: …" for key in value) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return repr(value)


def unknown(name: str, known: list[str]) -> str:
    """Return one line about a name that means nothing, with the nearest one that does."""
    near = get_close_matches(name, known, n=1)
    return f"{name}: unknown" + (f", did you mean {near[0]}?" if near else "")


def expects(expected: str, accepts: Callable[[object], bool]) -> Check:
    """Return a check with one condition."""
    return lambda name, value: [] if accepts(value) else [problem(name, expected, value)]


def optional(check: Check) -> Check:
    """Return a check that accepts None as well."""
    return lambda name, value: [] if value is None else check(name, value)


def one_of(*allowed: str) -> Check:
    """Return a check that accepts only the given words."""
    return expects(f"one of {', '.join(allowed)}", lambda value: value in allowed)


def whole_number(expected: str, lowest: int | None = None, highest: int | None = None) -> Check:
    """Return a check for whole numbers between two bounds, both included."""

    def accepts(value: object) -> bool:
        if not isinstance(value, int) or isinstance(value, bool):
            return False
        return (lowest is None or value >= lowest) and (highest is None or value <= highest)

    return expects(expected, accepts)


def _is_words(value: object, accepts: Callable[[str], bool]) -> bool:
    if not isinstance(value, (list, tuple)):
        return False
    return all(isinstance(word, str) and accepts(word) for word in value)


def words(expected: str, accepts: Callable[[str], bool], *, at_least: int = 0) -> Check:
    """Return a check for a list of strings."""
    return expects(
        expected,
        lambda value: _is_words(value, accepts) and len(value) >= at_least,  # type: ignore[arg-type]
    )


def is_text(value: object) -> bool:
    """Accept a string with something to read in it."""
    return isinstance(value, str) and bool(value.strip()) and not SURROGATE.search(value)


def is_folder_name(value: object) -> bool:
    """Accept a path of the file system, without scheme and control characters."""
    if not isinstance(value, str) or not value.strip():
        return False
    if "://" in value or UNUSABLE_IN_PATHS.search(value):
        return False
    return all(len(name.encode()) <= LONGEST_NAME for name in re.split(r"[/\\]", value))


def is_path_part(value: str) -> bool:
    """Accept the name of one file or folder, without wildcards."""
    return bool(normal_part(value)) and not re.search(r"[/\\*?\x00\ud800-\udfff]", value)


def is_http_uri(value: object) -> bool:
    """Accept an http or https address without credentials in it."""
    if not isinstance(value, str) or UNUSABLE_IN_PATHS.search(value):
        return False
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        return False
    is_complete = parts.scheme in {"http", "https"} and bool(parts.hostname) and port != 0
    return is_complete and "@" not in parts.netloc


def server_of(value: object) -> tuple[str, int] | None:
    """Return host and port of a Chroma server's address; None for what is no such address.

    Chroma clients know of no path, so that an address has none either.
    """
    if not is_http_uri(value):
        return None
    parts = urlsplit(str(value))
    is_bare = parts.path in ("", "/") and not (parts.query or parts.fragment)
    if not is_bare or parts.hostname is None:
        return None
    return parts.hostname, parts.port or DEFAULT_PORTS[parts.scheme]


flag = expects("True or False", lambda value: isinstance(value, bool))
port = whole_number(f"a port from 1 to {HIGHEST_PORT}", 1, HIGHEST_PORT)
path = expects("the path of a file or folder", is_folder_name)
paths = words("a list of folders", is_folder_name)
http_uri = expects("an http or https address without user and password", is_http_uri)
store_uri = expects(
    "a folder, or in http mode an http or https address without user and password",
    lambda value: is_folder_name(value) or is_http_uri(value),
)
project_name = expects(
    "a name with at least one letter or digit",
    lambda value: isinstance(value, str) and bool(slug(value)),
)
chroma_name = expects(
    "3 to 512 letters, digits, dots, hyphens or underscores",
    lambda value: isinstance(value, str) and bool(CHROMA_NAME.fullmatch(value)),
)
profile_name = expects(
    "the name of an embedding profile",
    lambda value: is_text(value) and bool(PROFILE_NAME.fullmatch(str(value))),
)
names = words("a list with at least one name", is_text, at_least=1)
path_parts = words("a list of file or folder names without separators or *", is_path_part)

MOUNT_FIELDS: Mapping[str, Check] = {
    "path": path,
    "scope": one_of("SHARED_ORG", "LOCAL_PRIVATE"),
    "name": project_name,
    "include": words("a list of patterns", is_text),
    "exclude": words("a list of patterns", is_text),
}


def mounts(name: str, value: object) -> list[str]:
    """Accept a list of dictionaries with a path and known fields."""
    if not isinstance(value, (list, tuple)):
        return [problem(name, "a list of dictionaries", value)]
    return [line for at, item in enumerate(value) for line in _mount(f"{name}[{at}]", item)]


def _mount(name: str, item: object) -> list[str]:
    if not isinstance(item, Mapping):
        return [problem(name, 'a dictionary such as {"path": "…"}', item)]
    lines = [] if "path" in item else [problem(name, 'a dictionary with "path"', item)]
    for field, value in item.items():
        check = MOUNT_FIELDS.get(field)
        if check is None:
            near = unknown(str(field), list(MOUNT_FIELDS)).partition(": ")[2]
            lines.append(f"{name}[{field!r}]: {near}")
        else:
            lines += check(f"{name}[{field!r}]", value)
    return lines
