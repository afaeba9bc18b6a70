"""`doxtr-rag serve`: the knowledge base's server, in the foreground or the background."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.text import Text

from doxtr_rag import bootstrap
from doxtr_rag.cli.outcome import Outcome
from doxtr_rag.cli.progress import print_to_stderr

NAME = "serve"
HELP = "run the server that agents ask: it holds the model and answers on loopback"
EXAMPLES = """  doxtr-rag serve
  doxtr-rag serve --detach
  doxtr-rag serve --status --json
  doxtr-rag serve --stop"""

NOT_RUNNING = "no server of this knowledge base runs: start it with doxtr-rag serve --detach"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    task = parser.add_mutually_exclusive_group()
    task.add_argument("--detach", action="store_true", help="start it in the background")
    task.add_argument("--stop", action="store_true", help="end the running server")
    task.add_argument("--status", action="store_true", help="show the running server")
    parser.add_argument(
        "--idle",
        type=_seconds,
        metavar="S",
        help="end after so many idle seconds (default: 1800 with --detach, else never)",
    )
    parser.add_argument("--root", type=Path, default=None, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> Outcome:
    """Run, start, show or end the server."""
    project = bootstrap.find_project(arguments.conf, arguments.root)
    if arguments.status:
        status = bootstrap.server_status(project)
        return _not_running() if status is None else _shown(status)
    if arguments.stop:
        return _stopped(bootstrap.stop(project))
    if arguments.detach:
        idle_s = bootstrap.DETACHED_IDLE_S if arguments.idle is None else arguments.idle
        return _shown(bootstrap.start_detached(project, idle_s))
    bootstrap.serve(project, arguments.idle, print_to_stderr)
    return Outcome({"running": False}, lambda console: console.print("the server has ended"))


def _seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = 0.0
    if not 1.0 <= seconds <= float(10**9):
        raise argparse.ArgumentTypeError("expected a number of seconds from 1 up")
    return seconds


def _shown(status: bootstrap.ServerStatus) -> Outcome:
    endpoints = status.endpoints
    ports = {name: target.port for name, target in endpoints.stores.items()}
    data = {
        "running": True,
        "pid": status.pid,
        "url": endpoints.api_url,
        "ports": ports | {"api": endpoints.api_port},
        "health": status.health,
    }

    def show(console: Console) -> None:
        console.print(Text(f"{endpoints.project}: {status.health['status']}", style="bold"))
        console.print(Text(f"  process {status.pid} at {endpoints.api_url}"))
        for name, target in endpoints.stores.items():
            if not target.is_embedded:
                console.print(Text(f"  {name:8} on {target.host}:{target.port}: a Chroma server"))
                continue
            store, port = status.health["stores"][name], target.port
            line = f"{store['state']}, {store['documents']} documents, {store['chunks']} chunks"
            console.print(Text(f"  {name:8} port {port}: {line}"))
        model = status.health["model"]
        console.print(Text(f"  model    {model['profile']}: {model['state']} {model['detail']}"))

    return Outcome(data, show)


def _stopped(pid: int | None) -> Outcome:
    if pid is None:
        return Outcome({"stopped": False}, lambda console: console.print("no server was running"))
    data = {"stopped": True, "pid": pid}
    return Outcome(data, lambda console: console.print(Text(f"process {pid} has ended")))


def _not_running() -> Outcome:
    return Outcome(
        {"running": False},
        lambda console: console.print(Text(NOT_RUNNING)),
        exit_code=3,
        error="store_server_down",
        message=NOT_RUNNING,
    )
