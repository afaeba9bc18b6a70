import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doxtr_rag.core.chunking import ChunkLimits, chunk_document
from doxtr_rag.core.documents import (
    Block,
    BlockKind,
    DocumentContext,
    DocumentInput,
    Locator,
    Section,
)
from doxtr_rag.core.scope import Scope, ScopeSignal
from doxtr_rag.testing import WordCounter

LIMITS = ChunkLimits(target_tokens=40, cap_tokens=60, max_chars=2000, overlap_chars=300)
CONTEXT = DocumentContext(
    breadcrumb=("Guide",),
    url="page.html",
    source_file="source/page.rst",
    signals=(ScopeSignal("path", Scope.SHARED_ORG, "in source root"),),
    metadata={"orphan": True},
)


def prose(text, *links):
    return Block(BlockKind.TEXT, text, links)


def table(rows, header="| Name | Use |\n| --- | --- |"):
    return Block(BlockKind.TABLE, "\n".join([header, *rows]))


def code(lines, language="python"):
    return Block(BlockKind.CODE, "\n".join([f"```{language}", *lines, "```"]))


def section(*blocks, anchor="a", titles=("Title",)):
    return Section(anchor, titles, blocks, Locator("anchor", anchor))


def chunked(*sections, limits=LIMITS, context=CONTEXT, document="page"):
    item = DocumentInput(document, "hash", context, lambda: sections)
    return chunk_document("proj", item, limits, WordCounter())


def sentences(count, start=0):
    return " ".join(f"Sentence {n} says word{n}." for n in range(start, start + count))


def test_section_that_fits_is_one_chunk_with_everything_known_about_it():
    (chunk,) = chunked(section(prose("One.", "b#x"), prose("Two.", "c", "b#x"), anchor="intro"))
    assert chunk.chunk_id == "proj/page#intro"
    assert (chunk.project, chunk.document, chunk.anchor) == ("proj", "page", "intro")
    assert chunk.text == "One.\n\nTwo."
    assert chunk.breadcrumb == ("Guide", "Title")
    assert chunk.header == "Guide > Title"
    assert chunk.links == ("b#x", "c")
    assert (chunk.url, chunk.source_file) == (CONTEXT.url, CONTEXT.source_file)
    assert (chunk.signals, chunk.metadata) == (CONTEXT.signals, CONTEXT.metadata)
    assert chunk.locator == Locator("anchor", "intro")
    assert chunk.chunking == LIMITS.hash
    assert [chunk.tokens] == WordCounter().count([chunk.embedding_text])


@pytest.mark.parametrize(
    ("titles", "above", "breadcrumb"),
    [
        pytest.param((), (), ("page",), id="document-names-text-without-titles"),
        pytest.param((), ("Guide",), ("Guide", "page"), id="also-below-other-pages"),
        pytest.param(("A", " B\n c "), (), ("A", "B c"), id="titles-are-one-line"),
        pytest.param(("A", "\x00", ""), (), ("A", "\ufffd"), id="empty-titles-are-left-out"),
    ],
)
def test_breadcrumb(titles, above, breadcrumb):
    context = replace(CONTEXT, breadcrumb=above)
    (chunk,) = chunked(section(prose("text"), titles=titles), context=context)
    assert chunk.breadcrumb == breadcrumb


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param((), id="no-blocks"),
        pytest.param((prose(" \n\t"), prose("")), id="only-white-space"),
    ],
)
def test_section_without_text_has_no_chunk(blocks):
    assert not chunked(section(*blocks))


def test_what_no_encoding_takes_is_replaced():
    (chunk,) = chunked(section(prose("nul \x00 and \ud800 surrogate"), anchor="a\ud800"))
    assert chunk.text == "nul \ufffd and \ufffd surrogate"
    assert chunk.chunk_id.encode()


def test_white_space_inside_a_block_is_kept():
    text = "- a\n\n    indented   code\n\t- b  \n- c"
    assert chunked(section(prose(text)))[0].text == text


def test_parts_are_numbered_and_packed_to_the_target():
    chunks = chunked(section(prose(sentences(40)), anchor="x"))
    assert [c.chunk_id for c in chunks][:3] == ["proj/page#x", "proj/page#x~2", "proj/page#x~3"]
    assert all(c.tokens <= 40 + 6 for c in chunks)
    assert all(c.text.startswith("Sentence") and c.text.endswith(".") for c in chunks)


def test_remainder_that_fits_the_cap_joins_the_part_before():
    limits = replace(LIMITS, overlap_chars=0)
    apart = chunked(section(prose(sentences(17))), limits=limits)
    joined = chunked(section(prose(sentences(18))), limits=limits)
    assert [chunk.text.count(".") for chunk in apart] == [8, 9]
    assert [chunk.text.count(".") for chunk in joined] == [8, 10]


def test_repeated_anchor_continues_the_numbering():
    chunks = chunked(section(prose("one")), section(prose("two")), section(prose("b"), anchor="b"))
    assert [c.chunk_id for c in chunks] == ["proj/page#a", "proj/page#a~2", "proj/page#b"]


def test_section_elsewhere_renames_nothing():
    first, second = section(prose(sentences(30)), anchor="a"), section(prose("x"), anchor="b")
    added = section(prose(sentences(30, 100)), anchor="new")
    before = {c.chunk_id: c.text for c in chunked(first, second)}
    after = {c.chunk_id: c.text for c in chunked(added, first, second)}
    assert before.items() <= after.items()


def test_links_go_with_the_parts_that_hold_their_block():
    chunks = chunked(section(prose(sentences(12), "one"), prose(sentences(12, 50), "two")))
    assert chunks[0].links == ("one",)
    assert chunks[-1].links == ("two",)


LONG = ChunkLimits(target_tokens=100, cap_tokens=120, max_chars=0, overlap_chars=100)


def test_next_part_repeats_whole_sentences_of_its_section():
    chunks = chunked(section(prose(sentences(60))), limits=LONG)
    for before, after in pairwise(chunks):
        repeated = re.findall(r"Sentence \d+ says word\d+\.", before.text)
        shared = [s for s in repeated if s in after.text]
        assert shared == repeated[-len(shared) :]
        assert 0 < sum(len(s) + 1 for s in shared) <= 100
        assert after.text.startswith(shared[0])
        assert after.text in sentences(60)


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param((code([f"a{n} = {n}" for n in range(60)]),), id="inside-code"),
        pytest.param((table([f"| r{n} | u{n} |" for n in range(60)]),), id="inside-a-table"),
    ],
)
def test_nothing_is_repeated(blocks):
    chunks = chunked(section(*blocks), limits=LONG)
    found = re.findall(r"\b[ar]\d+\b", "\n".join(c.text for c in chunks))
    assert len(chunks) > 1
    assert len(found) == len(set(found))


def test_overlap_can_be_turned_off():
    chunks = chunked(section(prose(sentences(60))), limits=replace(LONG, overlap_chars=0))
    assert " ".join(c.text for c in chunks) == sentences(60)


def test_nothing_is_repeated_across_sections():
    _, second = chunked(section(prose("One is here.")), section(prose("Two."), anchor="b"))
    assert "One" not in second.text


def test_table_parts_repeat_header_and_rule_and_keep_rows_whole():
    rows = [f"| row {n} | use {n} |" for n in range(50)]
    chunks = chunked(section(table(rows)))
    assert len(chunks) > 1
    assert all(c.text.startswith("| Name | Use |\n| --- | --- |\n| row") for c in chunks)
    assert [line for c in chunks for line in c.text.splitlines()[2:]] == rows


def test_code_parts_repeat_the_fence_and_keep_lines_whole():
    lines = [f"  call({n})  #  two  spaces" for n in range(50)]
    chunks = chunked(section(code(lines, "python")))
    assert len(chunks) > 1
    assert all(c.text.startswith("```python\n") and c.text.endswith("\n```") for c in chunks)
    assert [line for c in chunks for line in c.text.splitlines()[1:-1]] == lines


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(table([f"| r{n} | u{n} |" for n in range(6)]), id="table"),
        pytest.param(code([f"line{n}" for n in range(20)]), id="code"),
    ],
)
def test_block_that_fits_is_never_cut(block):
    chunks = chunked(section(prose(sentences(9)), block, prose(sentences(9, 50))))
    assert any(block.text in c.text for c in chunks)


def test_row_too_long_for_a_table_becomes_labelled_cells():
    row = f"| {sentences(8)} | {' '.join(f'w{n}' for n in range(99))} |"
    chunks = chunked(section(table(["| short | row |", row])))
    text = "\n".join(c.text for c in chunks)
    assert "| short | row |" in text
    assert "Name: Sentence 0" in text
    assert "Use: w0" in text


def test_list_item_with_code_keeps_its_fences_balanced():
    listing = "\n".join(["  ```sh", *(f"  run {n}" for n in range(60)), "  ```"])
    chunks = chunked(section(prose(f"- first\n\n{listing}\n\n- last item")))
    assert len(chunks) > 1
    assert all(c.text.count("```") % 2 == 0 for c in chunks)


@pytest.mark.parametrize(
    ("titles", "header"),
    [
        pytest.param(tuple(f"Title {n}" for n in range(20)), "Title 14 >", id="outermost-go-first"),
        pytest.param(("A", " ".join(f"w{n}" for n in range(90))), "w0 w1", id="own-title-is-cut"),
    ],
)
def test_header_takes_at_most_a_third_of_the_cap(titles, header):
    (chunk,) = chunked(section(prose("text"), titles=titles))
    assert chunk.header.startswith(header)
    assert WordCounter().count([chunk.header])[0] <= LIMITS.cap_tokens // 3
    assert chunk.breadcrumb == ("Guide", *titles)


def test_same_limits_have_the_same_hash_and_others_another():
    assert LIMITS.hash == replace(LIMITS).hash
    assert len({replace(LIMITS, max_chars=n).hash for n in (1, 2, 3)}) == 3


@pytest.mark.parametrize("fields", [{"target_tokens": 61}, {"cap_tokens": 8, "target_tokens": 8}])
def test_limits_that_cannot_be_kept_are_refused(fields):
    with pytest.raises(ValueError, match="cap"):
        replace(LIMITS, **fields)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * 300_000, id="no-space"),
        pytest.param("lorem ipsum " * 30_000, id="no-sentence"),
        pytest.param("." * 300_000, id="dots"),
        pytest.param("文字列。" * 50_000, id="chinese"),
        pytest.param("a\n" * 100_000, id="lines"),
        pytest.param("a" + " " * 300_000 + "b", id="spaces"),
    ],
)
@pytest.mark.parametrize("kind", BlockKind)
def test_huge_line_is_cut(kind, text):
    body = f"```\n{text}\n```" if kind is BlockKind.CODE else text
    body = f"| A |\n| --- |\n| {text} |" if kind is BlockKind.TABLE else body
    chunks = chunked(section(Block(kind, body)), limits=ChunkLimits(350, 512, 2000, 300))
    assert len(chunks) > 1
    assert all(c.tokens <= 512 and len(c.text) <= 2000 for c in chunks)


class SyllableCounter:
    """Counts what joining texts changes: a token per pair of characters, spaces included."""

    def count(self, texts):
        return [3 + (len(text) + 1) // 2 for text in texts]


LINE = st.text(st.characters(exclude_categories=["Cc"], exclude_characters="|`~"), max_size=60)
WORDS = st.lists(st.text("abcdé.!?文。", min_size=1, max_size=9), min_size=1, max_size=40)
TEXT = st.one_of(st.text(max_size=300), WORDS.map(" ".join), WORDS.map("".join))
BLOCK = st.one_of(
    TEXT.map(prose),
    st.lists(LINE, max_size=20).map(lambda rows: table([f"| {row} | x |" for row in rows])),
    st.lists(LINE, max_size=20).map(code),
)
SECTION = st.builds(
    Section,
    st.sampled_from(["", "a", "b", "c~2"]),
    st.lists(TEXT, max_size=3).map(tuple),
    st.lists(BLOCK, max_size=4).map(tuple),
)
ANY_LIMITS = st.builds(
    lambda target, more, chars, overlap: ChunkLimits(target, target + more, chars, overlap),
    st.integers(16, 60),
    st.integers(0, 40),
    st.sampled_from([0, 60, 200]),
    st.integers(0, 50),
)
COUNTERS = st.sampled_from([WordCounter(), SyllableCounter()])


def words_of(text):
    return set(re.findall(r"[^\W_]+", text))


@settings(max_examples=150, deadline=None)
@given(st.lists(SECTION, max_size=4), ANY_LIMITS, COUNTERS)
def test_any_document_fits_completely_under_unique_ids(sections, limits, counter):
    item = DocumentInput("page", "hash", CONTEXT, lambda: tuple(sections))
    chunks = chunk_document("proj", item, limits, counter)
    assert chunks == chunk_document("proj", item, limits, counter)
    ids = [chunk.chunk_id for chunk in chunks]
    assert len(ids) == len(set(ids))
    assert all(chunk.text.strip() for chunk in chunks)
    inputs = [chunk.embedding_text for chunk in chunks]
    assert counter.count(inputs) == [chunk.tokens for chunk in chunks]
    assert all(chunk.tokens <= limits.cap_tokens for chunk in chunks)
    assert limits.max_chars <= 0 or all(len(chunk.text) <= limits.max_chars for chunk in chunks)


@settings(max_examples=100, deadline=None)
@given(st.lists(BLOCK, min_size=1, max_size=4), ANY_LIMITS)
def test_every_word_is_in_some_chunk(blocks, limits):
    chunks = chunked(section(*blocks), limits=limits)
    found = {word for chunk in chunks for word in words_of(chunk.text)}
    wanted = {word for block in blocks for word in words_of(block.text)}
    # A word of that length may be cut: it is a good part of the smallest room.
    assert {word for word in wanted if len(word) < 20} <= found
    assert set("".join(wanted)) <= set("".join(found))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text("ab c", max_size=80), max_size=40), ANY_LIMITS)
def test_fences_are_balanced_in_every_part(lines, limits):
    for chunk in chunked(section(code(lines)), limits=limits):
        assert chunk.text.count("```") in {0, 2}
