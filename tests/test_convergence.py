"""Whatever happened before, a successful build gives what a build from scratch gives.

A state machine edits a small project, builds it in every way, breaks what a build left behind, and
after each successful build compares both stores with those of a scratch build in another folder.
`CONVERGENCE_STEPS` and `CONVERGENCE_RUNS` make it longer: `make soak`.
"""

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import knowledge_base
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
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
sections = st.lists(st.tuples(titles, st.sampled_from(BODIES)), max_size=4)


class Convergence(RuleBasedStateMachine):
    """One project that is edited and built, and the knowledge base that has to follow."""

    def __init__(self):
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="convergence-"))
        self.root = self.base / "work"
        self.project = Project(
            pages={"index": Page("Demo", [("Intro", BODIES[0])], children=["alpha"])}
        )
        self.project.pages["alpha"] = Page("Alpha", [("First", BODIES[2])])
        self.builds = 0

    def teardown(self):
        shutil.rmtree(self.base, ignore_errors=True)

    @initialize()
    def first_build(self):
        self._build_and_compare("html", 1)

    @rule(name=names, title=titles, content=sections, parent=st.sampled_from(("index", "alpha")))
    def add_or_replace(self, name, title, content, parent):
        self.project.pages[name] = Page(title, content)
        self._adopt(name, parent)

    @rule(name=names)
    def delete(self, name):
        self.project.pages.pop(name, None)
        self._forget(name)

    @rule(name=names, new=names)
    def rename(self, name, new):
        if name in self.project.pages and new not in self.project.pages:
            self.project.pages[new] = self.project.pages.pop(name)
            self._forget(name)
            self._adopt(new, "index")

    @rule(name=names, title=titles)
    def retitle(self, name, title):
        if name in self.project.pages:
            self.project.pages[name].title = title

    @rule(source=names, destination=names)
    def move_section(self, source, destination):
        pages = self.project.pages
        if source in pages and destination in pages and pages[source].sections:
            pages[destination].sections.append(pages[source].sections.pop(0))

    @rule(name=names, body=st.sampled_from(BODIES), at=st.integers(0, 4))
    def insert_section(self, name, body, at):
        if name in self.project.pages:
            self.project.pages[name].sections.insert(at, (f"Inserted {at}", body))

    @rule(name=names, text=st.sampled_from(("", "Before the title.")))
    def change_preamble(self, name, text):
        if name in self.project.pages:
            self.project.pages[name].preamble = text

    @rule(name=names, other=names)
    def refer(self, name, other):
        if name in self.project.pages:
            self.project.pages[name].refers_to = [other]

    @rule(name=names, scope=st.sampled_from(SCOPES))
    def change_scope(self, name, scope):
        if name in self.project.pages:
            self.project.pages[name].scope = scope

    @rule(child=names, parent=st.sampled_from(("index", "alpha", "beta")))
    def move_in_toctree(self, child, parent):
        if child in self.project.pages and parent in self.project.pages and child != parent:
            self._forget(child)
            self._adopt(child, parent)

    @rule(cap=st.sampled_from((None, 24, 48, 96)))
    def change_cap(self, cap):
        self.project.settings["rag_max_chunk_tokens"] = cap

    @rule(patterns=st.sampled_from(([], ["guide"], ["alpha.rst"])))
    def exclude(self, patterns):
        self.project.settings["exclude_patterns"] = patterns

    @rule(private=st.sampled_from((["noter"], ["noter", "guide"], ["NDA"])))
    def change_private_paths(self, private):
        self.project.settings["rag_private_paths"] = private

    @rule(base=st.sampled_from(("", "https://docs.example.org/x/")))
    def change_base_url(self, base):
        self.project.settings["html_baseurl"] = base

    @rule(store=st.sampled_from(("shared", "chroma")))
    def lose_index(self, store):
        shutil.rmtree(self.root / ".doxtr" / store / "index", ignore_errors=True)

    @rule(store=st.sampled_from(("shared", "chroma")))
    def lose_store(self, store):
        shutil.rmtree(self.root / ".doxtr" / store, ignore_errors=True)

    @rule()
    def lose_cache(self):
        for path in (self.root / ".doxtr").glob("cache.db*"):
            path.unlink()

    @rule()
    def lose_spool(self):
        shutil.rmtree(self.root / "_build" / "doctrees" / "doxtr_rag", ignore_errors=True)

    @rule()
    def lose_everything_sphinx_kept(self):
        shutil.rmtree(self.root / "_build", ignore_errors=True)

    @rule(builder=st.sampled_from(("latex", "text", "dummy")))
    def build_something_else(self, builder):
        self.project.write(self.root)
        before = knowledge_base.contents(self.root) if self._is_whole() else None
        build(self.root, builder)
        if before is not None:
            assert knowledge_base.contents(self.root) == before

    @precondition(lambda self: self.builds > 1)
    @rule(delay=st.sampled_from((0.45, 0.7, 0.9, 1.1, 1.4, 1.8)))
    def kill_a_build(self, delay):
        self.project.write(self.root)
        process = start(self.root, "html")
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    @rule(builder=st.sampled_from(("html", "html", "rag", "dirhtml")), jobs=st.sampled_from((1, 2)))
    def build(self, builder, jobs):
        self._build_and_compare(builder, jobs)

    def _build_and_compare(self, builder, jobs):
        self.project.write(self.root)
        outcome = build(self.root, builder, jobs=jobs)
        assert outcome.status == 0, outcome.output + outcome.warnings
        scratch = self.base / "scratch"
        self.project.write(scratch)
        fresh = build(scratch, "html")
        assert fresh.status == 0, fresh.output + fresh.warnings
        assert knowledge_base.difference(self.root, scratch) == []
        shutil.rmtree(scratch)
        self.builds += 1

    def _is_whole(self):
        return all(
            (self.root / ".doxtr" / store / "corpus.sqlite3").exists()
            for store in knowledge_base.STORES.values()
        )

    def _adopt(self, name, parent):
        page = self.project.pages.get(parent, self.project.pages["index"])
        if name not in page.children and page is not self.project.pages[name]:
            page.children.append(name)

    def _forget(self, name):
        for page in self.project.pages.values():
            page.children = [child for child in page.children if child != name]


TestConvergence = Convergence.TestCase
TestConvergence.settings = settings(
    max_examples=RUNS,
    stateful_step_count=STEPS,
    derandomize=True,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
