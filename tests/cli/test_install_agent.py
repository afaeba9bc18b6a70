"""`doxtr-rag install-agent` as a command: options, answers, exit codes."""

import argparse
import dataclasses as dc
import io
import json

import pytest
from rich.console import Console

from doxtr_rag.agent_install import CLIENTS, AgentPlaces
from doxtr_rag.agent_install.errors import UnsupportedAgentError
from doxtr_rag.cli import install_agent
from doxtr_rag.core.errors import ConfigError


@pytest.fixture
def places(tmp_path):
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    return AgentPlaces(home=home, config_dir=home / ".config", project_root=project)


@pytest.fixture
def answer(places, tmp_path):
    """Run the command on a machine of its own; return its data and what it shows."""

    def run(*words, **changes):
        parser = argparse.ArgumentParser(exit_on_error=False)
        install_agent.add_arguments(parser)
        outcome = install_agent.answer(
            parser.parse_args(words), dc.replace(places, **changes), tmp_path / "bin" / "python"
        )
        shown = io.StringIO()
        outcome.show(Console(file=shown, highlight=False, soft_wrap=True))
        assert outcome.exit_code == 0
        return json.loads(json.dumps(outcome.data)), shown.getvalue()

    return run


def test_pi_from_install_to_removal(answer, places):
    agent_dir = places.home / ".pi" / "agent"
    target = agent_dir / "extensions" / "chroma-rag"
    data, shown = answer("pi")
    assert set(data) == {"agent", "target", "action", "files", "notes"}
    assert (data["agent"], data["target"], data["action"]) == ("pi", str(target), "installed")
    assert str(target / "chroma-rag.ts") in data["files"]
    assert str(agent_dir / "doxtr-rag.env") in data["files"]
    assert shown.startswith(f"pi: installed: {target}\n")
    manifest = json.loads((target / "package.json").read_text(encoding="utf-8"))
    assert all((target / entry).is_file() for entry in manifest["pi"]["extensions"])
    data, shown = answer("pi")
    assert data["action"] == "unchanged"
    assert "already installed, unchanged" in shown
    assert answer("pi", "--symlink")[0]["action"] == "updated"
    assert target.is_symlink()
    assert answer("pi", "--uninstall")[0]["action"] == "removed"
    assert answer("pi", "--uninstall")[0]["action"] == "absent"
    assert not target.exists()
    assert not (agent_dir / "doxtr-rag.env").exists()


def test_print_for_pi_says_what_would_be_done(answer, places):
    data, shown = answer("pi", "--print")
    assert data["action"] == "printed"
    assert "would" in shown
    assert list(places.home.iterdir()) == []


@pytest.mark.parametrize("agent", CLIENTS)
def test_clients_from_install_to_removal(answer, agent, tmp_path):
    data, shown = answer(agent)
    assert (data["agent"], data["action"]) == (agent, "installed")
    assert data["target"] in data["files"]
    assert "was not run" in shown
    assert answer(agent)[0]["action"] == "unchanged"
    assert answer(agent, "--uninstall")[0]["action"] == "removed"
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("agent", CLIENTS)
def test_print_shows_the_snippet_alone(answer, agent, tmp_path):
    data, shown = answer(agent, "--print")
    assert data["action"] == "printed"
    assert shown == data["snippet"]
    assert str(tmp_path / "bin" / "python") in shown
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_level_chooses_the_file(answer, places):
    assert answer("cursor", "--level", "user")[0]["target"].startswith(str(places.home))
    assert answer("cursor")[0]["target"].startswith(str(places.project_root))
    assert answer("codex")[0]["target"].startswith(str(places.home))
    with pytest.raises(UnsupportedAgentError):
        answer("vscode", "--level", "user")


def test_force_replaces_an_entry_of_the_users_own(answer, places):
    path = places.project_root / ".mcp.json"
    path.write_text('{"mcpServers": {"doxtr-rag": {"command": "mine"}}}', encoding="utf-8")
    with pytest.raises(ConfigError, match="--force"):
        answer("claude")
    assert answer("claude", "--force")[0]["action"] == "updated"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["claude", "--symlink"], "--symlink"),
        (["pi", "--level", "user"], "--level"),
        (["pi", "--force"], "--force"),
    ],
)
def test_options_that_do_not_fit_are_refused(answer, words, named):
    with pytest.raises(ConfigError, match=named):
        answer(*words)


@pytest.mark.parametrize(
    "words",
    [["emacs"], [], ["pi", "--print", "--uninstall"], ["cursor", "--level", "machine"]],
    ids=["unknown-agent", "none", "print-and-uninstall", "unknown-level"],
)
def test_wrong_usage_names_what_is_known(words, capsys):
    parser = argparse.ArgumentParser()
    install_agent.add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(words)
    said = capsys.readouterr().err
    if words == ["emacs"]:
        assert all(agent in said for agent in install_agent.AGENTS)


@pytest.mark.parametrize("agent", CLIENTS)
def test_the_scope_and_the_project_are_in_the_entry(answer, agent, places):
    snippet = answer(agent, "--print", "--scope", "shared", is_project_named=True)[0]["snippet"]
    named = {"cursor": "${workspaceFolder}", "vscode": "${workspaceFolder}"}.get(agent, ".")
    project = str(places.project_root) if agent == "codex" else named
    words = " ".join(snippet.replace('"', " ").replace(",", " ").split())
    assert f"mcp --project {project} --scope shared" in words


def test_the_scope_of_pi_is_in_its_variables(answer, places):
    answer("pi", "--scope", "shared")
    held = (places.home / ".pi" / "agent" / "doxtr-rag.env").read_text(encoding="utf-8")
    assert "export DOXTR_RAG_AGENT_SCOPE=shared\n" in held
