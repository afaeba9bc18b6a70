"""The words by which a person names a store."""

from __future__ import annotations

from doxtr_rag.bootstrap.project import STORE_NAMES

SCOPE_OF_STORE = {name: scope for scope, name in STORE_NAMES.items()}
"""`shared` and `private`."""
