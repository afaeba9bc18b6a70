import pytest

from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import open_reader, open_store


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def store(folder):
    with open_store(folder, Scope.SHARED_ORG, "shared") as opened:
        yield opened


@pytest.fixture
def reader(store, folder):
    with open_reader(folder, Scope.SHARED_ORG, "shared") as opened:
        yield opened
