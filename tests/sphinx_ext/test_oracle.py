"""Completeness and leaks on Sphinx's own documentation, with Sphinx's text builder as the oracle.

Both builds start from the same sources. Of the text build, toctrees are taken away (a harvest has
none) and so are code blocks, which are compared on their own and to the letter.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import sphinx_docs
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from doxtr_rag.core.documents import BlockKind
from doxtr_rag.sphinx_ext.harvester import InternalLinks, harvest

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

AFTER_OTHER_EXTENSIONS = 950
DISTINCTIVE_CHARS = 12

CODE_WAS_HERE = "Code was here."

ALLOWED = {
    ("usage/installation", "Installation methods"): "the title of a local table of contents",
}
"""(document, sentence) of the text build that the harvest lacks -> why that is right."""

_PLACEHOLDER = re.compile(r"\[(?:image|graph)(?:: [^\]]*)?\]")
_BULLET = re.compile(r"^\s*(?:[*\-]|\d{1,2}\.)\s+")
_UNDERLINE = re.compile(r"^\s*([*=\-^~\"`#+])\1+\s*$")
_TABLE_LINE = re.compile(r"^\s*[+|]")
_TABLE_RULE = re.compile(r"^[\s+|=\-]+$")
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+")
_NOISE = re.compile(r"[\W_]+")


def squashed(text: str) -> str:
    """Letters and digits only: blind to quotes, dashes, markup and line breaks."""
    return _NOISE.sub("", text.lower())


@dataclass
class Corpus:
    """What two builds of the same documentation gave, by document."""

    sections: dict = field(default_factory=dict)
    unseen: dict = field(default_factory=dict)
    code: dict = field(default_factory=dict)
    shown: dict = field(default_factory=dict)

    def harvested(self, docname: str) -> str:
        return "\n\n".join(
            line
            for section in self.sections[docname]
            for line in (*section.titles, *(block.text for block in section.blocks))
        )


def build(builder, out, collect):
    source = sphinx_docs.source()
    with patch_docutils(str(source)), docutils_namespace():
        app = Sphinx(
            srcdir=source,
            confdir=source,
            outdir=out / builder,
            doctreedir=out / f"{builder}-doctrees",
            buildername=builder,
            confoverrides={"intersphinx_mapping": {}},
            parallel=2,
            status=None,
            warning=io.StringIO(),
        )
        app.connect("doctree-resolved", collect, priority=AFTER_OTHER_EXTENSIONS)
        app.build()
    assert app.statuscode == 0
    return app


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    try:
        sphinx_docs.source()
    except sphinx_docs.SphinxDocsError as error:
        pytest.skip(str(error))
    out = tmp_path_factory.mktemp("oracle")
    found = Corpus()
    build("html", out, lambda *event: _collect_harvest(found, *event))
    build("text", out, lambda *event: _collect_code(found, *event))
    for docname in found.sections:
        found.shown[docname] = (out / "text" / f"{docname}.txt").read_text(encoding="utf-8")
    return found


def _is_page(app, doctree, docname):
    return str(doctree.get("source")) == str(app.env.doc2path(docname))


def _collect_harvest(found, app, doctree, docname):
    if not _is_page(app, doctree, docname):
        return
    uris = {name: app.builder.get_target_uri(name) for name in app.env.all_docs}
    links = InternalLinks(uris, docname)
    todos = app.config.todo_include_todos
    found.sections[docname] = harvest(doctree, docname, resolve_link=links, show_todos=todos)
    found.unseen[docname] = [
        node.astext()
        for kind in (nodes.comment, nodes.substitution_definition, nodes.raw)
        for node in doctree.findall(kind)
        if type(node) is kind
    ]


def _collect_code(found, app, doctree, docname):
    if not _is_page(app, doctree, docname):
        return
    for toctree in list(doctree.findall(addnodes.toctree)):
        toctree.parent.remove(toctree)
    blocks = [*doctree.findall(nodes.literal_block), *doctree.findall(nodes.doctest_block)]
    found.code[docname] = [block.astext() for block in blocks]
    for block in blocks:
        block.parent.replace(block, nodes.literal_block("", CODE_WAS_HERE))


def sentences(text: str) -> Iterator[str]:
    """What the text builder shows, a sentence or a table cell at a time."""
    for paragraph in re.split(r"\n\s*\n", _PLACEHOLDER.sub("", text)):
        lines = paragraph.splitlines()
        if all(map(_TABLE_LINE.match, lines)):
            yield from _cells(lines)
            continue
        prose = (line for line in lines if not _UNDERLINE.match(line))
        joined = " ".join(_BULLET.sub("", line).strip() for line in prose)
        yield from _SENTENCE_END.split(joined)


def _cells(lines: list[str]) -> Iterator[str]:
    """The cells of a drawn table; a cell goes on in the next line until a rule ends its row."""
    row: list[str] = []
    for line in lines:
        if _TABLE_RULE.match(line) and not (row and line.strip("| ") == ""):
            yield from row
            row = []
            continue
        parts = line.strip().strip("|").split("|")
        row = [
            f"{before} {part}"
            for before, part in zip(row or [""] * len(parts), parts, strict=False)
        ]
    yield from row


def test_no_sentence_of_the_text_builder_is_missing(corpus):
    shown = {docname: list(sentences(text)) for docname, text in corpus.shown.items()}
    missing = {
        (docname, sentence)
        for docname, found in shown.items()
        for known in [squashed(corpus.harvested(docname) + CODE_WAS_HERE)]
        for sentence in found
        if squashed(sentence) not in known
    }
    assert sum(map(len, shown.values())) > 18_000
    assert missing == set(ALLOWED)


def test_every_listing_is_kept_to_the_letter(corpus):
    missing = [
        (docname, code)
        for docname, listings in corpus.code.items()
        for known in [_code_blocks(corpus.sections[docname])]
        for code in listings
        if code.strip("\n") not in known
    ]
    assert sum(map(len, corpus.code.values())) > 500
    assert not missing


def _code_blocks(sections):
    blocks = (block for section in sections for block in section.blocks)
    texts = [block.text for block in blocks if block.kind is BlockKind.CODE]
    return {text.split("\n", 1)[1].rsplit("\n", 1)[0] for text in texts}


def test_no_comment_substitution_or_raw_text_leaks(corpus):
    hidden = [
        (docname, text)
        for docname, texts in corpus.unseen.items()
        for shown in [squashed(corpus.shown[docname] + "".join(corpus.code[docname]))]
        for text in texts
        if len(squashed(text)) >= DISTINCTIVE_CHARS and squashed(text) not in shown
    ]
    leaked = [
        (docname, text)
        for docname, text in hidden
        if squashed(text) in squashed(corpus.harvested(docname))
    ]
    assert len(hidden) >= DISTINCTIVE_CHARS
    assert not leaked


def test_sections_are_anchored_and_titled(corpus):
    sections = [(name, section) for name, found in corpus.sections.items() for section in found]
    anchors = [(name, section.anchor) for name, section in sections if section.anchor]
    assert len(set(anchors)) == len(anchors)
    assert all(section.titles and all(section.titles) for _, section in sections if section.anchor)


def test_internal_links_lead_to_documents_of_the_build(corpus):
    links = {
        link
        for sections in corpus.sections.values()
        for section in sections
        for block in section.blocks
        for link in block.links
    }
    assert len(links) > 500
    assert {link.partition("#")[0] for link in links} <= set(corpus.sections)
