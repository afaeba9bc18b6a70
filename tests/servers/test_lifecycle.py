"""The life of a server: whatever ends the watch over it ends it too."""

import pytest

from doxtr_rag.servers.gate import Gate
from doxtr_rag.servers.lifecycle import bind_exactly, run


class WatchFailedError(Exception):
    """Nobody foresaw it."""


def fail():
    raise WatchFailedError


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param({"when_ready": fail}, id="it cannot be published"),
        pytest.param({"when_ready": lambda: None, "keep_found": fail}, id="it cannot be kept"),
    ],
)
def test_a_server_that_nobody_watches_ends(calls):
    with bind_exactly("127.0.0.1", 0) as listener, pytest.raises(WatchFailedError):
        run(Gate({}, kb_id="kb", token=None), [listener], idle_s=None, **calls)


def test_a_server_that_nobody_can_find_ends():
    with bind_exactly("127.0.0.1", 0) as listener:
        run(
            Gate({}, kb_id="kb", token=None),
            [listener],
            idle_s=None,
            when_ready=lambda: None,
            keep_found=lambda: False,
        )
