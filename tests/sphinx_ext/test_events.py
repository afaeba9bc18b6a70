"""How a build ends: exit status, messages, and what is left behind, with and without `-W`."""

import knowledge_base
import pytest
from source_files import contents, titled, write
from sphinx_project import build, start

pytestmark = [pytest.mark.sphinx_side, pytest.mark.usefixtures("tiny_model_dir")]

PAGES = {"index.rst": contents("a", "b"), "a.rst": titled("A", "Text."), "b.rst": titled("B", "x")}
DOUBTFUL = {**PAGES, "a.rst": ":access_scope: nonsense\n\n" + PAGES["a.rst"]}
SPOILED = """
def spoil(app, doctree, docname):
    if docname == "a":
        doctree.children[0].children.append(None)


def mend(app, doctree, docname):
    if docname == "a":
        doctree.children[0].children.remove(None)


def setup(app):
    app.connect("doctree-resolved", spoil, priority=940)
    app.connect("doctree-resolved", mend, priority=990)
"""


def finished(root, *arguments):
    process = start(root, "html", *arguments)
    output = process.communicate(timeout=120)[0]
    assert "Traceback" not in output, output
    return process.returncode, output


@pytest.mark.parametrize(
    ("pages", "settings", "message"),
    [
        pytest.param(DOUBTFUL, {}, "kept private", id="doubtful-scope"),
        pytest.param(PAGES, {"code": SPOILED}, "not indexed", id="page-that-cannot-be-harvested"),
    ],
)
def test_a_warning_fails_a_strict_build_that_keeps_its_work(tmp_path, pages, settings, message):
    write(tmp_path, {**pages, "b.rst": titled("B", "Stored all the same.")}, **settings)
    status, output = finished(tmp_path, "-W")
    assert status == 1
    assert message in output
    assert (tmp_path / "_build" / "doctrees" / "environment.pickle").exists()
    texts = [row["text"] for row in knowledge_base.chunks(tmp_path, "SHARED_ORG").values()]
    assert "Stored all the same." in texts
    assert "Text." not in texts


def test_a_suppressed_warning_does_not_fail_a_strict_build(tmp_path):
    write(tmp_path, DOUBTFUL, suppress_warnings=["doxtr_rag.scope"])
    status, output = finished(tmp_path, "-W")
    assert status == 0, output
    assert "kept private" not in output


def test_the_rag_builder_never_does_nothing_in_silence(tmp_path):
    write(tmp_path, PAGES, rag_builders=["html"])
    outcome = build(tmp_path, "rag")
    assert outcome.status == 1
    assert "rag_builders" in outcome.warnings
