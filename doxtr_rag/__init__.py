"""Retrieval over Sphinx documentation with a hard scope boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doxtr_rag.core.version import VERSION

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__version__ = VERSION


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    from doxtr_rag.sphinx_ext.events import register  # noqa: PLC0415 - Sphinx is an entry, not a need

    register(app)
    return {
        "version": __version__,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
