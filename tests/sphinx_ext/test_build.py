"""Whole builds through Sphinx on a tiny model: what the stores hold, what a build says."""

import json
import os
import signal
import subprocess
import sys
import time

import knowledge_base
import pytest
from sphinx_project import Page, Project, build, child_environment, start

pytestmark = [pytest.mark.sphinx_side, pytest.mark.usefixtures("tiny_model_dir")]


@pytest.fixture
def root(tmp_path):
    return tmp_path / "work"


@pytest.fixture
def project():
    return Project(
        pages={
            "index": Page("Demo", [("Intro", "Welcome here.")], children=["guide", "notes"]),
            "guide": Page("Guide", [("Ports", "Open port 8000."), ("Logs", "Read the logs.")]),
            "notes": Page("Notes", [("Plan", "Nobody may see this.")], scope="LOCAL_PRIVATE"),
        }
    )


def written(project, root, builder="html", **options):
    project.write(root)
    return build(root, builder, **options)


def texts(root, scope="SHARED_ORG"):
    return {key: row["text"] for key, row in knowledge_base.chunks(root, scope).items()}


def test_one_extension_line_fills_two_stores(project, root):
    outcome = written(project, root)
    assert outcome.status == 0, outcome.warnings
    assert set(texts(root)) == {
        "demo/index#intro",
        "demo/guide#ports",
        "demo/guide#logs",
    }
    assert set(texts(root, "LOCAL_PRIVATE")) == {"demo/notes#plan"}
    assert "3 documents" in outcome.output
    assert "4 texts embedded" in outcome.output


def test_chunks_carry_breadcrumb_place_and_address(project, root):
    written(project, root)
    row = knowledge_base.chunks(root, "SHARED_ORG")["demo/guide#ports"]
    assert json.loads(row["breadcrumb"]) == ["Guide", "Ports"]
    assert row["source_file"] == "source/guide.rst"
    assert row["url"].partition("#")[0] == "guide.html"
    assert row["scope"] == "SHARED_ORG"


def test_breadcrumbs_follow_the_toctree_without_reading_the_child_again(project, root):
    written(project, root)
    project.pages["index"].children = ["guide"]
    project.pages["guide"].children = ["notes"]
    outcome = written(project, root)
    row = knowledge_base.chunks(root, "LOCAL_PRIVATE")["demo/notes#plan"]
    assert json.loads(row["breadcrumb"]) == ["Guide", "Notes", "Plan"]
    assert "1 texts embedded" in outcome.output


def test_a_build_without_changes_does_nothing(project, root):
    written(project, root)
    outcome = written(project, root)
    assert "knowledge base is up to date (3 documents)" in outcome.output


LAZY = """
import sys
from sphinx.cmd.build import main
code = main(sys.argv[1:])
heavy = [name for name in ("chromadb", "onnxruntime", "numpy", "httpx") if name in sys.modules]
print("heavy:", heavy)
sys.exit(code)
"""


def test_a_build_without_changes_loads_neither_model_nor_chroma(project, root):
    written(project, root)
    out = root / "_build" / "html"
    command = [sys.executable, "-c", LAZY, "-d", str(root / "_build" / "doctrees")]
    done = subprocess.run(
        [*command, str(root / "source"), str(out)],
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "up to date" in done.stdout
    assert "heavy: []" in done.stdout


def test_only_the_changed_paragraph_is_embedded(project, root):
    written(project, root)
    project.pages["guide"].sections[0] = ("Ports", "Open port 9000.")
    outcome = written(project, root)
    assert "1 texts embedded" in outcome.output
    assert texts(root)["demo/guide#ports"] == "Open port 9000."


@pytest.mark.parametrize("builder", ["rag", "dirhtml"])
def test_every_feeding_builder_gives_the_same_knowledge_base(project, root, tmp_path, builder):
    project.pages["guide"].refers_to = ["notes"]
    project.pages["index"].sections.append(
        ("Only", ".. only:: html\n\n   Web readers see this.\n\n.. only:: latex\n\n   Not this.")
    )
    written(project, root, "html")
    other = tmp_path / "other"
    assert written(project, other, builder, jobs=2).status == 0
    assert knowledge_base.difference(root, other) == []
    assert "Web readers" in " ".join(texts(root).values())
    assert "Not this" not in " ".join(texts(root).values())


def test_the_rag_builder_writes_no_page(project, root):
    outcome = written(project, root, "rag")
    assert outcome.status == 0, outcome.warnings
    assert not list((root / "_build" / "rag").rglob("*.html"))


def test_other_builders_leave_the_knowledge_base_alone(project, root):
    written(project, root)
    before = knowledge_base.contents(root)
    project.pages["guide"].sections[0] = ("Ports", "Changed.")
    outcome = written(project, root, "text")
    assert "builder text leaves the knowledge base alone" in outcome.output
    assert knowledge_base.contents(root) == before
    written(project, root)
    assert texts(root)["demo/guide#ports"] == "Changed."


def test_text_of_a_retitled_page_is_refreshed_where_it_is_shown(project, root):
    project.pages["guide"].refers_to = ["notes"]
    written(project, root)
    page = root / "_build" / "html" / "guide.html"
    before = page.read_bytes()
    project.pages["notes"].title = "Minutes"
    written(project, root)
    assert "Minutes" in texts(root)["demo/guide#guide"]
    assert page.read_bytes() == before


def test_text_of_a_deleted_page_is_refreshed_where_it_was_shown(project, root):
    project.pages["guide"].refers_to = ["notes"]
    written(project, root)
    del project.pages["notes"]
    project.pages["index"].children = ["guide"]
    written(project, root)
    assert "Notes" not in texts(root)["demo/guide#guide"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param("LOCAL_PRIVATE", "LOCAL_PRIVATE", id="a-page-can-make-itself-private"),
        pytest.param("local_private", "LOCAL_PRIVATE", id="in-any-case"),
        pytest.param("everyone", "LOCAL_PRIVATE", id="doubt-is-private"),
        pytest.param("SHARED_ORG", "SHARED_ORG", id="affirming-keeps-it-shared"),
    ],
)
def test_a_page_that_speaks_about_its_scope(project, root, said, expected):
    project.pages["guide"].scope = said
    outcome = written(project, root)
    assert "demo/guide#ports" in texts(root, expected)
    assert ("kept private" in outcome.warnings) is (said == "everyone")


def test_a_page_cannot_share_itself_from_outside_the_source_roots(project, root):
    project.settings["rag_source_roots"] = []
    project.pages["guide"].scope = "SHARED_ORG"
    written(project, root)
    assert texts(root) == {}


def test_a_page_below_a_private_folder_is_private(project, root):
    project.pages["noter/guide"] = project.pages.pop("guide")
    project.pages["index"].children = ["noter/guide", "notes"]
    written(project, root)
    assert "demo/noter/guide#ports" in texts(root, "LOCAL_PRIVATE")
    assert not any("guide" in key for key in texts(root))


def test_a_page_that_includes_a_private_file_is_private(project, root):
    (root / "NDA").mkdir(parents=True)
    (root / "NDA" / "terms.txt").write_text("Secret terms.\n")
    project.pages["guide"].sections.append(("Terms", ".. include:: ../NDA/terms.txt"))
    written(project, root)
    assert not any("guide" in key for key in texts(root))
    assert "Secret terms." in texts(root, "LOCAL_PRIVATE")["demo/guide#terms"]


def test_when_nothing_may_be_shared_the_build_says_how_to_declare_it(project, tmp_path):
    root = tmp_path / "work"
    project.settings["rag_root"] = None
    outcome = written(project, root)
    assert texts(root, "SHARED_ORG")
    assert "rag_source_roots" not in outcome.output
    plain = tmp_path / "plain"
    project.write(plain)
    (plain / "source").rename(plain / "docs")
    outcome = build(plain, source="docs")
    assert "rag_source_roots" in outcome.output


def test_a_broken_conf_names_every_problem(project, root):
    project.settings |= {"rag_device": "tpu", "rag_shared_port": 0}
    project.write(root)
    with pytest.raises(Exception, match=r"(?s)rag_shared_port.*rag_device") as caught:
        build(root)
    assert type(caught.value).__name__ == "ConfigError"


def test_missing_weights_fail_the_build_and_leave_the_stores(project, root, tmp_path):
    written(project, root)
    before = knowledge_base.contents(root)
    project.settings["rag_embedding_provider"] = "minilm-offline"
    project.write(root)
    process = start_with_empty_cache(root, tmp_path)
    assert process.returncode != 0
    assert "doxtr-rag fetch-weights --profile minilm-offline" in process.stdout
    assert (root / "_build" / "html" / "index.html").exists()
    assert knowledge_base.contents(root) == before


def start_with_empty_cache(root, tmp_path):
    command = [sys.executable, "-m", "sphinx", "-d", str(root / "_build" / "doctrees")]
    return subprocess.run(
        [*command, str(root / "source"), str(root / "_build" / "html")],
        env=child_environment() | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


BREAKING = """
from docutils import nodes
from docutils.parsers.rst import Directive


class Unreadable(nodes.Element):
    armed = False

    @property
    def children(self):
        if self.armed:
            raise KeyError("no such cell")
        return []

    @children.setter
    def children(self, value):
        pass


class Break(Directive):
    def run(self):
        return [Unreadable()]


def arm(app, doctree, docname):
    Unreadable.armed = True


def disarm(app, doctree, docname):
    Unreadable.armed = False
    for node in list(doctree.findall(Unreadable)):
        node.parent.remove(node)


def setup(app):
    app.add_directive("break", Break)
    app.add_node(Unreadable, html=(lambda s, n: None, lambda s, n: None))
    app.connect("doctree-resolved", arm, priority=940)
    app.connect("doctree-resolved", disarm, priority=990)
"""


def test_a_page_that_cannot_be_rendered_fails_alone(project, root):
    written(project, root)
    (root / "source" / "breaking.py").write_text(BREAKING)
    (root / "source").joinpath("breaking.py")
    project.settings["extensions"] = ["doxtr_rag", "breaking"]
    project.pages["guide"].sections.append(("Bad", ".. break::"))
    project.pages["index"].sections.append(("More", "Added."))
    project.write(root)
    sys.path.insert(0, str(root / "source"))
    try:
        outcome = build(root)
    finally:
        sys.path.remove(str(root / "source"))
        sys.modules.pop("breaking", None)
    assert outcome.status == 1
    assert "guide" in outcome.warnings
    assert "no such cell" in outcome.warnings
    assert texts(root)["demo/guide#ports"] == "Open port 8000."
    assert texts(root)["demo/index#more"] == "Added."


def test_losing_most_of_a_store_is_refused(project, root):
    for n in range(24):
        project.pages[f"page{n:02}"] = Page(f"Page {n}", [("Text", f"Text {n}.")])
    written(project, root)
    for n in range(20):
        del project.pages[f"page{n:02}"]
    refused = written(project, root)
    assert refused.status == 1
    assert "rag_allow_shrink" in refused.warnings
    assert "demo/page03#text" in texts(root)
    allowed = written(project, root, rag_allow_shrink=True)
    assert allowed.status == 0
    assert "demo/page03#text" not in texts(root)


def test_file_arguments_never_prune(project, root):
    written(project, root)
    project.pages["guide"].sections[0] = ("Ports", "Open port 9000.")
    project.pages["notes"].sections[0] = ("Plan", "Changed.")
    outcome = written(project, root, filenames=("guide.rst",))
    assert outcome.status == 0
    assert "build without file arguments" in outcome.warnings
    assert texts(root)["demo/guide#ports"] == "Open port 9000."
    assert texts(root, "LOCAL_PRIVATE")["demo/notes#plan"] == "Nobody may see this."
    written(project, root)
    assert texts(root, "LOCAL_PRIVATE")["demo/notes#plan"] == "Changed."


def test_a_failing_build_changes_nothing(project, root):
    written(project, root)
    before = knowledge_base.contents(root)
    (root / "source" / "failing.py").write_text(
        "def setup(app):\n"
        "    def fail(app, doctree, docname):\n"
        "        if docname == 'guide':\n"
        "            raise RuntimeError('reader failed')\n"
        "    app.connect('doctree-resolved', fail)\n"
    )
    project.settings["extensions"] = ["doxtr_rag", "failing"]
    project.pages["guide"].sections[0] = ("Ports", "Changed.")
    project.write(root)
    sys.path.insert(0, str(root / "source"))
    try:
        with pytest.raises(Exception, match="reader failed"):
            build(root)
    finally:
        sys.path.remove(str(root / "source"))
        sys.modules.pop("failing", None)
    assert knowledge_base.contents(root) == before


def test_two_projects_share_a_store_and_never_touch_each_other(project, root, tmp_path):
    store = str(tmp_path / "team")
    project.settings["rag_shared_store_uri"] = store
    written(project, root)
    other = Project(
        {"index": Page("Other", [("Text", "Theirs.")])},
        {"project": "Other", "rag_shared_store_uri": store},
    )
    other_root = tmp_path / "second"
    written(other, other_root)
    del project.pages["guide"]
    project.pages["index"].children = ["notes"]
    written(project, root)
    ids = knowledge_base.ids_in(tmp_path / "team")
    assert ids == {"demo/index#intro", "other/index#text"}


def test_two_builds_at_once_take_turns_at_the_stores(project, root):
    written(project, root)
    project.pages["guide"].sections[0] = ("Ports", "Open port 9000.")
    project.write(root)
    # Each in a folder of its own, since Sphinx does not expect to share doctrees.
    first, second = start(root, output="_first"), start(root, output="_second")
    outputs = [process.communicate(timeout=120)[0] for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], outputs
    assert texts(root)["demo/guide#ports"] == "Open port 9000."


def test_a_killed_build_is_made_good_by_the_next(project, root, tmp_path):
    written(project, root)
    for n in range(30):
        project.pages[f"page{n}"] = Page(f"Page {n}", [("Text", f"Text {n}. " * 20)])
    project.write(root)
    for delay in (0.7, 1.0, 1.3):
        process = start(root, "html")
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert build(root).status == 0
    scratch = tmp_path / "scratch"
    assert written(project, scratch).status == 0
    assert knowledge_base.difference(root, scratch) == []


def test_a_language_is_part_of_the_namespace(project, root):
    project.settings["language"] = "de"
    project.write(root)
    process = start(root)  # a process of its own, since Sphinx keeps the language for the next
    assert process.wait(timeout=120) == 0, process.communicate()[0]
    process.stdout.close()
    assert "demo.de/guide#ports" in texts(root)


def test_unknown_environment_variables_are_warned_about(project, root, monkeypatch):
    monkeypatch.setenv("DOXTR_RAG_SHARED_PROT", "1")
    outcome = written(project, root)
    assert "DOXTR_RAG_SHARED_PROT" in outcome.warnings
    assert "DOXTR_RAG_SHARED_PORT" in outcome.warnings


def test_mounts_are_not_left_out_in_silence(project, root):
    project.settings["rag_external_mounts"] = [{"path": "../elsewhere"}]
    outcome = written(project, root)
    assert "1 mounts are not indexed yet" in outcome.warnings


MISPLACED = {
    "below-the-title.rst": "Page\n====\n\n:access_scope: LOCAL_PRIVATE\n\nSECRET text.\n",
    "after-a-directive.rst": ".. highlight:: c\n\n:access_scope: LOCAL_PRIVATE\n\nA\n=\n\nSECRET\n",
    "in-meta.rst": "Page\n====\n\n.. meta::\n   :access_scope: LOCAL_PRIVATE\n\nSECRET text.\n",
    "misspelt.rst": ":acces_scope: LOCAL_PRIVATE\n\nPage\n====\n\nSECRET text.\n",
    "markdown-below-the-title.md": "# A\n\n---\naccess_scope: LOCAL_PRIVATE\n---\n\nSECRET\n",
    "markdown-after-a-blank-line.md": "\n---\naccess_scope: LOCAL_PRIVATE\n---\n\n# A\n\nSECRET\n",
    "markdown-broken.md": "---\naccess_scope: [LOCAL_PRIVATE\n---\n\n# Page\n\nSECRET text.\n",
}


@pytest.mark.parametrize("name", MISPLACED, ids=lambda name: name.partition(".")[0])
def test_a_page_that_tried_to_speak_of_its_scope_is_private_and_warned_about(project, root, name):
    project.settings["extensions"] = ["doxtr_rag", "myst_parser"]
    project.pages["index"].children = ["guide", "notes", "page"]
    project.write(root)
    (root / "source" / f"page.{name.rpartition('.')[2]}").write_text(MISPLACED[name])
    for _ in range(2):
        outcome = build(root)
        assert "kept private" in outcome.warnings
        assert "SECRET" not in " ".join(texts(root).values())
        assert "SECRET" in " ".join(texts(root, "LOCAL_PRIVATE").values())


def test_a_page_about_the_field_is_no_statement(project, root):
    project.pages["guide"].sections.append(
        ("Scope", "Write ``access_scope: LOCAL_PRIVATE``::\n\n   :access_scope: LOCAL_PRIVATE")
    )
    outcome = written(project, root)
    assert "demo/guide#scope" in texts(root)
    assert "kept private" not in outcome.warnings


def test_the_summary_says_what_was_withdrawn(project, root):
    written(project, root)
    project.pages["guide"].scope = "LOCAL_PRIVATE"
    assert "2 chunks withdrawn from SHARED_ORG" in written(project, root).output
