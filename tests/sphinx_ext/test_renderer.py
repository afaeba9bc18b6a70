"""Every kind of node, from source text to Markdown blocks.

A case is a document of `tests/roots/kinds` and, beside it, what is harvested of it. A missing
`.harvest.txt` is written by the run that misses it, which fails: read it before the next run.
"""

from pathlib import Path

import pytest
from harvest_project import dump, harvest_folder

pytestmark = pytest.mark.sphinx_side

ROOT = Path(__file__).parent.parent / "roots" / "kinds"
CASES = sorted(path.stem for path in ROOT.glob("*-*.*") if path.suffix in {".rst", ".md"})


@pytest.fixture(scope="module")
def harvested(tmp_path_factory):
    return harvest_folder(ROOT, tmp_path_factory.mktemp("kinds"))


@pytest.mark.parametrize("case", CASES)
def test_harvest_of(case, harvested):
    expected = ROOT / f"{case}.harvest.txt"
    found = dump(harvested.sections[case])
    if not expected.exists():
        expected.write_text(found, encoding="utf-8")
        pytest.fail(f"{expected.name} was missing: read what was written")
    assert found == expected.read_text(encoding="utf-8")


EVERY_KIND = {
    "abbreviation", "acks", "admonition", "attribution", "autosummary_table", "block_quote",
    "bullet_list", "caption", "centered", "citation", "comment", "container", "definition_list",
    "desc", "desc_inline", "desc_optional", "doctest_block", "download_reference", "dropdown_main",
    "emphasis", "enumerated_list", "field_list", "figure", "footnote", "footnote_reference",
    "glossary", "graphviz", "hlist", "image", "index", "legend", "line_block", "literal",
    "literal_block", "literal_emphasis", "literal_strong", "manpage", "math", "math_block", "note",
    "number_reference", "option_list", "problematic", "productionlist", "raw", "reference",
    "rubric", "sd_tab_label", "section", "seealso", "sidebar", "strong", "subscript",
    "substitution_definition", "superscript", "table", "tabular_col_spec",
    "target", "title_reference", "toctree", "todo_node", "topic", "transition", "versionmodified",
}  # fmt: skip


def test_the_cases_cover_every_kind_of_node(harvested):
    assert harvested.kinds >= EVERY_KIND


def test_no_harvest_changes_its_tree(harvested):
    assert {
        docname for docname, (before, after) in harvested.trees.items() if before != after
    } == set()
    assert harvested.trees.keys() >= set(CASES)


def test_what_readers_do_not_see_is_in_no_harvest(harvested):
    dumped = {docname: dump(sections) for docname, sections in harvested.sections.items()}
    assert [docname for docname, text in dumped.items() if "MARKER" in text] == []
    sources = "".join((ROOT / f"{case}.rst").read_text() for case in ["what-readers-do-not-see"])
    assert sources.count("MARKER") > 10


def test_a_todo_is_harvested_when_its_page_shows_it(harvested):
    shown = dump(harvested.with_todos["what-readers-do-not-see"])
    assert "## text\n**Todo**\n## text\nTODO_MARKER\n" in shown
    assert shown.count("MARKER") == 1
