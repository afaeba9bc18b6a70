"""A store of the server while its folder is replaced, and while it cannot be opened."""

import threading
import time

import pytest

from doxtr_rag.core.errors import IndexNotBuiltError, StoreUnavailableError
from doxtr_rag.core.scope import Scope
from doxtr_rag.servers.stores import OpenStore, ServedStore, StoreHealth


class Place:
    """A place where one store after another lies; `closed` are those let go of."""

    def __init__(self):
        self.number = 1
        self.opened = []
        self.closed = []

    def open_store(self):
        number = self.number
        if number is None:
            raise IndexNotBuiltError("nothing was stored yet: run sphinx-build")
        if number == "damaged":
            raise StoreUnavailableError("the corpus is damaged")
        self.opened.append(number)
        return OpenStore(number, number, lambda: self.closed.append(number))

    def served(self):
        return ServedStore(
            "shared",
            Scope.SHARED_ORG,
            open_store=self.open_store,
            stamp=lambda: self.number,
            look=lambda: StoreHealth("ready"),
        )


@pytest.fixture
def place():
    return Place()


def test_one_that_stays_is_opened_once(place):
    store = place.served()
    for _ in range(3):
        with store.opened() as opened:
            assert opened.search == 1
    assert (place.opened, place.closed) == ([1], [])
    store.close()
    assert place.closed == [1]


def test_a_replaced_one_is_closed_after_its_last_question(place):
    store = place.served()
    with store.opened() as first, store.opened() as second:
        assert first is second
        place.number = 2
        with store.opened() as replacement:
            assert replacement.search == 2
        assert place.closed == []
    assert place.closed == [1]


def test_a_question_outlives_the_end_of_the_server(place):
    store = place.served()
    with store.opened():
        store.close()
        assert place.closed == []
    assert place.closed == [1]


def test_one_that_is_gone_is_found_again_when_it_is_back(place):
    store = place.served()
    with store.opened():
        pass
    place.number = None
    for _ in range(2):
        with pytest.raises(IndexNotBuiltError), store.opened():
            pass
    assert place.closed == [1]
    place.number = 3
    with store.opened() as opened:
        assert opened.search == 3


def test_a_failure_to_open_is_no_store(place):
    store, number = place.served(), place.number
    place.number = "damaged"
    for _ in range(2):
        with pytest.raises(StoreUnavailableError), store.opened():
            pass
    place.number = number
    with store.opened() as opened:
        assert opened.search == number


def test_threads_never_hold_a_closed_one(place):
    store, wrong, is_over = place.served(), [], threading.Event()

    def ask():
        while not is_over.is_set():
            with store.opened() as opened:
                time.sleep(0)
                wrong.extend([opened.search] if opened.search in place.closed else [])

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    for number in range(2, 200):
        place.number = number
        time.sleep(0.0005)
    is_over.set()
    for asker in askers:
        asker.join(10)
    store.close()
    assert wrong == []
    assert sorted(place.closed) == sorted(place.opened)
    assert len(place.opened) > 10
