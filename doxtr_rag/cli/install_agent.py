"""`doxtr-rag install-agent`: give a coding agent the knowledge base's tools, or take them away."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from doxtr_rag import agent_install
from doxtr_rag.agent_install import Action, AgentPlaces, Level, Report
from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.core.errors import ConfigError

NAME = "install-agent"
HELP = "give a coding agent the tools of the knowledge base, or take them away"
EXAMPLES = """  doxtr-rag install-agent pi
  doxtr-rag install-agent claude
  doxtr-rag install-agent cursor --level user
  doxtr-rag install-agent codex --print
  doxtr-rag install-agent claude --scope shared
  doxtr-rag install-agent pi --uninstall"""
AGENTS = (agent_install.PI, *agent_install.CLIENTS)

_SAID = {
    Action.INSTALLED: "installed",
    Action.UPDATED: "updated",
    Action.UNCHANGED: "already installed, unchanged",
    Action.REMOVED: "removed",
    Action.ABSENT: "nothing of ours was there",
    Action.PRINTED: "nothing was written",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "agent", choices=AGENTS, metavar="AGENT", help=f"one of {', '.join(AGENTS)}"
    )
    parser.add_argument(
        "--symlink",
        action="store_true",
        help="pi: link to this package instead of copying the extension",
    )
    parser.add_argument(
        "--level",
        choices=[level.value for level in Level],
        help="others: this project's file or the user's (default: project; codex: user)",
    )
    parser.add_argument(
        "--scope",
        choices=agent_install.SCOPES,
        help="shared keeps private pages from the agent (default: as installed; at first all)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="others: replace or remove an entry doxtr-rag that was changed by hand",
    )
    task = parser.add_mutually_exclusive_group()
    task.add_argument(
        "--print", dest="wants_print", action="store_true", help="show it and write nothing"
    )
    task.add_argument("--uninstall", action="store_true", help="remove what was installed")


def run(arguments: argparse.Namespace) -> Outcome:
    """Install, show or remove."""
    return answer(arguments, agent_install.find_places(arguments.conf), Path(sys.executable))


def answer(arguments: argparse.Namespace, places: AgentPlaces, executable: Path) -> Outcome:
    """Serve one agent; `executable` is the interpreter that its MCP entry is to use.

    Raises:
        ConfigError: the options do not fit the agent, or its files must not be touched.
        DoxtrRagError: it cannot be served, or a file failed.
    """
    _check_options(arguments)
    if arguments.agent == agent_install.PI:
        report = _serve_pi(arguments, places)
    else:
        report = _serve_client(arguments, places, executable)
    return Outcome(_json(report), lambda console: _show(report, console))


def _check_options(arguments: argparse.Namespace) -> None:
    is_pi = arguments.agent == agent_install.PI
    given = {
        "--symlink": arguments.symlink and not is_pi,
        "--level": arguments.level is not None and is_pi,
        "--force": arguments.force and is_pi,
    }
    wrong = [option for option, is_wrong in given.items() if is_wrong]
    if wrong:
        raise ConfigError(
            f"{' and '.join(wrong)} cannot be used with {arguments.agent}: "
            "see doxtr-rag install-agent --help"
        )


def _serve_pi(arguments: argparse.Namespace, places: AgentPlaces) -> Report:
    if arguments.uninstall:
        return agent_install.remove_extension(places)
    if arguments.wants_print:
        return agent_install.print_extension(
            places, symlink=arguments.symlink, scope=arguments.scope
        )
    return agent_install.install_extension(places, symlink=arguments.symlink, scope=arguments.scope)


def _serve_client(arguments: argparse.Namespace, places: AgentPlaces, executable: Path) -> Report:
    client = agent_install.CLIENTS[arguments.agent]
    level = Level(arguments.level) if arguments.level else client.usual_level
    command = agent_install.server_command(executable)
    project = client.project_named(places, level)
    wish = agent_install.Wish(
        client, level, command, arguments.force, scope=arguments.scope, project=project
    )
    if arguments.uninstall:
        return agent_install.remove_entry(wish, places)
    if arguments.wants_print:
        return agent_install.print_entry(wish, places)
    return agent_install.install_entry(wish, places)


def _json(report: Report) -> dict[str, object]:
    snippet = {"snippet": report.snippet} if report.snippet else {}
    return {
        "agent": report.agent,
        "target": None if report.target is None else str(report.target),
        "action": report.action.value,
        "files": [str(path) for path in report.files],
        "notes": list(report.notes),
        **snippet,
    }


def _show(report: Report, console: Console) -> None:
    """Print the outcome; a snippet alone, so that it can be redirected into a file."""
    if report.snippet:
        console.print(Text(report.snippet), end="")
        return
    console.print(Text(f"{report.agent}: {_SAID[report.action]}: {report.target}"))
    for note in report.notes:
        console.print(Text(f"  {note}"))
