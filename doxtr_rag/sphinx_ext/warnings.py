"""Every warning of the extension, so that `suppress_warnings` can name it."""

from __future__ import annotations

from enum import Enum

from sphinx.util import logging

WARNING_TYPE = "doxtr_rag"


class RagWarning(Enum):
    """Warning subtypes: `suppress_warnings = ["doxtr_rag.truncated"]`."""

    ENVIRONMENT = "environment"
    HARVEST = "harvest"
    INCOMPLETE = "incomplete"
    SCOPE = "scope"
    SHARING = "sharing"
    TRUNCATED = "truncated"


def warn(kind: RagWarning, message: str, *args: object, location: str | None = None) -> None:
    """Emit a Sphinx warning; `-W` turns it into a failure."""
    logging.getLogger("doxtr_rag").warning(
        message, *args, type=WARNING_TYPE, subtype=kind.value, location=location
    )
