"""Each agent gets its entry in its own shape, and keeps everything else that was in its file."""

import dataclasses as dc
import json
import stat
from pathlib import Path

import pytest
import tomlkit
from agent_files import tree_of

from doxtr_rag.agent_install import entries
from doxtr_rag.agent_install.clients import CLIENTS, Level
from doxtr_rag.agent_install.entries import Wish, install_entry, print_entry, remove_entry
from doxtr_rag.agent_install.errors import UnsupportedAgentError
from doxtr_rag.agent_install.places import Action
from doxtr_rag.core.errors import ConfigError, IndexNotBuiltError

COMMAND = ("/opt/my env/bin/doxtr-rag", "mcp")
SPAWNED = {"command": COMMAND[0], "args": ["mcp"]}
SHAPES = {
    "claude": {"mcpServers": {"doxtr-rag": {**SPAWNED, "env": {}}}},
    "cursor": {"mcpServers": {"doxtr-rag": {**SPAWNED, "env": {}}}},
    "codex": {"mcp_servers": {"doxtr-rag": SPAWNED}},
    "opencode": {"mcp": {"doxtr-rag": {"type": "local", "command": [*COMMAND], "environment": {}}}},
    "vscode": {"servers": {"doxtr-rag": {"type": "stdio", **SPAWNED}}},
}
FILES = {
    ("claude", Level.PROJECT): "project/.mcp.json",
    ("claude", Level.USER): "home/.claude.json",
    ("cursor", Level.PROJECT): "project/.cursor/mcp.json",
    ("cursor", Level.USER): "home/.cursor/mcp.json",
    ("codex", Level.USER): "home/.codex/config.toml",
    ("opencode", Level.PROJECT): "project/opencode.json",
    ("opencode", Level.USER): "home/.config/opencode/opencode.json",
    ("vscode", Level.PROJECT): "project/.vscode/mcp.json",
}
each_file = pytest.mark.parametrize(
    ("agent", "level"), FILES, ids=[f"{agent}-{level.value}" for agent, level in FILES]
)


def wish_for(agent, level, command=COMMAND, **options):
    return Wish(CLIENTS[agent], level, command, **options)


def parsed(path):
    text = path.read_text(encoding="utf-8")
    return tomlkit.parse(text).unwrap() if path.suffix == ".toml" else json.loads(text)


def text_with(agent, servers, **more):
    """Return a file of an agent that holds servers and something else."""
    container = CLIENTS[agent].container
    found = {**more, container: servers}
    return tomlkit.dumps(found) if agent == "codex" else json.dumps(found, indent=4) + "\n"


@pytest.fixture
def path(request, tmp_path):
    agent, level = request.getfixturevalue("agent"), request.getfixturevalue("level")
    return tmp_path / FILES[agent, level]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@each_file
class TestEachFile:
    def test_no_file(self, places, tmp_path, agent, level, path):
        report = install_entry(wish_for(agent, level), places)
        assert (report.action, report.files) == (Action.INSTALLED, (path,))
        assert parsed(path) == SHAPES[agent]
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == 0o600 if level is Level.USER else mode & 0o400
        again = install_entry(wish_for(agent, level), places)
        assert (again.action, again.files) == (Action.UNCHANGED, ())
        assert remove_entry(wish_for(agent, level), places).action is Action.REMOVED
        assert tree_of(tmp_path) == {}
        assert {p.name for p in tmp_path.rglob("*")} <= {"home", "project", ".config"}
        assert remove_entry(wish_for(agent, level), places).action is Action.ABSENT

    def test_file_with_other_servers(self, places, tmp_path, agent, level, path):
        other = {"mine": {"command": "/bin/mine", "args": []}}
        text = text_with(
            agent, other, first="ø", other={"deep": [1, 2.5, None]} if agent != "codex" else 1
        )
        write(path, text)
        path.chmod(0o640)
        report = install_entry(wish_for(agent, level), places)
        backup = path.with_name(path.name + ".doxtr-rag-backup")
        assert (report.action, report.files) == (Action.INSTALLED, (path, backup))
        container = CLIENTS[agent].container
        found = parsed(path)
        assert found.pop(container) == other | SHAPES[agent][container]
        assert list(found) == ["first", "other"]
        assert backup.read_text(encoding="utf-8") == text
        assert [stat.S_IMODE(p.stat().st_mode) for p in (path, backup)] == [0o640, 0o640]
        install_entry(wish_for(agent, level), places)
        remove_entry(wish_for(agent, level), places)
        assert tree_of(tmp_path) == {path.relative_to(tmp_path).as_posix(): text}
        assert stat.S_IMODE(path.stat().st_mode) == 0o640

    def test_a_server_added_meanwhile_outlives_the_removal(self, places, agent, level, path):
        write(path, text_with(agent, {"a": {"command": "a"}}))
        install_entry(wish_for(agent, level), places)
        found = parsed(path)
        found[CLIENTS[agent].container]["b"] = {"command": "b"}
        write(path, tomlkit.dumps(found) if agent == "codex" else json.dumps(found))
        remove_entry(wish_for(agent, level), places)
        container = CLIENTS[agent].container
        assert parsed(path) == {container: {"a": {"command": "a"}, "b": {"command": "b"}}}

    @pytest.mark.parametrize("verb", [install_entry, remove_entry])
    @pytest.mark.parametrize("broken", [b'{"a": 1', b"// note\n{}\n = ", b"\xff\xfe"])
    def test_broken_file(self, places, agent, level, path, broken, verb):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(broken)
        with pytest.raises(ConfigError, match="by hand") as refusal:
            verb(wish_for(agent, level), places)
        assert COMMAND[0] in str(refusal.value)
        assert path.read_bytes() == broken
        assert list(path.parent.iterdir()) == [path]

    @pytest.mark.parametrize("servers", [7, "x", []])
    def test_servers_that_are_none(self, places, agent, level, path, servers):
        text = text_with(agent, servers)
        write(path, text)
        with pytest.raises(ConfigError, match="holds no servers"):
            install_entry(wish_for(agent, level), places)
        assert path.read_text(encoding="utf-8") == text

    def test_entry_of_the_users_own(self, places, agent, level, path):
        text = text_with(agent, {"doxtr-rag": {"command": "/bin/mine", "args": ["--secret"]}})
        write(path, text)
        for verb in (install_entry, remove_entry):
            with pytest.raises(ConfigError, match="--force"):
                verb(wish_for(agent, level), places)
        assert path.read_text(encoding="utf-8") == text
        report = install_entry(wish_for(agent, level, force=True), places)
        assert report.action is Action.UPDATED
        assert parsed(path) == SHAPES[agent]

    @pytest.mark.parametrize(
        "command",
        [("/old/bin/doxtr-rag", "mcp"), ("/old/bin/python", "-m", "doxtr_rag", "mcp"),
         ("C:\\env\\doxtr-rag.exe", "mcp")],
        ids=["script", "module", "windows"],
    )  # fmt: skip
    def test_entry_of_another_environment_is_updated(self, places, agent, level, path, command):
        install_entry(wish_for(agent, level, command), places)
        report = install_entry(wish_for(agent, level), places)
        assert (report.action, report.files) == (Action.UPDATED, (path,))
        assert parsed(path) == SHAPES[agent]

    def test_linked_file_is_written_through(self, places, tmp_path, agent, level, path):
        dotfile = tmp_path / "dotfiles" / "config"
        text = text_with(agent, {"mine": {"command": "m"}})
        write(dotfile, text)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(dotfile)
        install_entry(wish_for(agent, level), places)
        assert path.is_symlink()
        assert "doxtr-rag" in dotfile.read_text(encoding="utf-8")
        remove_entry(wish_for(agent, level), places)
        assert path.is_symlink()
        assert dotfile.read_text(encoding="utf-8") == text

    def test_print(self, places, tmp_path, agent, level, path):
        report = print_entry(wish_for(agent, level), places)
        assert (report.action, report.target) == (Action.PRINTED, path)
        read = tomlkit.parse if agent == "codex" else json.loads
        assert read(report.snippet) == SHAPES[agent]
        assert tree_of(tmp_path) == {}

    @pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte-order-mark"])
    @pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
    def test_line_ends_and_mark_stay(self, places, agent, level, path, mark, end):
        held = mark + text_with(agent, {"a": {"command": "ø"}}).encode().replace(b"\n", end)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(held)
        install_entry(wish_for(agent, level), places)
        written = path.read_bytes()
        assert written.startswith(mark)
        assert written.count(b"\xef\xbb\xbf") == len(mark) // 3
        assert written.count(end) == written.count(b"\n")
        remove_entry(wish_for(agent, level), places)
        assert path.read_bytes() == held

    def test_empty_file_stays_an_empty_file(self, places, agent, level, path):
        write(path, "")
        install_entry(wish_for(agent, level), places)
        assert parsed(path) == SHAPES[agent]
        remove_entry(wish_for(agent, level), places)
        assert path.read_bytes() == b""


def test_every_agent_is_in_the_tables():
    assert set(SHAPES) == set(CLIENTS) == {agent for agent, _ in FILES}


@pytest.mark.parametrize(
    ("agent", "level"), [("codex", Level.PROJECT), ("vscode", Level.USER)], ids=str
)
@pytest.mark.parametrize("verb", [install_entry, remove_entry])
def test_levels_that_an_agent_lacks(places, agent, level, verb):
    with pytest.raises(UnsupportedAgentError, match="--print") as refusal:
        verb(wish_for(agent, level), places)
    assert refusal.value.exit_code == 3
    report = print_entry(wish_for(agent, level), places)
    assert (report.target, report.files) == (None, ())
    assert "doxtr-rag" in report.snippet


def test_without_a_project_there_is_no_project_file(places):
    nowhere = dc.replace(places, project_root=None)
    with pytest.raises(IndexNotBuiltError, match="--level user"):
        install_entry(wish_for("claude", Level.PROJECT), nowhere)
    assert print_entry(wish_for("claude", Level.PROJECT), nowhere).snippet


def test_the_backup_is_the_first_content(places):
    path = places.home / ".claude.json"
    write(path, '{"a": 1}')
    for name in ("one", "two"):
        install_entry(wish_for("claude", Level.USER, (f"/{name}/doxtr-rag", "mcp")), places)
    backup = path.with_name(".claude.json" + entries.BACKUP_SUFFIX)
    assert backup.read_text(encoding="utf-8") == '{"a": 1}'


def test_a_changed_entry_of_ours_is_not_lost(places):
    path = places.project_root / ".mcp.json"
    install_entry(wish_for("claude", Level.PROJECT), places)
    found = parsed(path)
    found["mcpServers"]["doxtr-rag"]["env"] = {"DOXTR_RAG_ENDPOINTS": "/e.json"}
    write(path, json.dumps(found))
    with pytest.raises(ConfigError, match="--force"):
        install_entry(wish_for("claude", Level.PROJECT), places)
    assert parsed(path) == found


@pytest.mark.parametrize(
    ("script", "command"),
    [
        pytest.param("doxtr-rag", ("doxtr-rag", "mcp"), id="script-beside-the-interpreter"),
        pytest.param("doxtr-rag.exe", ("doxtr-rag.exe", "mcp"), id="on-windows"),
        pytest.param("other", ("python", "-m", "doxtr_rag", "mcp"), id="no-script"),
    ],
)
def test_command_of_the_server(tmp_path, script, command):
    (tmp_path / script).touch()
    found = entries.server_command(tmp_path / "python")
    assert found == (str(tmp_path / command[0]), *command[1:])
    assert Path(found[0]).is_absolute()


@each_file
class TestOptions:
    """What the server is started with, beyond its name."""

    @pytest.mark.parametrize("options", [{"scope": "shared"}, {"project": "/p"}])
    def test_an_entry_with_options_is_ours(self, places, tmp_path, agent, level, options):
        wish = wish_for(agent, level, **options)
        assert CLIENTS[agent].owns(wish.entry)
        install_entry(wish, places)
        report = install_entry(wish_for(agent, level, project="/q", scope="all"), places)
        assert report.action is Action.UPDATED
        remove_entry(wish_for(agent, level), places)
        assert tree_of(tmp_path) == {}

    def test_a_scope_stays_until_another_is_named(self, places, agent, level, path):
        first = install_entry(wish_for(agent, level), places)
        assert "private pages too" in "\n".join(first.notes)
        install_entry(wish_for(agent, level, scope="shared"), places)
        shared = path.read_bytes()
        again = install_entry(wish_for(agent, level), places)
        assert (again.action, path.read_bytes()) == (Action.UNCHANGED, shared)
        assert "the shared store alone" in "\n".join(again.notes)
        moved = install_entry(wish_for(agent, level, ("/new/doxtr-rag", "mcp")), places)
        assert moved.action is Action.UPDATED
        assert "shared" in path.read_text(encoding="utf-8")
        install_entry(wish_for(agent, level, scope="all"), places)
        assert "shared" not in path.read_text(encoding="utf-8")

    def test_a_project_is_named_by_path_only_in_the_user_s_own_file(self, places, agent, level):
        client, root = CLIENTS[agent], str(places.project_root)
        named = dc.replace(places, is_project_named=True)
        found = (client.project_named(places, level), client.project_named(named, level))
        portable = "${workspaceFolder}" if agent in {"cursor", "vscode"} else "."
        assert found == ((portable, portable) if level is Level.PROJECT else (None, root))


@pytest.mark.parametrize(
    "words",
    [
        ["/bin/doxtr-rag", "mcp", "--project"],
        ["/bin/doxtr-rag", "mcp", "--json", "x"],
        ["/bin/doxtr-rag", "search", "mcp"],
        ["/bin/other", "mcp", "--scope", "shared"],
        ["mcp"],
    ],
)
def test_other_command_lines_are_not_ours(words):
    client = CLIENTS["claude"]
    assert not client.owns(client.shape(words))


def test_what_the_server_will_not_find_is_said(places):
    unbuilt = dc.replace(places, is_built=False)
    notes = install_entry(wish_for("codex", Level.USER), unbuilt).notes
    assert any("--conf" in note for note in notes)
    assert any("sphinx-build" in note for note in notes)
    quiet = install_entry(wish_for("codex", Level.USER, project="/p"), places).notes
    assert not any("--conf" in note or "sphinx-build" in note for note in quiet)
