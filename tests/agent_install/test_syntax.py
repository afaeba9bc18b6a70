"""One entry goes into a file or out of it; everything else stays as it was written."""

import json

import pytest
import tomlkit

from doxtr_rag.agent_install.syntax import JSON, TOML

ADDRESS = ("servers", "doxtr-rag")
ENTRY = {"command": "/bin/doxtr-rag", "args": ["mcp"]}
TOML_ADDRESS = ("mcp_servers", "doxtr-rag")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{\n  "b": 1,\n  "a": {\n    "z": null\n  }\n}\n', id="two-spaces"),
        pytest.param('{\n    "servers": {\n        "x": {}\n    }\n}', id="four-no-end"),
        pytest.param('{\n\t"b": "ø",\n\t"c": "模"\n}\n', id="tabs-and-letters"),
        pytest.param('{\n  "b": "\\u00f8"\n}\n', id="escaped-letters"),
        pytest.param('{\n  "b": "ø \\ud800"\n}\n', id="half-a-surrogate-pair"),
    ],
)  # fmt: skip
def test_json_comes_back_as_it_was(text):
    with_ours = JSON.put(text, ADDRESS, ENTRY)
    assert JSON.read(with_ours)["servers"]["doxtr-rag"] == ENTRY
    assert list(JSON.read(with_ours))[: len(JSON.read(text))] == list(JSON.read(text))
    with_ours.encode()
    without = JSON.drop(with_ours, ADDRESS)
    assert JSON.read(without) == JSON.read(text)
    assert without == text or "\\ud800" in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("{", "Expecting", id="cut-off"),
        pytest.param('// mine\n{"a": 1}', "Expecting", id="comment"),
        pytest.param('{"a": 1,}', "property name", id="trailing-comma"),
        pytest.param("[]", "not a JSON object", id="a-list"),
        pytest.param('{"a": 1, "a": 2}', "'a' is there twice", id="a-key-twice"),
        pytest.param("[" * 200_000, "nested too deeply", id="depth"),
    ],
)
def test_unusable_json_is_said(text, reason):
    with pytest.raises(ValueError, match=reason):
        JSON.read(text)


def test_an_empty_file_is_an_empty_object():
    assert json.loads(JSON.put(" \n", ADDRESS, ENTRY)) == {"servers": {"doxtr-rag": ENTRY}}
    assert JSON.is_blank("")


LAYOUTS = [
    pytest.param("", id="empty"),
    pytest.param('# mine\nmodel = "x" # why\n', id="comments"),
    pytest.param('[mcp_servers.a]\ncommand = "a" # keep\n\n[tui]\nx = 1\n', id="another-server"),
    pytest.param('[mcp_servers.a]\nx = 1\n[tui]\ny = 1\n[mcp_servers.b]\nz = 1\n', id="apart"),
    pytest.param('mcp_servers.a.command = "a"\nmodel = "x"\n[tui]\nx = 1', id="dotted-no-end"),
    pytest.param('[mcp_servers]\n[mcp_servers.a]\nx = 1\n# the end\n', id="explicit"),
    pytest.param('mcp_servers = { a = { command = "a" } } # one line\n[tui]\nx = 1\n', id="inline"),
    pytest.param("[[profiles]]\nn = 1\n[[profiles]]\nn = 2\n", id="array-of-tables"),
]  # fmt: skip


@pytest.mark.parametrize("text", LAYOUTS)
def test_toml_keeps_comments_and_meaning(text):
    before = tomlkit.parse(text).unwrap()
    with_ours = TOML.put(text, TOML_ADDRESS, ENTRY)
    servers = before.get("mcp_servers", {})
    assert TOML.read(with_ours) == before | {"mcp_servers": servers | {"doxtr-rag": ENTRY}}
    assert all(line in with_ours for line in text.splitlines() if "mcp_servers = " not in line)
    assert with_ours.count("#") == text.count("#")
    without = TOML.drop(with_ours, TOML_ADDRESS)
    assert TOML.read(without) == before
    assert without.count("#") == text.count("#")
    assert TOML.is_blank(without) is (not text)


@pytest.mark.parametrize("text", ["a = ", "a = 1\na = 2\n", "[a]\n[a]\n"])
def test_unusable_toml_is_said(text):
    with pytest.raises(ValueError, match=r"\S"):
        TOML.read(text)


@pytest.mark.parametrize("text", ["mcp_servers = 1\n", "[[mcp_servers]]\nx = 1\n"])
def test_toml_that_cannot_take_the_entry_is_said(text):
    with pytest.raises(ValueError, match="holds no servers"):
        TOML.put(text, TOML_ADDRESS, ENTRY)
