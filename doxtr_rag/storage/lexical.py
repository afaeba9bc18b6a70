"""Full-text search of a corpus: SQLite FTS5, porter stems, BM25."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass

MAX_TERMS = 64
MAX_TERM_CHARS = 256
_WORD = re.compile(r"\w+")
_STOP_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at be by can do does for from how i if in is it of on or that the this "
        "to was what when where which who why will with you"
    )
)


@dataclass(frozen=True, slots=True)
class FieldWeights:
    """How much a term counts by where it stands."""

    title: float = 4.0
    breadcrumb: float = 2.0
    text: float = 1.0


def match_expression(query: str) -> str | None:
    """Return an FTS5 expression that any of the query's words satisfies; None without words.

    Every term is a quoted string, so that no character of the query is syntax.
    """
    terms: dict[str, None] = {}
    for word in query.replace("\0", " ").split():
        pieces = _WORD.findall(word)
        if pieces:
            # The word as it is written is a phrase of its pieces, and worth more than they are.
            terms.update(dict.fromkeys([" ".join(pieces), *pieces]))
    kept = [term for term in terms if term.lower() not in _STOP_WORDS] or list(terms)
    quoted = (_quoted(term[:MAX_TERM_CHARS]) for term in kept[:MAX_TERMS])
    return " OR ".join(quoted) or None


def search(
    connection: sqlite3.Connection,
    query: str,
    top_k: int,
    weights: FieldWeights,
    documents: str | None = None,
) -> list[tuple[str, str, float]]:
    """Return `(chunk id, text hash, score)` by BM25, best first; ties go to the smaller id.

    `documents` is a JSON list of `project/document`; without it every document counts.
    """
    expression = match_expression(query)
    if expression is None or top_k <= 0:
        return []
    rows = connection.execute(
        "SELECT c.id, c.text_hash, -bm25(chunks_fts, ?, ?, ?) AS score FROM chunks_fts "
        "JOIN chunks c ON c.seq = chunks_fts.rowid WHERE chunks_fts MATCH ? "
        "AND (?5 IS NULL OR project || '/' || document IN (SELECT value FROM json_each(?5))) "
        "ORDER BY score DESC, c.id LIMIT ?6",
        (weights.title, weights.breadcrumb, weights.text, expression, documents, top_k),
    )
    return [(chunk_id, text_hash, score) for chunk_id, text_hash, score in rows]


def rebuild(connection: sqlite3.Connection) -> None:
    """Write the text index anew from the chunks, so that deleted words leave it."""
    connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('rebuild')")


def _quoted(term: str) -> str:
    clean = term.encode("utf-8", "replace").decode()
    return '"' + clean.replace('"', '""') + '"'
