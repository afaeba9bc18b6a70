"""What leaves the shared store first, and what becomes of its vectors."""

import pytest

from doxtr_rag.core.documents import DocumentContext, DocumentInput, Harvest, StoredHash
from doxtr_rag.core.errors import StoreUnavailableError
from doxtr_rag.core.ports import DocumentRecord
from doxtr_rag.core.scope import Scope, ScopeSignal
from doxtr_rag.indexing.withdrawal import Withdrawal, privacy
from doxtr_rag.testing import MemoryStore

SHARED = ScopeSignal("path", Scope.SHARED_ORG, "under source/")
PRIVATE = ScopeSignal("document", Scope.LOCAL_PRIVATE, "access_scope says so")
DOUBT = ScopeSignal("document", None, "unreadable")


def harvest(**signals):
    contexts = {
        name.replace("__", "/"): DocumentContext((), f"{name}.html", f"{name}.rst", (signal,))
        for name, signal in signals.items()
    }
    items = tuple(DocumentInput(name, name, c, tuple) for name, c in contexts.items())
    return Harvest("demo", "sphinx", items[:-1], dict(list(contexts.items())[-1:]))


def record(scope):
    return DocumentRecord("hash", scope, 1, "file.rst")


def test_doubt_is_private_and_what_was_private_has_not_arrived():
    found = privacy(
        harvest(a=SHARED, b=PRIVATE, c=DOUBT, d=PRIVATE),
        {"b": record(Scope.LOCAL_PRIVATE), "d": record(Scope.SHARED_ORG)},
    )
    assert found.private == {"b", "c", "d"}
    assert found.arrived == {"c", "d"}


@pytest.mark.parametrize(
    ("removed", "moved"),
    [
        pytest.param({"guide"}, {"guide"}, id="into-a-folder"),
        pytest.param({"old/guide", "other"}, {"old/guide"}, id="from-folder-to-folder"),
        pytest.param({"guidelines"}, set(), id="another-name-is-another-page"),
    ],
)
def test_a_page_of_the_same_name_that_arrived_in_private_was_moved(removed, moved):
    found = privacy(harvest(noter__guide=PRIVATE, other=SHARED), {})
    assert found.moved(removed) == moved


def test_chunks_go_even_when_their_vectors_cannot_be_saved():
    journal = []
    shared = MemoryStore(Scope.SHARED_ORG, journal=journal)
    private = MemoryStore(Scope.LOCAL_PRIVATE, journal=journal)
    shared.saved["model", "text"] = b"\0\0\0\0"
    private.failures["save_vectors"] = StoreUnavailableError("disk full")
    withdrawal = Withdrawal(harvest(a=PRIVATE), shared)
    with pytest.raises(StoreUnavailableError, match="disk full"):
        withdrawal.withdraw({"demo/a#": StoredHash("a", "content", "text")}, "model", private)
    assert journal[-1] == ("SHARED_ORG", "withdraw")
    assert withdrawal.count == 1
