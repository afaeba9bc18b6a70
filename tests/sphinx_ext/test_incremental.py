"""What a page shows of other pages, of settings and of translations, build after build."""

import knowledge_base
import pytest
from source_files import contents, titled, write
from sphinx_project import build

pytestmark = [pytest.mark.sphinx_side, pytest.mark.usefixtures("tiny_model_dir")]

INTERNAL = "tags.add('internal')\n"
NUMBERED = "   :numbered:\n"


def table(name):
    return f".. _tab-{name}:\n\n.. csv-table:: Caption {name}\n\n   cell, {name}"


def term(title):
    return f".. _++:\n\n{title}\n{'-' * 20}\n\nText."


NUMREF = {
    "index": contents("a", "u"),
    "a": titled("A", table("a")),
    "u": titled("U", "See :numref:`tab-a`."),
}
OWN_NUMBERS = {"index": contents("b", options=NUMBERED), "b": titled("B", table("b"))}
TODOS = {
    "index": contents("a", "list"),
    "a": titled("A", ".. todo:: First thing."),
    "list": titled("List", ".. todolist::"),
}
ODD_LABEL = {
    "index": contents("a", "u"),
    "a": titled("A", term("Plus")),
    "u": titled("U", "See :ref:`++`."),
}
ONLY = {
    "index": contents("a"),
    "a": titled("A", "Base.", ".. only:: internal\n\n   For us.", ".. todo:: Hidden thing."),
}

HISTORIES = {
    "number-of-a-table-on-another-page": (
        {"numfig": True},
        NUMREF,
        [("html", {"a": titled("A", table("new"), table("a"))}, {})],
    ),
    "own-numbers-that-another-builder-moved": (
        {"numfig": True},
        OWN_NUMBERS,
        [
            (
                "dirhtml",
                {"index": contents("z", "b", options=NUMBERED), "z": titled("Z", table("z"))},
                {},
            ),
            ("html", {}, {}),
        ],
    ),
    "list-of-todos": (
        {"extensions": ["doxtr_rag", "sphinx.ext.todo"], "todo_include_todos": True},
        TODOS,
        [
            ("html", {"a": titled("A", ".. todo:: First thing.", ".. todo:: Second.")}, {}),
            ("html", {"a": titled("A", "Nothing left.")}, {}),
        ],
    ),
    "label-without-a-word": ({}, ODD_LABEL, [("html", {"a": titled("A", term("Minus"))}, {})]),
    "tag-and-a-builder-that-writes-nothing": (
        {"code": INTERNAL},
        ONLY,
        [("rag", {}, {}), ("rag", {}, {"code": ""})],
    ),
    "setting-of-pages-and-a-builder-that-writes-none": (
        {"extensions": ["doxtr_rag", "sphinx.ext.todo"], "todo_include_todos": True},
        ONLY,
        [("rag", {}, {}), ("rag", {}, {"todo_include_todos": False})],
    ),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_an_incremental_build_ends_as_one_from_scratch(name, tmp_path):
    settings, pages, steps = HISTORIES[name]
    pages = {f"{page}.rst": text for page, text in pages.items()}
    root, scratch = tmp_path / "work", tmp_path / "scratch"
    write(root, pages, **settings)
    assert build(root).status == 0
    for builder, changes, changed_settings in steps:
        pages |= {f"{page}.rst": text for page, text in changes.items()}
        settings = settings | changed_settings
        write(root, pages, **settings)
        assert build(root, builder).status == 0
    write(scratch, pages, **settings)
    assert build(scratch).status == 0
    assert knowledge_base.difference(root, scratch) == []
    assert knowledge_base.chunks(root, "SHARED_ORG")


@pytest.mark.filterwarnings("ignore:'myst_parser")
def test_a_heading_of_a_markdown_page_is_refreshed_where_it_is_shown(tmp_path):
    settings = {"extensions": ["doxtr_rag", "myst_parser"], "myst_heading_anchors": 3}
    pages = {
        "index.md": "# Demo\n\n```{toctree}\na\nb\n```\n",
        "a.md": "# A\n\nSee [](b.md#part).\n",
        "b.md": "# B\n\n## Part!\n\nText.\n",
    }
    write(tmp_path, pages, **settings)
    build(tmp_path)
    write(tmp_path, {**pages, "b.md": "# B\n\n## Part?\n\nText.\n"}, **settings)
    build(tmp_path)
    assert knowledge_base.chunks(tmp_path, "SHARED_ORG")["demo/a#a"]["text"] == "See Part?."


def test_the_folder_of_the_sources_is_not_stored(tmp_path):
    extensions = ["doxtr_rag", "sphinx.ext.todo"]
    pages = {f"{name}.rst": text for name, text in TODOS.items()}
    write(tmp_path, pages, extensions=extensions, todo_include_todos=True)
    assert build(tmp_path).status == 0
    texts = [row["text"] for row in knowledge_base.chunks(tmp_path, "SHARED_ORG").values()]
    assert any("First thing." in text for text in texts)
    assert not any(str(tmp_path) in text for text in texts)


CATALOG = """
msgid ""
msgstr "Content-Type: text/plain; charset=utf-8\\n"

msgid "Secret text."
msgstr "Geheimer Text."
"""


def test_translations_from_outside_the_project_are_private_in_every_build(tmp_path):
    catalog = tmp_path / "elsewhere" / "de" / "LC_MESSAGES" / "a.po"
    catalog.parent.mkdir(parents=True)
    catalog.write_text(CATALOG, encoding="utf-8")
    root = tmp_path / "work"
    pages = {"index.rst": contents("a"), "a.rst": titled("A", "Secret text.")}
    settings = {"language": "de", "gettext_compact": False, "locale_dirs": ["../../elsewhere"]}
    for more in ("", "More text."):
        write(root, {**pages, "a.rst": titled("A", "Secret text.", more)}, **settings)
        assert build(root).status == 0
        assert "demo.de/a#a" in knowledge_base.chunks(root, "LOCAL_PRIVATE")
        assert set(knowledge_base.chunks(root, "SHARED_ORG")) == {"demo.de/index#demo"}


LATE = """
def setup(app):
    app.connect("doctree-resolved", refuse)
    app.connect("build-finished", close, priority=1)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def close(app, error):
    app.is_closed = True


def refuse(app, doctree, docname):
    if hasattr(app, "is_closed"):
        raise KeyError("closed before " + docname)
"""


def test_an_extension_that_cannot_resolve_again_costs_that_page_alone(tmp_path):
    pages = {"index.rst": contents("a", "b"), "b.rst": titled("B", "See :doc:`a`.")}
    code = "import sys, types\nlate = types.ModuleType('late')\nsys.modules['late'] = late\n"
    code += f"exec({LATE!r}, late.__dict__)\n"
    settings = {"extensions": ["doxtr_rag", "late"], "code": code}
    write(tmp_path, {**pages, "a.rst": titled("A", "Text.")}, **settings)
    assert build(tmp_path).status == 0
    write(tmp_path, {**pages, "a.rst": titled("Other", "Changed.")}, **settings)
    outcome = build(tmp_path)
    assert outcome.status == 1
    assert "closed before b" in outcome.warnings
    assert (tmp_path / "_build" / "doctrees" / "environment.pickle").exists()
    texts = {key: row["text"] for key, row in knowledge_base.chunks(tmp_path, "SHARED_ORG").items()}
    assert texts["demo/a#other"] == "Changed."
    assert texts["demo/b#b"] == "See A."


def test_a_page_whose_file_sphinx_lost_costs_that_page_alone(tmp_path):
    pages = {"index.rst": contents("a", "b"), "b.rst": titled("B", "See :doc:`a`.")}
    write(tmp_path, {**pages, "a.rst": titled("A", "Text.")})
    assert build(tmp_path).status == 0
    (tmp_path / "_build" / "doctrees" / "b.doctree").write_bytes(b"half a file")
    write(tmp_path, {**pages, "a.rst": titled("Other", "Changed.")})
    outcome = build(tmp_path)
    assert outcome.status == 1
    assert "b is not up to date" in outcome.warnings
    assert "demo/a#other" in knowledge_base.chunks(tmp_path, "SHARED_ORG")
