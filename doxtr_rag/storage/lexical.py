"""Full-text search of a corpus: SQLite FTS5, porter stems, BM25."""

from __future__ import annotations

import heapq
import json
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

MAX_TERMS = 64
MAX_TERM_CHARS = 256
COMMON = 2000
"""Chunks that may have a term before it only adds to the score of what a rarer one found."""

TIES = 200
"""Rows beyond those asked for that are looked at, since equal scores are ordered by the id."""

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
    return _any_of(_terms(query)) or None


def _terms(query: str) -> list[str]:
    terms: dict[str, None] = {}
    for word in query.replace("\0", " ").split():
        pieces = _WORD.findall(word)
        if pieces:
            # The word as it is written is a phrase of its pieces, and worth more than they are.
            terms.update(dict.fromkeys([" ".join(pieces), *pieces]))
    kept = [term for term in terms if term.lower() not in _STOP_WORDS] or list(terms)
    return [_quoted(term[:MAX_TERM_CHARS]) for term in kept[:MAX_TERMS]]


def _any_of(terms: Sequence[str]) -> str:
    return " OR ".join(terms)


def search(
    connection: sqlite3.Connection,
    query: str,
    top_k: int,
    weights: FieldWeights,
    documents: str | None = None,
) -> list[tuple[str, str, float]]:
    """Return `(chunk id, text hash, score)` by BM25, best first; ties go to the smaller id.

    `documents` is a JSON list of `project/document`; without it every document counts. Where
    enough chunks have a rare word of the question, those that have none are left out.
    """
    terms = _terms(query)
    if not terms or top_k <= 0:
        return []
    if documents is not None:
        return _of_documents(connection, terms, top_k, weights, documents)
    scores = _scores(connection, terms, top_k, weights)
    rows = connection.execute(
        "SELECT seq, id, text_hash FROM chunks WHERE seq IN (SELECT value FROM json_each(?))",
        (json.dumps([seq for seq, _ in scores]),),
    )
    known = {seq: (chunk_id, text_hash) for seq, chunk_id, text_hash in rows}
    found = [(*known[seq], score) for seq, score in scores if seq in known]
    return sorted(found, key=lambda row: (-row[2], row[0]))[:top_k]


def _scores(
    connection: sqlite3.Connection, terms: Sequence[str], top_k: int, weights: FieldWeights
) -> list[tuple[int, float]]:
    """Return the best rows with their ties; its time grows with the rows that have a rare term."""
    frequent = [_frequency(connection, term) > COMMON for term in terms]
    rare = [term for term, is_common in zip(terms, frequent, strict=True) if not is_common]
    common = [term for term, is_common in zip(terms, frequent, strict=True) if is_common]
    scores: dict[int, float] = {}
    if rare and common:
        scores.update(_matches(connection, _any_of(rare), -1, weights))
    if len(scores) < top_k:
        return _best(connection, _any_of(terms), top_k, weights)
    # A row with both kinds has its whole score here, since BM25 is a sum over the terms.
    both = f"({_any_of(rare)}) AND ({_any_of(common)})"
    scores.update(_matches(connection, both, -1, weights))
    least = heapq.nlargest(top_k, scores.values())[-1]
    return [(seq, score) for seq, score in scores.items() if score >= least]


def _best(
    connection: sqlite3.Connection, expression: str, top_k: int, weights: FieldWeights
) -> list[tuple[int, float]]:
    """Return the best rows, with all that are as good as the last one wanted."""
    rows = _matches(connection, expression, top_k + TIES, weights)
    is_cut = len(rows) == top_k + TIES and rows[-1][1] == rows[top_k - 1][1]
    return _matches(connection, expression, -1, weights) if is_cut else rows


def _frequency(connection: sqlite3.Connection, term: str) -> int:
    """Return how many rows have a term, counted no further than needed."""
    row = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH ? LIMIT ?)",
        (term, COMMON + 1),
    ).fetchone()
    return int(row[0])


def _matches(
    connection: sqlite3.Connection, expression: str, count: int, weights: FieldWeights
) -> list[tuple[int, float]]:
    """Return `(row, score)`, best first and so many; all of them in any order for -1."""
    order = "" if count < 0 else "ORDER BY score DESC LIMIT ?5"
    values = (weights.title, weights.breadcrumb, weights.text, expression)
    return connection.execute(
        "SELECT rowid, -bm25(chunks_fts, ?1, ?2, ?3) AS score "  # noqa: S608 - constants
        f"FROM chunks_fts WHERE chunks_fts MATCH ?4 {order}",
        values if count < 0 else (*values, count),
    ).fetchall()


def _of_documents(
    connection: sqlite3.Connection,
    terms: Sequence[str],
    top_k: int,
    weights: FieldWeights,
    documents: str,
) -> list[tuple[str, str, float]]:
    rows = connection.execute(
        "SELECT c.id, c.text_hash, -bm25(chunks_fts, ?, ?, ?) AS score FROM chunks_fts "
        "JOIN chunks c ON c.seq = chunks_fts.rowid WHERE chunks_fts MATCH ? "
        "AND project || '/' || document IN (SELECT value FROM json_each(?)) "
        "ORDER BY score DESC, c.id LIMIT ?",
        (weights.title, weights.breadcrumb, weights.text, _any_of(terms), documents, top_k),
    )
    return [(chunk_id, text_hash, score) for chunk_id, text_hash, score in rows]


def rebuild(connection: sqlite3.Connection) -> None:
    """Write the text index anew from the chunks, so that deleted words leave it."""
    connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('rebuild')")


def _quoted(term: str) -> str:
    clean = term.encode("utf-8", "replace").decode()
    return '"' + clean.replace('"', '""') + '"'
