"""What a command hands back: data for machines, a way to show it to people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rich.console import Console

Json: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one command.

    `data` is the envelope's; `show` prints the same for a person; `error` names what is incomplete
    when `exit_code` is not 0.
    """

    data: Json
    show: Callable[[Console], None]
    exit_code: int = 0
    error: str = ""
    message: str = ""
