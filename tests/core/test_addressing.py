"""Section ids and document filters."""

import pytest

from doxtr_rag.core.addressing import document_matcher, section_id


@pytest.mark.parametrize(
    ("chunk_id", "section"),
    [
        ("p/guide/intro#start", "p/guide/intro#start"),
        ("p/guide/intro#start~2", "p/guide/intro#start"),
        ("p/guide/intro#", "p/guide/intro#"),
        ("p/guide/intro#~3", "p/guide/intro#"),
        ("p/a~b#start", "p/a~b#start"),
        ("p/a~b#a#b~12", "p/a~b#a#b"),
    ],
)
def test_a_section_is_a_chunk_without_its_part(chunk_id, section):
    assert section_id(chunk_id) == section


@pytest.mark.parametrize(
    ("filter_text", "name", "passes"),
    [
        pytest.param("", "guide/intro", True, id="nothing-filters-nothing"),
        pytest.param("INTRO", "guide/intro", True, id="a-part-in-any-case"),
        pytest.param("intro", "guide/other", False, id="a-part-that-is-missing"),
        pytest.param("guide/*", "guide/a/b", True, id="a-star-crosses-slashes"),
        pytest.param("guide/*", "my/guide/a", False, id="a-glob-is-anchored"),
        pytest.param("gu?de", "guide", True, id="one-character"),
        pytest.param("a[b]*", "a[b]c", True, id="brackets-are-letters"),
        pytest.param("ÄRGER", "ärger", True, id="letters-beyond-ascii"),
        pytest.param("a.c*", "abc", False, id="a-dot-is-a-dot"),
    ],
)
def test_a_filter_is_a_part_or_a_glob(filter_text, name, passes):
    assert document_matcher(filter_text)(name) is passes
