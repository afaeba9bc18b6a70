"""`endpoints.json` as its own program writes it, and as somebody else might."""

import json

import pytest

from doxtr_rag.core.errors import ConfigError
from doxtr_rag.servers.endpoints import (
    LARGEST_FILE,
    Endpoints,
    StoreTarget,
    is_published,
    publish,
    read_endpoints,
    read_token,
)


def target(port):
    return StoreTarget("embedded", "127.0.0.1", port, False, "tenant", "database", "tiny_8")


ENDPOINTS = Endpoints(
    kb_id="kb",
    project="demo",
    model="tiny",
    dimension=8,
    fingerprint="f" * 64,
    stores={"shared": target(8787), "private": target(8788)},
    api_port=8789,
)
TOKEN = "a" * 64
SHARED = ENDPOINTS.record()["shared"]
EMBEDDING = ENDPOINTS.record()["embedding"]


@pytest.fixture
def state(tmp_path):
    publish(tmp_path, ENDPOINTS, TOKEN)
    return tmp_path


def write(state, text):
    path = state / "endpoints.json"
    path.write_text(text)
    path.chmod(0o600)


def changed(**fields):
    return json.dumps(ENDPOINTS.record() | fields)


def test_what_is_published_is_read_again(state):
    assert read_endpoints(state) == ENDPOINTS
    assert read_token(state) == TOKEN
    assert {path.stat().st_mode & 0o777 for path in state.iterdir()} == {0o600}
    publish(state, ENDPOINTS.stopped(), None)
    record = json.loads((state / "endpoints.json").read_text())
    assert (record["search_url"], record["embedding"]["embed_url"]) == (None, None)
    assert record["token_file"] is None
    assert read_token(state) is None


def test_ports_may_be_others_and_it_is_published_all_the_same(state):
    stopped = ENDPOINTS.stopped()
    publish(state, stopped, None)
    assert is_published(state, stopped)
    write(state, json.dumps(stopped.record() | {"shared": SHARED | {"port": 8790}}))
    assert is_published(state, stopped)
    for port in (0, "8787", 8787.5, True, [8787], 65536):
        write(state, json.dumps(stopped.record() | {"shared": SHARED | {"port": port}}))
        assert not is_published(state, stopped)


def test_before_the_first_there_are_none(tmp_path):
    assert read_endpoints(tmp_path) is None
    assert read_token(tmp_path) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "[" * 200_000,
        '{"version":' + "[" * 900 + "]" * 900 + "}",
        changed(version=2),
        changed(version=[[[[1]]]]),
        changed(kb_id="\ud800"),
        changed(kb_id="a\nb"),
        changed(kb_id=3),
        changed(project=""),
        changed(search_url="http://127.0.0.1:0/search"),
        changed(search_url="http://127.0.0.1:99999/search"),
        changed(search_url="http://evil.example:8789/search"),
        changed(search_url="http://127.0.0.1:8789@evil.example/search"),
        changed(search_url="https://127.0.0.1:8789/search"),
        changed(search_url=["http://127.0.0.1:8789/search"]),
        changed(token_file="../../secret"),  # noqa: S106 - a hostile name
        changed(shared=SHARED | {"host": "evil.example"}),
        changed(shared=SHARED | {"port": 0}),
        changed(shared=SHARED | {"port": "8787"}),
        changed(shared=SHARED | {"ssl": "no"}),
        changed(shared=SHARED | {"collection": "a/../b"}),
        changed(shared=SHARED | {"header_keys": ["X-A\r\nX-B"]}),
        changed(private=None),
        changed(embedding=EMBEDDING | {"dimension": 10**9}),
        changed(embedding=EMBEDDING | {"fingerprint": "g" * 64}),
        changed(embedding=EMBEDDING | {"dimension": True}),
        json.dumps({"padding": "x" * LARGEST_FILE}),
    ],
    ids=range(29),
)
def test_what_no_server_of_ours_wrote_is_refused(state, text):
    write(state, text)
    with pytest.raises(ConfigError, match="doxtr-rag serve --detach"):
        read_endpoints(state)
    assert not is_published(state, ENDPOINTS)
    publish(state, ENDPOINTS, TOKEN)
    assert read_endpoints(state) == ENDPOINTS


def test_a_port_is_a_whole_number_however_it_is_written(state):
    write(state, changed(shared=SHARED | {"port": 8787.0}))
    assert isinstance(read_endpoints(state).stores["shared"].port, int)


def test_fields_of_a_later_version_are_left_out(state):
    write(state, changed(shared=SHARED | {"mood": "good"}, later={"deep": [1]}))
    assert read_endpoints(state) == ENDPOINTS


@pytest.mark.parametrize("name", ["endpoints.json", "server.token"])
@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602])
def test_files_that_others_may_open_are_not_believed(state, name, mode):
    (state / name).chmod(mode)
    read = read_endpoints if name == "endpoints.json" else read_token
    with pytest.raises(ConfigError, match="somebody else"):
        read(state)
