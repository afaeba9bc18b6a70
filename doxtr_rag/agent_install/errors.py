"""What can go wrong while an agent is being served."""

from __future__ import annotations

from doxtr_rag.core.errors import DoxtrRagError


class InstallError(DoxtrRagError):
    """A file of an agent could not be read, written or replaced."""

    kind = "install"


class UnsupportedAgentError(DoxtrRagError):
    """The agent cannot be served at that level."""

    kind = "not_available"
    exit_code = 3
