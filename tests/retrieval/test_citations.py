"""Receipts are verbatim, short and cannot be forged by a title."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxtr_rag.core.documents import StoredChunk
from doxtr_rag.core.scope import Scope
from doxtr_rag.retrieval.citations import MAX_QUOTE, citation, quote

CHUNK = StoredChunk(
    chunk_id="p/d#a",
    project="p",
    document="d",
    anchor="a",
    text="text",
    breadcrumb=("Guide", "Setup", "Ports"),
    url="d.html",
    source_file="d.rst",
    locator=None,
    scope=Scope.SHARED_ORG,
    text_hash="h",
    content_hash="c",
    links=(),
    metadata={},
)


@pytest.mark.parametrize(
    ("breadcrumb", "expected"),
    [
        pytest.param(("Guide", "Setup", "Ports"), "[Setup §Ports]", id="the-last-two-titles"),
        pytest.param(("Guide",), "[Guide]", id="a-page-without-sections"),
        pytest.param((), "[d]", id="a-document-without-titles"),
        pytest.param(("A]\n[B", "C"), "[A) (B §C]", id="brackets-and-lines-cannot-escape"),
    ],
)
def test_citation(breadcrumb, expected):
    assert citation(replace(CHUNK, breadcrumb=breadcrumb)) == expected


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        pytest.param("one\ntwo ports\nthree", "which ports", "two ports\nthree", id="best-line"),
        pytest.param("one\ntwo", "nothing alike", "one\ntwo", id="no-match-starts-at-the-top"),
        pytest.param("\n \n", "x", "", id="blank-text"),
        pytest.param("", "x", "", id="no-text"),
    ],
)
def test_quote(text, query, expected):
    assert quote(text, query) == expected


@given(st.text(), st.text())
def test_a_quote_is_a_piece_of_the_text(text, query):
    found = quote(text, query)
    assert found in text
    assert len(found) <= MAX_QUOTE


def test_a_long_line_is_cut_between_words():
    found = quote("word " * 200, "word")
    assert len(found) <= MAX_QUOTE
    assert found.endswith("word")
