"""Every warning of the extension, so that `suppress_warnings` can name it."""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

WARNING_TYPE = "doxtr_rag"
NOT_RAISED = MappingProxyType({"skip_warningsiserror": True})
"""What tells Sphinx before 8.1 to print a message under `-W` and go on."""


class RagWarning(Enum):
    """Warning subtypes: `suppress_warnings = ["doxtr_rag.truncated"]`."""

    ENVIRONMENT = "environment"
    HARVEST = "harvest"
    INCOMPLETE = "incomplete"
    SCOPE = "scope"
    STORE = "store"
    TRUNCATED = "truncated"


def warn(app: Sphinx, kind: RagWarning, message: str, *args: object, page: str = "") -> None:
    """Emit a Sphinx warning; with `-W` the build goes on and fails when it has finished.

    Before Sphinx 8.1 a warning under `-W` is an exception. Raised in a handler, it would cost the
    other pages their place in the knowledge base, and the build all that Sphinx has read.
    """
    before = app._warncount
    _logger().warning(
        message,
        *args,
        type=WARNING_TYPE,
        subtype=kind.value,
        location=page or None,
        extra=dict(NOT_RAISED),
    )
    if app._warncount > before and getattr(app, "warningiserror", False):
        app.statuscode = 1


def fail(app: Sphinx, message: str, *args: object) -> None:
    """Say why the build will fail when it has finished."""
    _logger().error(message, *args, extra=dict(NOT_RAISED))
    app.statuscode = 1


def _logger() -> logging.SphinxLoggerAdapter:
    return logging.getLogger("doxtr_rag")
