"""What a page shows of other pages and files, and what a shared page may not say."""

import pytest
from docutils import nodes
from docutils.utils import new_document

from doxtr_rag.core.documents import Block, BlockKind, Section
from doxtr_rag.sphinx_ext.references import compared_files, linked_documents, without_links

SECTIONS = (
    Section("a", ("Title",), (Block(BlockKind.TEXT, "See both.", ("secret#", "open#x")),)),
    Section("b", ("Title", "Part"), (Block(BlockKind.TEXT, "And again.", ("secret#plan",)),)),
)


def test_links_to_hidden_documents_go_and_their_text_stays():
    assert linked_documents(SECTIONS) == ("open", "secret")
    first, second = without_links(SECTIONS, {"secret"})
    assert first.blocks == (Block(BlockKind.TEXT, "See both.", ("open#x",)),)
    assert second.blocks == (Block(BlockKind.TEXT, "And again."),)
    assert without_links(SECTIONS, ()) is SECTIONS


@pytest.mark.parametrize(
    ("text", "attributes", "files"),
    [
        pytest.param(
            "--- /x/old.txt\n+++ /x/new.txt\n@@ -1 +1 @@",
            {"language": "udiff", "source": "/x/new.txt"},
            ("/x/old.txt",),
            id="a-compared-file",
        ),
        pytest.param(
            "--- /x/old.txt", {"language": "udiff"}, (), id="a-listing-of-the-page-itself"
        ),
        pytest.param("--- x", {"language": "text", "source": "/x"}, (), id="no-comparison"),
        pytest.param("", {"language": "udiff", "source": "/x"}, (), id="equal-files"),
    ],
)
def test_files_that_are_compared_are_found(text, attributes, files):
    document = new_document("page.rst")
    document += nodes.literal_block(text, text, **attributes)
    assert compared_files(document) == files
