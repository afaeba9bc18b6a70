"""Other extensions that register our tools are found wherever Pi would load them from."""

import pytest
from agent_files import TOOL, write_tree

from doxtr_rag.agent_install.copies import CopySearch, read_settings

OTHER = 'export default (pi) => pi.registerTool({ name: "other" });\n'


def found(base, ours=()):
    """Return what a search of an agent folder finds, as paths below it."""
    home = base.parent
    search = CopySearch(base / "extensions" / "chroma-rag", frozenset(ours), home)
    settings = read_settings(base / "settings.json")
    search.in_folder(base / "extensions", settings)
    search.in_settings(settings)
    return {
        copy.path.resolve().relative_to(home).as_posix(): copy.listed_in
        for copy in search.found.values()
    }


@pytest.fixture
def agent(tmp_path):
    return tmp_path.resolve() / "agent"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TOOL, id="literal"),
        pytest.param("const T = 'search_knowledge_base';\nregister({ name: T });", id="constant"),
        pytest.param("pi.registerTool({\n  name:\n    `search_knowledge_base` })", id="template"),
        pytest.param('{ "name": "search_knowledge_base" }', id="quoted-key"),
        pytest.param('register({ name: "kb_doc" })', id="another-tool-of-ours"),
        pytest.param('register({ name: "kb_read" })', id="and-the-third"),
    ],
)
def test_registration_is_recognised(agent, text):
    write_tree(agent, {"extensions/old.ts": text})
    assert found(agent) == {"agent/extensions/old.ts": None}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(OTHER, id="another-tool"),
        pytest.param('if (event.toolName === "search_knowledge_base") log();', id="comparison"),
        pytest.param("// see search_knowledge_base\n", id="mention"),
        pytest.param('register({ name: "search_knowledge_base_2" });', id="longer-name"),
    ],
)
def test_mention_is_no_registration(agent, text):
    write_tree(agent, {"extensions/old.ts": text})
    assert found(agent) == {}


@pytest.mark.parametrize(
    ("files", "copies"),
    [
        pytest.param({"extensions/a.js": TOOL}, ["agent/extensions/a.js"], id="a-file"),
        pytest.param({"extensions/a/index.ts": TOOL}, ["agent/extensions/a"], id="a-folder"),
        pytest.param(
            {"extensions/backup/package.json": {"pi": {"extensions": ["./x.ts"]}},
             "extensions/backup/x.ts": 'export { default } from "./lib/tool.js";',
             "extensions/backup/lib/tool.ts": 'import "../x.js";' + TOOL},
            ["agent/extensions/backup"], id="through-manifest-and-imports"),
        pytest.param(
            {"extensions/a/index.ts": 'import t from "./lib";', "extensions/a/lib/index.ts": TOOL},
            ["agent/extensions/a"], id="through-an-imported-folder"),
        pytest.param({"extensions/a/x.ts": TOOL, "extensions/.b.ts": TOOL,
                      "extensions/a/tests/x.ts": TOOL}, [], id="what-pi-does-not-load"),
        pytest.param({"extensions/chroma-rag/index.ts": TOOL}, [], id="ours"),
        pytest.param({"settings.json": {"extensions": ["./mine/a.ts"]}, "mine/a.ts": TOOL},
                     ["agent/mine/a.ts"], id="listed-file"),
        pytest.param({"settings.json": {"extensions": ["~/mine"]}, "../mine/a/index.ts": TOOL},
                     ["mine"], id="listed-folder-below-home"),
        pytest.param({"settings.json": {"packages": ["../pack"]}, "../pack/extensions/a.ts": TOOL},
                     ["pack"], id="local-package"),
        pytest.param(
            {"settings.json": {"packages": [{"source": "npm:@kb/pi@1.0.0"}]},
             "npm/node_modules/@kb/pi/package.json": {"pi": {"extensions": ["a.ts"]}},
             "npm/node_modules/@kb/pi/a.ts": TOOL},
            ["agent/npm/node_modules/@kb/pi"], id="npm-package"),
        pytest.param(
            {"settings.json": {"packages": ["git:github.com/me/kb@v1"]},
             "git/github.com/me/kb/extensions/a.ts": TOOL},
            ["agent/git/github.com/me/kb"], id="git-package"),
        pytest.param(
            {"settings.json": {"packages": ["git@forge.example:me/kb.git"]},
             "git/forge.example/me/kb/extensions/a.ts": TOOL},
            ["agent/git/forge.example/me/kb"], id="git-package-by-ssh"),
        pytest.param(
            {"settings.json": {"packages": [{"source": "../pack", "extensions": []}, 7, {}]},
             "../pack/extensions/a.ts": TOOL}, [], id="package-without-its-extensions"),
        pytest.param({"settings.json": {"extensions": ["gone", "builtin:mcp", 7, "npm"]}}, [],
                     id="listed-and-not-there"),
    ],
)  # fmt: skip
def test_places(agent, files, copies):
    agent.mkdir()
    write_tree(agent, files)
    assert sorted(found(agent)) == copies


@pytest.mark.parametrize(
    ("overrides", "is_loaded"),
    [
        pytest.param([], True, id="none"),
        pytest.param(["-extensions/old.ts"], False, id="excluded"),
        pytest.param(["-./extensions/old.ts"], False, id="excluded-with-a-dot"),
        pytest.param(["!*.ts"], False, id="by-pattern"),
        pytest.param(["!extensions/*"], False, id="by-a-pattern-of-the-path"),
        pytest.param(["!*.ts", "+extensions/old.ts"], True, id="included-again"),
        pytest.param(["-extensions/other.ts"], True, id="another-one"),
    ],
)
def test_an_extension_that_the_user_turned_off_is_not_in_the_way(agent, overrides, is_loaded):
    write_tree(agent, {"extensions/old.ts": TOOL, "settings.json": {"extensions": overrides}})
    assert bool(found(agent)) is is_loaded


def test_settings_that_list_a_copy_are_named(agent):
    write_tree(agent, {"settings.json": {"extensions": ["a.ts"]}, "a.ts": TOOL})
    assert found(agent) == {"agent/a.ts": agent / "settings.json"}


def test_the_same_real_file_twice_is_one_extension(agent):
    write_tree(agent, {"settings.json": {"extensions": ["../pack"]}, "../pack/index.ts": TOOL})
    (agent / "extensions").mkdir()
    (agent / "extensions" / "old").symlink_to(agent.parent / "pack")
    assert len(found(agent)) == 1
    assert found(agent, ours=[agent.parent / "pack" / "index.ts"]) == {}


@pytest.mark.parametrize("text", ["{", "[1]", "// no comments here\n{}", "[" * 100_000])
def test_settings_that_cannot_be_read_say_why(agent, text):
    write_tree(agent, {"settings.json": text})
    assert read_settings(agent / "settings.json").problem


def test_settings_may_be_missing_or_hold_anything(agent):
    assert read_settings(agent / "settings.json").problem == ""
    write_tree(agent, {"settings.json": {"extensions": "x", "packages": None}})
    assert read_settings(agent / "settings.json").extensions == []
