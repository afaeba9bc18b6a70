"""The builder that writes no page, beside builders that do, and in one process with others."""

import io

import knowledge_base
import pytest
from source_files import contents, titled, write
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils
from sphinx_project import build

pytestmark = [pytest.mark.sphinx_side, pytest.mark.usefixtures("tiny_model_dir")]

PAGES = {
    "index.rst": contents("*", options="   :glob:\n"),
    "a.rst": titled("A", "Text."),
    "b.rst": titled("B", "See :doc:`a`."),
}


def written_files(root, builder):
    return [path for path in (root / "_build" / builder).rglob("*") if path.is_file()]


def test_missing_templates_and_files_do_not_matter_where_no_page_is_written(tmp_path):
    settings = {
        "html_logo": "none.png",
        "html_sidebars": {"**": ["none.html"]},
        "html_additional_pages": {"x": "none.html"},
        "templates_path": ["templates"],
    }
    write(tmp_path, {**PAGES, "templates/page.html": "{% broken"}, **settings)
    outcome = build(tmp_path, "rag", jobs=2)
    assert outcome.status == 0, outcome.warnings
    assert len(knowledge_base.chunks(tmp_path, "SHARED_ORG")) == 3
    assert written_files(tmp_path, "rag") == []


def test_pages_show_what_the_rag_builder_was_the_first_to_read(tmp_path):
    write(tmp_path, PAGES)
    build(tmp_path, "html")
    write(tmp_path, {**PAGES, "c.rst": titled("Added", "Text.")})
    build(tmp_path, "rag")
    build(tmp_path, "html")
    index = (tmp_path / "_build" / "html" / "index.html").read_text(encoding="utf-8")
    assert "Added" in index


def test_one_application_builds_again_what_changed(tmp_path):
    root, scratch = tmp_path / "work", tmp_path / "scratch"
    write(root, PAGES)
    with patch_docutils(str(root / "source")), docutils_namespace():
        folders = (root / "source", root / "source", root / "html", root / "doctrees")
        app = Sphinx(*folders, "html", status=io.StringIO(), warning=io.StringIO())
        app.build()
        changed = {**PAGES, "a.rst": titled("Other", "Changed."), "c.rst": titled("C", "Added.")}
        write(root, changed)
        app.build()
        del changed["c.rst"]
        write(root, changed)
        app.build()
    assert app.statuscode == 0
    write(scratch, changed)
    build(scratch)
    assert knowledge_base.difference(root, scratch) == []
