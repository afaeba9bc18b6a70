"""A small store behind a running server."""

from __future__ import annotations

import pytest
from running_server import CHUNKS, running_server
from store_samples import fill

from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import open_store


@pytest.fixture(scope="session")
def filled_store(tmp_path_factory):
    """The folder of a store with three chunks; no test changes it."""
    folder = tmp_path_factory.mktemp("served") / "store"
    with open_store(folder, Scope.SHARED_ORG, "shared") as store:
        fill(store, CHUNKS)
    return folder


@pytest.fixture(scope="module")
def running(filled_store):
    """A server of that store that a module's tests share."""
    with running_server(filled_store) as server:
        yield server
