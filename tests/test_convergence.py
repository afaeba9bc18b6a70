"""Whatever happened before, a successful build gives what a build from scratch gives.

Generated histories edit a small project, break what a build left behind and build in every way.
Each step ends in a build, after which both stores are compared with those of a scratch build in
another folder. `CONVERGENCE_STEPS` and `CONVERGENCE_RUNS` make it longer: `make soak`.
"""

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import knowledge_base
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from sphinx_project import Page, Project, build, start

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("tiny_model_dir")]

STEPS = int(os.environ.get("CONVERGENCE_STEPS", "12"))
RUNS = int(os.environ.get("CONVERGENCE_RUNS", "5"))

NAMES = ("alpha", "beta", "guide/gamma", "guide/delta", "noter/inner", "epsilon")
TITLES = ("Start here", "Ports & names", "Start here", "Éclair", "How *it* works", "API")
BODIES = (
    "One short sentence.",
    "",
    "A paragraph about ports.\n\nAnother one, with ``code`` and a `link <https://example.org/>`_.",
    "\n".join(f"Sentence number {n} says something about item {n}." for n in range(40)),
    ".. code-block:: python\n\n" + "\n".join(f"   value_{n} = compute({n})" for n in range(60)),
    "===== =====\nName  Value\n===== =====\n"
    + "\n".join(f"n{n:03}  v{n:03}" for n in range(50))
    + "\n===== =====",
    ".. note:: Mind the gap.\n\n* one\n* two\n\n  * nested",
    ".. comment that nobody may see\n\nVisible text.",
)
SCOPES = (None, None, None, "LOCAL_PRIVATE", "SHARED_ORG", "nonsense")

names = st.sampled_from(NAMES)
titles = st.sampled_from(TITLES)
bodies = st.sampled_from(BODIES)
sections = st.lists(st.tuples(titles, bodies), max_size=4)
parents = st.sampled_from(("index", "alpha", "beta"))
stores = st.sampled_from(("shared", "chroma"))


class World:
    """One project, the folder it is built in, and what may happen to either."""

    def __init__(self, base):
        self.base = base
        self.root = base / "work"
        self.pages = {
            "index": Page("Demo", [("Intro", BODIES[0])], children=["alpha"]),
            "alpha": Page("Alpha", [("First", BODIES[2])]),
        }
        self.project = Project(self.pages)

    def add_or_replace(self, name, title, content, parent):
        self.pages[name] = Page(title, list(content))
        self._adopt(name, parent)

    def delete(self, name):
        self.pages.pop(name, None)
        self._forget(name)

    def rename(self, name, new):
        if name in self.pages and new not in self.pages:
            self.pages[new] = self.pages.pop(name)
            self._forget(name)
            self._adopt(new, "index")

    def retitle(self, name, title):
        if name in self.pages:
            self.pages[name].title = title

    def move_section(self, name, new):
        if name in self.pages and new in self.pages and self.pages[name].sections:
            self.pages[new].sections.append(self.pages[name].sections.pop(0))

    def insert_section(self, name, body, at):
        if name in self.pages:
            self.pages[name].sections.insert(at, (f"Inserted {at}", body))

    def change_preamble(self, name, text):
        if name in self.pages:
            self.pages[name].preamble = text

    def refer(self, name, new):
        if name in self.pages:
            self.pages[name].refers_to = [new]

    def change_scope(self, name, scope):
        if name in self.pages:
            self.pages[name].scope = scope

    def move_in_toctree(self, name, parent):
        if name in self.pages and name != parent:
            self._forget(name)
            self._adopt(name, parent)

    def change_setting(self, key, value):
        self.project.settings[key] = value

    def lose_index(self, store):
        shutil.rmtree(self.root / ".doxtr" / store / "index", ignore_errors=True)

    def lose_store(self, store):
        shutil.rmtree(self.root / ".doxtr" / store, ignore_errors=True)

    def lose_cache(self):
        for path in (self.root / ".doxtr").glob("cache.db*"):
            path.unlink()

    def lose_spool(self):
        shutil.rmtree(self.root / "_build" / "doctrees" / "doxtr_rag", ignore_errors=True)

    def lose_what_sphinx_kept(self):
        shutil.rmtree(self.root / "_build", ignore_errors=True)

    def build_something_else(self, builder):
        self.project.write(self.root)
        before = knowledge_base.contents(self.root) if self._is_whole() else None
        build(self.root, builder)
        if before is not None:
            assert knowledge_base.contents(self.root) == before

    def kill_a_build(self, delay):
        self.project.write(self.root)
        process = start(self.root, "html")
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def build_and_compare(self, builder, jobs):
        self.project.write(self.root)
        outcome = build(self.root, builder, jobs=jobs)
        assert outcome.status == 0, outcome.output + outcome.warnings
        scratch = self.base / "scratch"
        self.project.write(scratch)
        fresh = build(scratch, "html")
        assert fresh.status == 0, fresh.output + fresh.warnings
        assert knowledge_base.difference(self.root, scratch) == []
        held = knowledge_base.contents(scratch)
        assert any(held.values()), "a comparison of empty stores shows nothing"
        shutil.rmtree(scratch)

    def _is_whole(self):
        return all(
            (self.root / ".doxtr" / store / "corpus.sqlite3").exists()
            for store in knowledge_base.STORES.values()
        )

    def _adopt(self, name, parent):
        page = self.pages.get(parent, self.pages["index"])
        if name not in page.children and page is not self.pages[name]:
            page.children.append(name)

    def _forget(self, name):
        for page in self.pages.values():
            page.children = [child for child in page.children if child != name]


SETTINGS = (
    ("rag_max_chunk_tokens", None),
    ("rag_max_chunk_tokens", 24),
    ("rag_max_chunk_tokens", 48),
    ("exclude_patterns", []),
    ("exclude_patterns", ["guide"]),
    ("exclude_patterns", ["alpha.rst"]),
    ("rag_private_paths", ["noter"]),
    ("rag_private_paths", ["noter", "guide"]),
    ("rag_url_style", "html"),
    ("rag_url_style", "dirhtml"),
    ("html_baseurl", ""),
    ("html_baseurl", "https://docs.example.org/x/"),
)
EDITS = {
    "add_or_replace": (names, titles, sections, parents),
    "delete": (names,),
    "rename": (names, names),
    "retitle": (names, titles),
    "move_section": (names, names),
    "insert_section": (names, bodies, st.integers(0, 4)),
    "change_preamble": (names, st.sampled_from(("", "Before the title."))),
    "refer": (names, names),
    "change_scope": (names, st.sampled_from(SCOPES)),
    "move_in_toctree": (names, parents),
    "lose_index": (stores,),
    "lose_store": (stores,),
    "lose_cache": (),
    "lose_spool": (),
    "lose_what_sphinx_kept": (),
    "build_something_else": (st.sampled_from(("latex", "text", "dummy")),),
    "kill_a_build": (st.sampled_from((0.5, 0.8, 1.0, 1.2, 1.5, 2.0)),),
}
edits = st.one_of(
    st.tuples(st.just("change_setting"), st.sampled_from(SETTINGS)),
    *(st.tuples(st.just(name), st.tuples(*arguments)) for name, arguments in EDITS.items()),
)
BUILDS = (("html", 1), ("html", 1), ("html", 2), ("rag", 1), ("rag", 2), ("dirhtml", 1))
steps = st.tuples(st.lists(edits, min_size=1, max_size=4), st.sampled_from(BUILDS))


@settings(
    max_examples=RUNS,
    derandomize=True,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(history=st.lists(steps, min_size=STEPS, max_size=STEPS))
def test_history_does_not_matter(history):
    with tempfile.TemporaryDirectory(prefix="convergence-") as folder:
        world = World(Path(folder))
        world.build_and_compare("html", 1)
        for changes, how in history:
            for name, arguments in changes:
                note(f"{name}{arguments}")
                getattr(world, name)(*arguments)
            note(f"build {how}")
            world.build_and_compare(*how)
