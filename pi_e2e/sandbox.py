"""The real Pi agent in folders of its own, with nothing of this user's in reach."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

BIN = Path(sys.executable).parent
SETTINGS = {
    "defaultProvider": "scripted",
    "defaultModel": "scripted",
    "enableInstallTelemetry": False,
    "quietStartup": True,
    "retry": {"enabled": False},
    "compaction": {"enabled": False},
}


def provider(url: str) -> dict:
    """Return Pi's entry of the scripted model."""
    model = {
        "id": "scripted",
        "name": "Scripted",
        "reasoning": False,
        "input": ["text"],
        "contextWindow": 128_000,
        "maxTokens": 4096,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }
    return {
        "name": "Scripted",
        "baseUrl": url,
        "api": "openai-completions",
        "apiKey": "none",
        "models": [model],
    }


class Sandbox:
    """One Pi with its own home and agent folder, working in a project."""

    def __init__(self, folder: Path, pi: dict, project: Path, model_url: str) -> None:
        self.node, self.cli, self.project = pi["node"], pi["cli"], project
        self.home, self.agent = folder / "home", folder / "agent"
        for path in (self.home, self.agent):
            path.mkdir(parents=True)
        (self.agent / "models.json").write_text(
            json.dumps({"providers": {"scripted": provider(model_url)}})
        )
        (self.agent / "settings.json").write_text(json.dumps(SETTINGS))
        self.environment = {
            "PATH": f"{BIN}:{Path(self.node).parent}:/usr/bin:/bin",
            "HOME": str(self.home),
            "PI_CODING_AGENT_DIR": str(self.agent),
            "PI_OFFLINE": "1",
            "PI_TELEMETRY": "0",
            "PI_SKIP_VERSION_CHECK": "1",
            "NO_COLOR": "1",
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            # The model's files, which are no part of what a sandbox keeps apart.
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
        }

    def install(self, *options: str) -> subprocess.CompletedProcess:
        """Install the extension by our own command."""
        return self.command("doxtr-rag", "install-agent", "pi", *options)

    def command(self, *words: str) -> subprocess.CompletedProcess:
        """Run a command in the project, as the user of this sandbox."""
        return subprocess.run(
            words, cwd=self.project, env=self.environment, text=True, capture_output=True,
            timeout=120, check=False,
        )  # fmt: skip

    def pi(self, *options: str) -> subprocess.CompletedProcess:
        """Run Pi to its end."""
        return self.command(self.node, self.cli, "--no-session", *options)

    def ask(self, question: str) -> subprocess.CompletedProcess:
        """Ask one question; the answer is on standard output."""
        return self.pi("-p", question)

    def events(self, question: str) -> list[dict]:
        """Ask one question; return what happened."""
        done = self.pi("--mode", "json", question)
        return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]

    def rpc(self) -> Rpc:
        """Start Pi to be driven by messages."""
        return Rpc([self.node, self.cli, "--no-session", "--mode", "rpc"], self)


class Rpc:
    """Pi driven by JSON lines."""

    def __init__(self, command: list[str], sandbox: Sandbox) -> None:
        self._process = subprocess.Popen(
            command, cwd=sandbox.project, env=sandbox.environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._messages: queue.Queue[dict] = queue.Queue()
        self.seen: list[dict] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout:
            if line.strip():
                self._messages.put(json.loads(line))

    def send(self, **message: object) -> None:
        """Send one message."""
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def wait(self, is_wanted: Callable[[dict], bool], timeout_s: float = 40) -> dict:
        """Return the next message that is wanted."""
        deadline = time.monotonic() + timeout_s
        while True:
            left = max(0.01, deadline - time.monotonic())
            try:
                message = self._messages.get(timeout=left)
            except queue.Empty:
                kinds = [m.get("type") for m in self.seen]
                raise AssertionError(f"not within {timeout_s} s; seen: {kinds}") from None
            self.seen.append(message)
            if is_wanted(message):
                return message

    def __enter__(self) -> Rpc:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()
