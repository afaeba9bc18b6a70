"""Sections, anchors, titles and links of a document, and what happens to one that fails."""

import pytest
from docutils import frontend, nodes, utils
from docutils.core import publish_doctree
from harvest_project import dump, harvest_text

from doxtr_rag.core.documents import BlockKind
from doxtr_rag.core.errors import CorruptDocumentError, LimitExceededError
from doxtr_rag.sphinx_ext.harvester import InternalLinks, caption_labels, harvest

pytestmark = pytest.mark.sphinx_side


def document(*children):
    settings = frontend.get_default_settings()
    tree = utils.new_document("memory", settings)
    tree.extend(children)
    return tree


def paragraph(text):
    return nodes.paragraph("", text)


def texts(tree, **options):
    return [block.text for section in harvest(tree, "doc", **options) for block in section.blocks]


# Nodes of extensions that are not installed, as those extensions declare them.


class mermaid(nodes.General, nodes.Inline, nodes.Element):  # noqa: N801
    pass


class plantuml(nodes.General, nodes.Element):  # noqa: N801
    pass


class d2(nodes.General, nodes.Element):  # noqa: N801
    pass


class diagrams(nodes.General, nodes.Element):  # noqa: N801
    pass


class autosummary_toc(nodes.comment):  # noqa: N801
    pass


class inheritance_diagram(nodes.General, nodes.Inline, nodes.Element):  # noqa: N801
    pass


class stranger(nodes.Element):  # noqa: N801
    pass


class inline_stranger(nodes.Inline, nodes.Element):  # noqa: N801
    pass


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(
            mermaid(code="graph LR\na-->b"), ["```mermaid\ngraph LR\na-->b\n```"], id="mermaid"
        ),
        pytest.param(plantuml(uml="a -> b"), ["```plantuml\na -> b\n```"], id="plantuml"),
        pytest.param(d2(code="a -> b"), ["```d2\na -> b\n```"], id="d2"),
        pytest.param(diagrams(code="Node()"), ["```python\nNode()\n```"], id="diagrams"),
        pytest.param(
            inheritance_diagram("", nodes.reference("", "a.B"), nodes.reference("", "a.C")),
            ["a.B, a.C"],
            id="inheritance-diagram-is-its-classes",
        ),
        pytest.param(
            stranger("", paragraph("kept")), ["kept"], id="unknown-element-is-its-children"
        ),
        pytest.param(stranger(code="x = 1"), ["```\nx = 1\n```"], id="unknown-leaf-is-its-code"),
        pytest.param(stranger(alt="described"), ["described"], id="unknown-leaf-is-its-alt"),
        pytest.param(stranger(), [], id="unknown-empty-leaf-is-nothing"),
        pytest.param(
            nodes.paragraph(
                "", "", nodes.Text("see "), inline_stranger(alt="alt"), nodes.Text(".")
            ),
            ["see alt."],
            id="unknown-inline-leaf-is-its-alt",
        ),
        pytest.param(
            nodes.paragraph("", "", nodes.Text("see "), mermaid(code="a-->b"), nodes.Text(".")),
            ["see", "```mermaid\na-->b\n```", "."],
            id="diagram-inside-a-sentence",
        ),
        pytest.param(autosummary_toc("", "hidden"), [], id="subclass-of-comment-is-hidden"),
        pytest.param(
            nodes.paragraph(
                "", "", nodes.Text("C"), nodes.inline("", "[source]", classes=["viewcode-link"])
            ),
            ["C"],
            id="source-links-are-hidden",
        ),
        pytest.param(
            nodes.topic("", nodes.title("", "Toc"), paragraph("Entry"), classes=["contents"]),
            [],
            id="local-table-of-contents-is-hidden",
        ),
    ],
)
def test_nodes_of_other_extensions(node, expected):
    assert texts(document(node)) == expected


def need():
    """What sphinx-needs makes of a need with a title, an option and content."""
    title = nodes.inline(
        "", "", nodes.Text("Requirement: "), nodes.strong("", "Brake"), nodes.Text(" REQ_1")
    )
    buttons = nodes.inline("", "", classes=["needs", "needs_collapse"])
    buttons += [
        nodes.inline("", "Show", classes=["needs", "collapsed"]),
        nodes.inline("", "Hide", classes=["needs", "visible"]),
    ]
    head = nodes.line_block("", nodes.line("", "", title, buttons))
    meta = nodes.line_block("", nodes.line("", "status: open"))
    rows = [
        nodes.row("", nodes.entry("", part), classes=["need", name])
        for name, part in (("head", head), ("meta", meta), ("content", paragraph("It stops.")))
    ]
    group = nodes.tgroup("", nodes.colspec(colwidth=100), nodes.tbody("", *rows), cols=1)
    return nodes.table("", group, ids=["REQ_1"], classes=["need"])


def test_a_need_is_a_section_with_its_id():
    page = nodes.section("", nodes.title("", "Page"), need(), ids=["page"])
    assert dump(harvest(document(page), "doc")) == (
        "# page | Page\n"
        "# REQ_1 | Page / Requirement: Brake REQ_1\n"
        "## text\nstatus: open\n"
        "## text\nIt stops.\n"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("Only text.\n", "# (no anchor) | \n## text\nOnly text.\n", id="no-section"),
        pytest.param(
            "Before.\n\nPage\n====\n\nText.\n\nPart\n----\n\nMore.\n",
            "# (no anchor) | Page\n## text\nBefore.\n"
            "# page | Page\n## text\nText.\n# part | Page / Part\n## text\nMore.\n",
            id="text-before-the-first-section",
        ),
        pytest.param(
            ".. py:function:: f()\n\n   Text.\n",
            "# f | f()\n## text\nText.\n",
            id="described-object-without-a-section",
        ),
        pytest.param("", "\n", id="empty-document"),
    ],
)
def test_sections_of(source, expected, tmp_path):
    assert dump(harvest_text(tmp_path, source)) == expected


def test_the_title_of_a_docutils_document_is_the_page_title():
    tree = publish_doctree("Page\n====\n\nText.\n\nPart\n----\n\nMore.\n\nOther\n-----\n\nEnd.\n")
    assert dump(harvest(tree, "doc")) == (
        "# (no anchor) | Page\n## text\nText.\n"
        "# part | Page / Part\n## text\nMore.\n"
        "# other | Page / Other\n## text\nEnd.\n"
    )


def bullets(*items):
    return nodes.bullet_list("", *(nodes.list_item("", paragraph(item)) for item in items))


def test_a_long_list_can_be_cut_between_its_items():
    blocks = texts(document(bullets(*(f"{number} " + "word " * 40 for number in range(20)))))
    assert len(blocks) > 4
    assert all(block.startswith("- ") and len(block) <= 800 for block in blocks)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        pytest.param({}, "1. x", id="plain"),
        pytest.param({"enumtype": "arabic", "start": 9, "suffix": ")"}, "9) x", id="number"),
        pytest.param({"enumtype": "loweralpha", "start": 28, "suffix": "."}, "ab. x", id="letters"),
        pytest.param(
            {"enumtype": "upperroman", "start": 1994, "prefix": "(", "suffix": ")"},
            "(MCMXCIV) x",
            id="roman",
        ),
    ],
)
def test_enumerators(attributes, expected):
    items = nodes.enumerated_list("", nodes.list_item("", paragraph("x")), **attributes)
    assert texts(document(items)) == [expected]


def nested(depth):
    node = paragraph("deep")
    for _ in range(depth):
        node = nodes.bullet_list("", nodes.list_item("", node))
    return document(node)


def test_nesting_that_people_write_is_no_failure():
    assert texts(nested(40)) == ["- " * 40 + "deep"]


def test_nesting_that_nobody_writes_fails_the_document_only():
    with pytest.raises(CorruptDocumentError, match=r"^doc: .*RecursionError"):
        harvest(nested(2000), "doc")


def linking(refuri):
    return document(nodes.paragraph("", "", nodes.reference("", "there", refuri=refuri)))


def test_a_failure_names_the_document_and_the_cause():
    def resolve(refuri):
        raise KeyError(refuri)

    with pytest.raises(CorruptDocumentError, match=r"^doc: .*KeyError: 'x'") as failure:
        harvest(linking("x"), "doc", resolve_link=resolve)
    assert isinstance(failure.value.__cause__, KeyError)


def test_an_error_of_our_own_passes_through():
    def resolve(refuri):
        raise LimitExceededError("doc", refuri)

    with pytest.raises(LimitExceededError):
        harvest(linking("x"), "doc", resolve_link=resolve)


def test_links_are_kept_in_order_and_once():
    references = [nodes.reference("", name, refuri=name) for name in ("b", "a", "b", "out")]
    references.append(nodes.reference("", "here", refid="part"))
    (section,) = harvest(
        document(nodes.paragraph("", "", *references)),
        "doc",
        resolve_link={"a": "a#", "b": "b#x"}.get,
    )
    assert section.blocks[0].links == ("b#x", "a#", "doc#part")


def test_links_of_a_title_belong_to_the_first_block_of_its_section():
    title = nodes.title("", "", nodes.reference("", "Title", refuri="a"))
    page = nodes.section("", title, paragraph("One."), paragraph("Two."), ids=["page"])
    (section,) = harvest(document(page), "doc", resolve_link={"a": "a#"}.get)
    assert [block.links for block in section.blocks] == [("a#",), ()]


HTML = {
    "index": "index.html",
    "a/one": "a/one.html",
    "a/two": "a/two.html",
    "mit ä": "mit%20%C3%A4.html",
}
DIRHTML = {"index": "", "a/index": "a/", "a/two": "a/two/", "b": "b/"}


@pytest.mark.parametrize(
    ("uris", "docname", "refuri", "expected"),
    [
        pytest.param(HTML, "a/one", "two.html#x", "a/two#x", id="html-sibling"),
        pytest.param(HTML, "a/one", "../index.html", "index#", id="html-root"),
        pytest.param(HTML, "index", "a/one.html#x", "a/one#x", id="html-below"),
        pytest.param(HTML, "index", "mit%20%C3%A4.html#%C3%BC", "mit ä#ü", id="html-quoted"),
        pytest.param(HTML, "a/one", "#part", "a/one#part", id="same-page-by-fragment"),
        pytest.param(HTML, "a/one", "", "a/one#", id="same-page"),
        pytest.param(HTML, "a/one", "missing.html", None, id="not-a-document"),
        pytest.param(HTML, "a/one", "https://example.org/a/two.html", None, id="another-site"),
        pytest.param(HTML, "a/one", "//example.org/a/two.html", None, id="another-host"),
        pytest.param(HTML, "a/one", "/a/two.html", None, id="another-root"),
        pytest.param(HTML, "a/one", "mailto:a@example.org", None, id="mail"),
        pytest.param(HTML, "a/one", "http://[broken", None, id="no-uri"),
        pytest.param(DIRHTML, "a/two", "../../b/#x", "b#x", id="dirhtml-cousin"),
        pytest.param(DIRHTML, "a/two", "../", "a/index#", id="dirhtml-parent"),
        pytest.param(DIRHTML, "a/two", "../../", "index#", id="dirhtml-root"),
        pytest.param(DIRHTML, "index", "a/two/", "a/two#", id="dirhtml-below"),
        pytest.param({}, "unlisted", "#part", "unlisted#part", id="page-that-is-not-listed"),
    ],
)
def test_internal_links(uris, docname, refuri, expected):
    assert InternalLinks(uris, docname)(refuri) == expected


def test_caption_labels_are_what_numfig_shows():
    numbers = {"figure": {"fig": (1, 2)}, "table": {"tab": (3,)}, "custom": {"x": (1,)}}
    formats = {"figure": "Fig. %s", "table": "Table %s"}
    assert caption_labels(numbers, formats) == {"fig": "Fig. 1.2", "tab": "Table 3"}


def table(*cell):
    row = nodes.row("", nodes.entry("", *cell))
    return nodes.table("", nodes.tgroup("", nodes.colspec(), nodes.tbody("", row), cols=1))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        pytest.param([nodes.literal_block("", "a\n\nb")], "`a` `b`", id="code"),
        pytest.param([bullets("a", "b")], "- a - b", id="list"),
        pytest.param([paragraph("a\nb"), paragraph("c|d")], "a b c\\|d", id="paragraphs"),
        pytest.param([table(paragraph("x|y"))], "\\|  \\| \\| x\\|y \\|", id="table"),
        pytest.param([], "", id="nothing"),
    ],
)
def test_a_cell_is_one_line(cells, expected):
    (block,) = harvest(document(table(*cells)), "doc")[0].blocks
    assert block.kind is BlockKind.TABLE
    assert block.text.split("\n") == ["|  |", "| --- |", f"| {expected} |"]


@pytest.mark.parametrize("length", [5, 2000])
def test_a_cell_over_rows_is_repeated_while_it_is_short(length):
    tall = nodes.entry("", paragraph("x" * length), morerows=1)
    rows = [
        nodes.row("", tall, nodes.entry("", paragraph("1"))),
        nodes.row("", nodes.entry("", paragraph("2"))),
    ]
    tall_table = nodes.table("", nodes.tgroup("", nodes.tbody("", *rows), cols=2))
    repeated = "x" * length if length < 100 else ""
    assert texts(document(tall_table))[0].split("\n")[2:] == [
        f"| {'x' * length} | 1 |",
        f"| {repeated} | 2 |",
    ]
