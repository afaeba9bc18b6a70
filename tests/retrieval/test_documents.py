"""Reading on: outlines, sections and their neighbours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxtr_rag.core.documents import DocumentChunk, ScopedChunk
from doxtr_rag.core.errors import StoreUnavailableError, UnknownDocumentError
from doxtr_rag.core.scope import Scope, ScopeDecision, ScopeSignal
from doxtr_rag.retrieval.documents import joined, read_section, sections_of
from doxtr_rag.testing import MemoryStore

DECISION = ScopeDecision(Scope.SHARED_ORG, ScopeSignal("path", Scope.SHARED_ORG, "test"))


def store(*rows, document="guide", name="shared"):
    made = MemoryStore(Scope.SHARED_ORG, name=name)
    chunks = [
        DocumentChunk(
            chunk_id=f"demo/{document}#{anchor}{part}",
            project="demo",
            document=document,
            anchor=anchor,
            text=text,
            breadcrumb=("Guide", anchor.title()),
            source_file=f"source/{document}.rst",
            position=at,
        )
        for at, (anchor, part, text) in enumerate(rows)
    ]
    made.save_vectors("f", {c.text_hash: b"\0\0\x80\x3f" for c in chunks})
    # Stored in another order than they are read.
    made.publish("demo", "sphinx", "f", [ScopedChunk(c, DECISION) for c in chunks[::-1]], [])
    return made


GUIDE = store(
    ("first", "", "One."),
    ("second", "", "Two is long and"),
    ("second", "~2", "long and cut in parts."),
    ("third", "", "Three."),
)


@pytest.mark.parametrize("name", ["guide", "demo/guide", "source/guide.rst"])
def test_a_document_is_found_by_each_of_its_names_in_reading_order(name):
    found = sections_of([GUIDE], name)
    assert [s.first.anchor for s in found.sections] == ["first", "second", "third"]
    assert found.sections[1].text == "Two is long and cut in parts."


@pytest.mark.parametrize("section", ["second", "#second", "SECOND", "demo/guide#second"])
def test_a_section_is_read_between_its_neighbours(section):
    reading = read_section(sections_of([GUIDE], "guide"), section)
    assert reading.section.first.anchor == "second"
    assert reading.before.text == "One."
    assert reading.after.text == "Three."


def test_the_ends_of_a_document_have_one_neighbour():
    found = sections_of([GUIDE], "guide")
    assert read_section(found, "first").before is None
    assert read_section(found, "third").after is None


def test_unknown_names_are_answered_with_what_there_is():
    with pytest.raises(UnknownDocumentError, match="did you mean guide"):
        sections_of([GUIDE], "guidee")
    with pytest.raises(UnknownDocumentError, match="first, second, third"):
        read_section(sections_of([GUIDE], "guide"), "fourth")


@pytest.mark.parametrize("name", ["x\x1b[2Jy", "x\x00y", "x\ny\x07"])
def test_names_are_repeated_without_what_steers_a_terminal(name):
    with pytest.raises(UnknownDocumentError) as unknown:
        sections_of([GUIDE], name)
    with pytest.raises(UnknownDocumentError) as missing:
        read_section(sections_of([GUIDE], "guide"), name)
    for error in (unknown, missing):
        assert str(error.value).isprintable()


def test_a_name_without_end_is_not_repeated_whole():
    with pytest.raises(UnknownDocumentError) as unknown:
        sections_of([GUIDE], "x" * 100_000)
    assert len(str(unknown.value)) < 1_000


def test_a_store_that_fails_does_not_hide_the_others():
    broken = MemoryStore(Scope.LOCAL_PRIVATE, name="private")
    broken.failures["document"] = StoreUnavailableError("damaged")
    assert sections_of([broken, GUIDE], "guide").store == "shared"
    with pytest.raises(StoreUnavailableError):
        sections_of([broken], "guide")


@given(st.text("ab ", max_size=30), st.integers(0, 10), st.text("ab ", max_size=30))
def test_joining_repeats_nothing_and_loses_nothing(before, overlap, after):
    part = before[len(before) - min(overlap, len(before)) :] + after
    text = joined([before, part])
    assert text.startswith(before)
    assert text.endswith(part)
