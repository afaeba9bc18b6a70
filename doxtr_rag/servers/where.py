"""Chroma's filter language over metadata and texts, evaluated record by record."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from doxtr_rag.servers.failures import RequestError

Predicate = Callable[[Mapping[str, Any], str], bool]
"""Says whether a record, given its metadata and its text, is wanted."""

MAX_DEPTH = 16
MAX_TERMS = 1000

_ORDERED: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def where_metadata(where: object, depth: int = 0) -> Predicate:
    """Return the predicate of a `where` filter.

    Raises:
        RequestError: 400, it is no filter, or too large a one.
    """
    key, value = _single(where, depth)
    if key in {"$and", "$or"}:
        return _combined(key, value, depth, where_metadata)
    if isinstance(value, dict):
        ((name, operand),) = _one_operator(value)
        return _comparison(key, name, operand)
    return _comparison(key, "$eq", value)


def where_text(where: object, depth: int = 0) -> Predicate:
    """Return the predicate of a `where_document` filter.

    Raises:
        RequestError: 400, it is no filter, or too large a one.
    """
    key, value = _single(where, depth)
    if key in {"$and", "$or"}:
        return _combined(key, value, depth, where_text)
    if not isinstance(value, str) or not value:
        raise _refused(f"{key}: expected a text")
    if key == "$contains":
        return lambda _, text: value in text
    if key == "$not_contains":
        return lambda _, text: value not in text
    # No $regex: a pattern that backtracks would hold up every thread of the server.
    raise _refused(f"{key}: this server has $contains, $not_contains, $and and $or")


def _single(where: object, depth: int) -> tuple[str, Any]:
    if depth > MAX_DEPTH:
        raise _refused(f"nested more than {MAX_DEPTH} times")
    if not isinstance(where, dict) or len(where) != 1:
        raise _refused("expected an object with exactly one key")
    ((key, value),) = where.items()
    return str(key), value


def _one_operator(value: Mapping[str, Any]) -> Any:
    if len(value) != 1:
        raise _refused("expected exactly one operator")
    return value.items()


def _combined(
    key: str, value: object, depth: int, read: Callable[[object, int], Predicate]
) -> Predicate:
    if not isinstance(value, list) or not 1 < len(value) <= MAX_TERMS:
        raise _refused(f"{key}: expected a list of two or more filters")
    parts = [read(part, depth + 1) for part in value]
    joined = all if key == "$and" else any
    return lambda metadata, text: joined(part(metadata, text) for part in parts)


def _comparison(key: str, name: str, operand: Any) -> Predicate:
    if name in {"$in", "$nin"}:
        if not isinstance(operand, list) or not operand or len(operand) > MAX_TERMS:
            raise _refused(f"{key}: {name} expects a list of values")
        return lambda metadata, _: _is_one_of(metadata.get(key), operand) is (name == "$in")
    if not isinstance(operand, (str, int, float)):
        raise _refused(f"{key}: expected a text, a number or a truth value")
    if name in {"$eq", "$ne"}:
        return lambda metadata, _: _is_one_of(metadata.get(key), [operand]) is (name == "$eq")
    compare = _ORDERED.get(name)
    if compare is None or isinstance(operand, (str, bool)):
        raise _refused(f"{key}: {name} is no operator for {type(operand).__name__}")
    return lambda metadata, _: _is_number(metadata.get(key)) and compare(metadata[key], operand)


def _is_one_of(value: object, operands: list[Any]) -> bool:
    # True is not 1, as in Chroma.
    return any(
        value == other and isinstance(value, bool) is isinstance(other, bool) for other in operands
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _refused(what: str) -> RequestError:
    return RequestError(400, "InvalidArgumentError", f"where: {re.sub(r'[^ -~]', '?', what)}")
