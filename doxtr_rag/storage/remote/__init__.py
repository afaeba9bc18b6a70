"""A store on a Chroma server: its records there, its truth in a local corpus."""

from __future__ import annotations

from doxtr_rag.storage.remote.address import RemoteAccess, RemoteAddress
from doxtr_rag.storage.remote.reader import RemoteReader
from doxtr_rag.storage.remote.store import RemoteStore

__all__ = ["RemoteAccess", "RemoteAddress", "RemoteReader", "RemoteStore"]
