"""`sphinx-build -b rag`: what html would show, resolved and ingested, without writing a page."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from sphinx.builders.html import StandaloneHTMLBuilder

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment


class RagBuilder(StandaloneHTMLBuilder):
    """Feeds the knowledge base and writes nothing.

    It answers to `-b rag` and then calls itself html, so that tags, `only` blocks, transforms and
    other extensions treat it as html and both builders give the same knowledge base.
    """

    name = "rag"
    epilog = "The knowledge base is up to date."
    allow_parallel = False  # nothing is written, so there is nothing to spread over processes
    search = False
    copysource = False

    def __init__(self, app: Sphinx, env: BuildEnvironment) -> None:
        self.name = "html"  # type: ignore[misc]
        super().__init__(app, env)

    def get_outdated_docs(self) -> Iterator[str]:
        """Return nothing: what is missing is requested at `env-updated`."""
        return iter(())

    def prepare_writing(self, docnames: Set[str]) -> None:
        """Prepare nothing."""

    def write_doc(self, docname: str, doctree: nodes.document) -> None:
        """Write nothing; the document was harvested when it was resolved."""

    def write_doc_serialized(self, docname: str, doctree: nodes.document) -> None:
        """Write nothing."""

    def copy_assets(self) -> None:
        """Copy nothing."""

    def finish(self) -> None:
        """Leave indices, assets and the search index unwritten."""

    def cleanup(self) -> None:
        """Release the theme's temporary files."""
        super().cleanup()
