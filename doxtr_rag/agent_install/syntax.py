"""Edits one entry of a JSON or TOML file and keeps the rest of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

Entry: TypeAlias = dict[str, object]
Address: TypeAlias = tuple[str, str]
"""The key that servers stand under, and the name of one."""

_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_USUAL_INDENT = "  "


class Syntax(Protocol):
    """How a file of one syntax is read and edited; unusable text is a ValueError."""

    def read(self, text: str) -> dict[str, object]:
        """Return everything that the text says."""

    def put(self, text: str, address: Address, entry: Entry) -> str:
        """Return the text with an entry that it does not have yet."""

    def drop(self, text: str, address: Address) -> str:
        """Return the text without an entry, and without the key above once that is empty."""

    def is_blank(self, text: str) -> bool:
        """Say whether nothing is left that anyone could miss."""


class JsonSyntax:
    """JSON: order of keys and indentation are kept."""

    def read(self, text: str) -> dict[str, object]:
        """Return the object of the text.

        Raises:
            ValueError: it is no JSON object, or has a key twice.
        """
        if not text.strip():
            return {}
        try:
            found = json.loads(text, object_pairs_hook=_without_repetition)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        if not isinstance(found, dict):
            raise ValueError("not a JSON object")  # noqa: TRY004 - unusable text is a ValueError
        return found

    def put(self, text: str, address: Address, entry: Entry) -> str:
        """Return the text with the entry last among the servers."""
        return _dumped(with_entry(self.read(text), address, entry), text)

    def drop(self, text: str, address: Address) -> str:
        """Return the text without the entry."""
        return _dumped(without_entry(self.read(text), address), text)

    def is_blank(self, text: str) -> bool:
        """Say whether the object is empty."""
        return not self.read(text)


class TomlSyntax:
    """TOML: comments and layout are kept."""

    def read(self, text: str) -> dict[str, object]:
        """Return the tables of the text.

        Raises:
            ValueError: it is no TOML.
        """
        return _toml(text).unwrap()

    def put(self, text: str, address: Address, entry: Entry) -> str:
        """Return the text with the entry as a table at its end, else within an inline table.

        Raises:
            ValueError: the text cannot take it.
        """
        wanted = with_entry(self.read(text), address, entry)
        parts = [text if not text or text.endswith("\n") else f"{text}\n", _table(address, entry)]
        appended = ("\n" if text.strip() else "").join(parts)
        if _says(appended, wanted):
            return appended
        document: Any = _toml(text)
        try:
            document[address[0]][address[1]] = _inline(entry)
            edited = tomlkit.dumps(document)
        except (TOMLKitError, TypeError, ValueError) as error:
            raise ValueError(f"{address[0]} cannot take another table ({error})") from error
        return _confirmed(edited, wanted)

    def drop(self, text: str, address: Address) -> str:
        """Return the text without the entry.

        Raises:
            ValueError: it cannot be taken out alone.
        """
        wanted = without_entry(self.read(text), address)
        document: Any = _toml(text)
        container = document[address[0]]
        del container[address[1]]
        if not container:
            del document[address[0]]
        return _confirmed(tomlkit.dumps(document), wanted)

    def is_blank(self, text: str) -> bool:
        """Say whether not even a comment is left."""
        return not text.strip()


JSON = JsonSyntax()
TOML = TomlSyntax()


def entry_at(found: Mapping[str, object], address: Address) -> object | None:
    """Return an entry, or None.

    Raises:
        ValueError: what stands above it is no table of servers.
    """
    return _servers(found, address).get(address[1])


def with_entry(found: Mapping[str, object], address: Address, entry: Entry) -> dict[str, object]:
    """Return a copy with the entry.

    Raises:
        ValueError: what stands above it is no table of servers.
    """
    return {**found, address[0]: {**_servers(found, address), address[1]: entry}}


def without_entry(found: Mapping[str, object], address: Address) -> dict[str, object]:
    """Return a copy without the entry, and without the key above when that is empty then."""
    servers = _servers(found, address)
    container = {name: held for name, held in servers.items() if name != address[1]}
    replaced = {key: container if key == address[0] else held for key, held in found.items()}
    return {key: held for key, held in replaced.items() if held or key != address[0]}


def snippet(syntax: Syntax, address: Address, entry: Entry) -> str:
    """Return the entry as a file of its own."""
    return syntax.put("", address, entry)


def _servers(found: Mapping[str, object], address: Address) -> Mapping[str, object]:
    servers = found.get(address[0], {})
    if not isinstance(servers, Mapping):
        raise ValueError(f"{address[0]} holds no servers")  # noqa: TRY004 - see Syntax
    return servers


def _without_repetition(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(n for n in names if names.count(n) > 1)!r} is there twice")
    return found


def _dumped(found: Mapping[str, object], like: str) -> str:
    """Return JSON laid out as another text is."""
    indent = _INDENT.search(like)
    layout = indent[1] if indent else _USUAL_INDENT
    end = "\n" if like.endswith("\n") or not like.strip() else ""
    is_escaped = bool(like.strip()) and like.isascii()
    text = json.dumps(found, indent=layout, ensure_ascii=is_escaped) + end
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair can only be written escaped
        return json.dumps(found, indent=layout) + end
    return text


def _toml(text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise ValueError(str(error)) from error


def _table(address: Address, entry: Entry) -> str:
    inner = tomlkit.table()
    inner.update(entry)
    outer = tomlkit.table(is_super_table=True)
    outer.append(address[1], inner)
    document = tomlkit.document()
    document.append(address[0], outer)
    return tomlkit.dumps(document)


def _inline(entry: Entry) -> InlineTable:
    table = tomlkit.inline_table()
    table.update(entry)
    return table


def _says(text: str, wanted: Mapping[str, object]) -> bool:
    try:
        return bool(_toml(text).unwrap() == wanted)
    except ValueError:
        return False


def _confirmed(text: str, wanted: Mapping[str, object]) -> str:
    """Return an edited text that says what it should, and nothing else."""
    if not _says(text, wanted):
        raise ValueError("its layout cannot be edited without harm")
    return text
