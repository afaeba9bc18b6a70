"""Sources -> what is harvested of them, through a real Sphinx that resolves and writes nothing.

This module is a Sphinx extension too: it adds the builder `harvest`.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.util.docutils import docutils_namespace, patch_docutils

from doxtr_rag.core.documents import Section
from doxtr_rag.sphinx_ext.harvester import InternalLinks, caption_labels, harvest

AFTER_OTHER_EXTENSIONS = 950
EXTENSIONS = (
    "harvest_project",
    "myst_parser",
    "sphinx_design",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.graphviz",
    "sphinx.ext.ifconfig",
    "sphinx.ext.inheritance_diagram",
    "sphinx.ext.todo",
    "sphinx.ext.viewcode",
)


class HarvestBuilder(StandaloneHTMLBuilder):
    """html without pages."""

    name = "harvest"
    allow_parallel = False

    def prepare_writing(self, docnames):
        pass

    def write_doc(self, docname, doctree):
        pass

    def write_doc_serialized(self, docname, doctree):
        pass

    def copy_assets(self):
        pass

    def finish(self):
        pass


def setup(app):
    app.add_builder(HarvestBuilder)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


@dataclass
class Harvested:
    """By document: its sections with and without todos, and its tree before and after."""

    sections: dict[str, tuple[Section, ...]] = field(default_factory=dict)
    with_todos: dict[str, tuple[Section, ...]] = field(default_factory=dict)
    trees: dict[str, tuple[object, object]] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)
    warnings: str = ""


def harvest_sources(root: Path, sources: Mapping[str, str], **settings: object) -> Harvested:
    """Write `file name -> text` below `root`, resolve everything, return what was harvested."""
    values = {"project": "Demo", "extensions": list(EXTENSIONS), **settings}
    conf = "".join(f"{key} = {value!r}\n" for key, value in values.items())
    for name, text in {**sources, "conf.py": conf}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    found, warnings = Harvested(), io.StringIO()
    with patch_docutils(str(root)), docutils_namespace():
        app = Sphinx(
            srcdir=root,
            confdir=root,
            outdir=root / "_out",
            doctreedir=root / "_doctrees",
            buildername="harvest",
            status=None,
            warning=warnings,
        )
        app.connect(
            "doctree-resolved",
            lambda app, doctree, docname: _collect(found, app, doctree, docname),
            priority=AFTER_OTHER_EXTENSIONS,
        )
        app.build()
    found.warnings = warnings.getvalue()
    return found


def _collect(found: Harvested, app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if str(doctree.get("source")) != str(app.env.doc2path(docname)):
        return
    uris = {name: app.builder.get_target_uri(name) for name in app.env.all_docs}
    links = InternalLinks(uris, docname)
    labels = caption_labels(app.env.toc_fignumbers.get(docname, {}), app.config.numfig_format)
    before = _state(doctree)
    found.sections[docname] = harvest(doctree, docname, resolve_link=links, labels=labels)
    found.with_todos[docname] = harvest(doctree, docname, show_todos=True)
    found.trees[docname] = (before, _state(doctree))
    found.kinds |= {type(node).__name__ for node in doctree.findall()}


def _state(doctree: nodes.document) -> tuple[str, bytes]:
    """Everything of a tree that a writer could see; links to parents and settings included."""
    children = [(id(node), id(node.parent)) for node in doctree.findall()]
    attributes = [
        sorted((key, repr(value)) for key, value in node.attributes.items())
        for node in doctree.findall(nodes.Element)
    ]
    return doctree.pformat(), pickle.dumps((children, attributes, sorted(vars(doctree))))
