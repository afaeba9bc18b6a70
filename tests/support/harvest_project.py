"""Sources -> what is harvested of them, through a real Sphinx that resolves and writes nothing.

This module is a Sphinx extension too: it adds the builder `harvest`.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass, field
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.util.docutils import docutils_namespace, patch_docutils

from doxtr_rag.core.documents import Section
from doxtr_rag.sphinx_ext.harvester import InternalLinks, caption_labels, harvest

AFTER_OTHER_EXTENSIONS = 950


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


def harvest_text(root: Path, text: str, **settings: object) -> tuple[Section, ...]:
    """Return the sections of a project that consists of one reStructuredText document."""
    source = root / "source"
    source.mkdir()
    conf = {"extensions": ["harvest_project"], **settings}
    lines = (f"{key} = {value!r}\n" for key, value in conf.items())
    (source / "conf.py").write_text("".join(lines), encoding="utf-8")
    (source / "index.rst").write_text(text, encoding="utf-8")
    return harvest_folder(source, root / "out").sections["index"]


def harvest_folder(source: Path, out: Path) -> Harvested:
    """Resolve every document of a project and return what was harvested."""
    found, warnings = Harvested(), io.StringIO()
    with patch_docutils(str(source)), docutils_namespace():
        app = Sphinx(
            srcdir=source,
            confdir=source,
            outdir=out,
            doctreedir=out / "doctrees",
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
    uris = {name: app.builder.get_target_uri(name) for name in app.env.all_docs}
    links = InternalLinks(uris, docname)
    labels = caption_labels(app.env.toc_fignumbers.get(docname, {}), app.config.numfig_format)
    before = _state(doctree)
    found.sections[docname] = harvest(doctree, docname, resolve_link=links, labels=labels)
    found.with_todos[docname] = harvest(doctree, docname, show_todos=True)
    found.trees[docname] = (before, _state(doctree))
    found.kinds |= {type(node).__name__ for node in doctree.findall()}


def _state(doctree: nodes.document) -> tuple[str, bytes]:
    """Everything of a tree that a writer could see: text, attributes, which node is where."""
    places = [(id(node), id(node.parent)) for node in doctree.findall()]
    attributes = [
        sorted((key, repr(value)) for key, value in node.attributes.items())
        for node in doctree.findall(nodes.Element)
    ]
    return doctree.pformat(), pickle.dumps((places, attributes, sorted(vars(doctree))))


def dump(sections: tuple[Section, ...]) -> str:
    """Return sections as a text to compare: `# anchor | titles`, then `## kind -> links`."""
    lines: list[str] = []
    for section in sections:
        lines.append(f"# {section.anchor or '(no anchor)'} | {' / '.join(section.titles)}")
        for block in section.blocks:
            links = f" -> {', '.join(block.links)}" if block.links else ""
            lines += [f"## {block.kind.value}{links}", block.text]
    return "\n".join(lines) + "\n"
