"""What can go wrong with a request, as a status, a kind and a sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from doxtr_rag.core.errors import DoxtrRagError

T = TypeVar("T")

STATUS_OF_KIND = {
    "identity_mismatch": 409,
    "index_not_built": 404,
    "config": 500,
}
UNAVAILABLE = 503
LONGEST_VECTOR = 1e18
"""The square of a longer one does not fit into float32, and no cosine comes of it."""


class RequestError(DoxtrRagError):
    """A request that cannot be answered."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


def status_of(error: DoxtrRagError) -> int:
    """Return the HTTP status of a foreseen failure."""
    if isinstance(error, RequestError):
        return error.status
    return STATUS_OF_KIND.get(error.kind, UNAVAILABLE)


def parsed(body: bytes) -> dict[str, Any]:
    """Return a request body, which has to be one JSON object with finite numbers.

    Raises:
        RequestError: 400.
    """
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise RequestError(400, "bad_json", "the body is not JSON: send one object") from error
    if not isinstance(value, dict):
        raise RequestError(400, "bad_json", "the body is no object: send one JSON object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def field(body: Mapping[str, Any], name: str, kind: type[T], default: T | None = None) -> T:
    """Return a field of the body.

    Raises:
        RequestError: 400, it is missing or of another type.
    """
    value = body.get(name, default)
    is_number_meant_otherwise = isinstance(value, bool) and kind is not bool
    if not isinstance(value, kind) or is_number_meant_otherwise:
        raise RequestError(400, "bad_input", f"{name}: expected {_WORDS[kind]}")
    return value


_WORDS: Mapping[type, str] = {
    str: "a text",
    int: "a whole number",
    list: "a list",
    dict: "an object",
}


def between(body: Mapping[str, Any], name: str, lowest: int, highest: int) -> int:
    """Return a whole number of the body that lies in a range.

    Raises:
        RequestError: 400.
    """
    value = field(body, name, int)
    if not lowest <= value <= highest:
        raise RequestError(
            400, "bad_input", f"{name}: expected a whole number from {lowest} to {highest}"
        )
    return value


def texts(body: Mapping[str, Any], name: str, most: int) -> list[str]:
    """Return a list of texts of the body.

    Raises:
        RequestError: 400.
    """
    values = field(body, name, list)
    if len(values) > most or not all(isinstance(value, str) for value in values):
        raise RequestError(400, "bad_input", f"{name}: expected at most {most} texts")
    return values


def finite_numbers(values: object, name: str) -> list[float]:
    """Return a list of finite numbers.

    Raises:
        RequestError: 400.
    """
    is_list = isinstance(values, list)
    numbers = values if isinstance(values, list) else []
    if not is_list or not all(_is_finite(number) for number in numbers):
        raise RequestError(400, "bad_input", f"{name}: expected a list of finite numbers")
    return [float(number) for number in numbers]


def require_measurable(numbers: Sequence[float], name: str) -> None:
    """Refuse a vector that has no length.

    Raises:
        RequestError: 400, a component is not finite, or the vector is too long.
    """
    if not math.hypot(*numbers) < LONGEST_VECTOR:
        raise RequestError(400, "bad_input", f"{name}: expected finite numbers of usual size")


def _is_finite(number: object) -> bool:
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    try:
        return is_number and math.isfinite(number)  # type: ignore[arg-type]
    except OverflowError:
        return False
