"""`doxtr-rag.env`: the variables that a shell sets before it starts Pi, beside the user's own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

MODEL_FOLDER = "DOXTR_RAG_BGE_M3_ONNX_DIR"
ENDPOINTS = "DOXTR_RAG_ENDPOINTS"
SCOPE = "DOXTR_RAG_AGENT_SCOPE"
EMBED_URL = "DOXTR_RAG_EMBED_URL"
HEADER = "# Written by doxtr-rag install-agent pi. Load it in the shell that starts Pi.\n"
EMBED_URL_LINES = (
    "# The server publishes its own address; name another one only for a model served elsewhere.\n",
    f"# export {EMBED_URL}=http://127.0.0.1:8519/embed\n",
)
EXAMPLES = {
    MODEL_FOLDER: "/path/to/bge-m3",
    ENDPOINTS: "/path/to/project/.doxtr/endpoints.json",
    SCOPE: "shared",
}
_ASSIGNED = re.compile(r"\s*(?:export\s+)?(\w+)=")
_COMMENTED = re.compile(r"\s*#+\s*(?:export\s+)?(\w+)=")
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\n\Z")


def merged(
    held: str | None, folder: Path | None, endpoints: Path | None, scope: str | None = None
) -> str:
    """Return the file's text with our lines as they should be; a value not known stays as it is."""
    statements = list(_statements(held or ""))
    if HEADER not in statements:
        statements.insert(0, HEADER)
    for name, value in ((MODEL_FOLDER, folder), (ENDPOINTS, endpoints), (SCOPE, scope)):
        statements = _set(statements, name, value)
    if not any(EMBED_URL in (_assigned(s), _commented(s)) for s in statements):
        statements += EMBED_URL_LINES
    return "".join(_whole_lines(statements))


def without_ours(held: str) -> str:
    """Return what the user wrote into the file; a line of ours that was edited counts as theirs."""
    ours = {HEADER, *EMBED_URL_LINES, *(_line(name, None) for name in EXAMPLES)}
    kept = [s for s in _statements(held) if s not in ours and _assigned(s) not in EXAMPLES]
    return "".join(kept)


def assigned(held: str, name: str) -> str | None:
    """Return the value that a file gives a variable; None where it gives none."""
    lines = [statement for statement in _statements(held) if _assigned(statement) == name]
    if not lines or not _is_whole(lines[-1]):
        return None
    words = shlex.split(lines[-1], comments=True)
    return next(word.partition("=")[2] for word in words if word.startswith(f"{name}="))


def values(
    folder: Path | None, endpoints: Path | None, scope: str | None = None
) -> Mapping[str, Path | str]:
    """Return the variables that are known, for showing."""
    known = {MODEL_FOLDER: folder, ENDPOINTS: endpoints, SCOPE: scope}
    return {name: value for name, value in known.items() if value is not None}


def _set(statements: list[str], name: str, value: Path | str | None) -> list[str]:
    """Return the statements with one assignment of a variable, where it stood if it did."""
    active = [at for at, s in enumerate(statements) if _assigned(s) == name]
    if active and value is None:
        return statements
    commented = [at for at, s in enumerate(statements) if _commented(s) == name]
    replaced = active or commented[:1]
    kept = [s for at, s in enumerate(statements) if at not in replaced]
    kept.insert(replaced[0] if replaced else len(kept), _line(name, value))
    return kept


def _line(name: str, value: Path | str | None) -> str:
    if value is None:
        return f"# export {name}={EXAMPLES[name]}\n"
    return f"export {name}={shlex.quote(str(value))}\n"


def _whole_lines(statements: list[str]) -> Iterator[str]:
    """Yield the statements, each on lines of its own."""
    for statement in statements:
        yield statement if statement.endswith("\n") else f"{statement}\n"


def _statements(text: str) -> Iterator[str]:
    """Split at the ends of lines that are not inside quotes."""
    pending = ""
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        pending += line
        if _is_whole(pending):
            yield pending
            pending = ""
    if pending:
        yield pending


def _is_whole(statement: str) -> bool:
    if statement.lstrip().startswith("#"):
        return True
    if _CONTINUED.search(statement):
        return False
    try:
        shlex.split(statement, comments=True)
    except ValueError:  # a quote is open
        return False
    return True


def _assigned(statement: str) -> str:
    found = _ASSIGNED.match(statement)
    return found[1] if found else ""


def _commented(statement: str) -> str:
    found = _COMMENTED.match(statement)
    return found[1] if found else ""
