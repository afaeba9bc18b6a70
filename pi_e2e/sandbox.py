"""The real Pi agent in folders of its own, with nothing of this user's in reach."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

BIN = Path(sys.executable).parent
FOR_DOWNLOADS = (
    "LANG", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
)  # fmt: skip
FOR_DOWNLOADS_BEGIN = ("PIP_", "NPM_CONFIG_")
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


def environment_of(home: Path) -> dict[str, str]:
    """Return the environment of a program that has nothing of this user's but the models."""
    return {
        "PATH": f"{BIN}:/usr/bin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
    }


def fetch_environment() -> dict[str, str]:
    """Return the environment of a program that fetches from a package index, as this user would."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name.upper() in FOR_DOWNLOADS or name.upper().startswith(FOR_DOWNLOADS_BEGIN)
    }
    return environment_of(Path.home()) | passed | {"PATH": f"{BIN}:{os.environ['PATH']}"}


def run(
    *words: str, cwd: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess:
    """Run a command of ours in a project, with a home beside it; no build leaves a server."""
    home = cwd.parent / "home"
    home.mkdir(exist_ok=True)
    return subprocess.run(
        [str(BIN / words[0]), *words[1:]],
        cwd=cwd, env=(environment or environment_of(home)) | {"CI": "true"}, text=True,
        capture_output=True, timeout=180, check=False,
    )  # fmt: skip


class Sandbox:
    """One Pi with its own home and agent folder, working in a project."""

    def __init__(self, folder: Path, pi: dict, project: Path, model_url: str) -> None:
        self.node, self.cli, self.project = pi["node"], pi["cli"], project
        self.home, self.agent = folder / "home", folder / "agent"
        scratch = folder.parent / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        for path in (self.home, self.agent):
            path.mkdir(parents=True)
        (self.agent / "models.json").write_text(
            json.dumps({"providers": {"scripted": provider(model_url)}})
        )
        (self.agent / "settings.json").write_text(json.dumps(SETTINGS))
        self.environment = environment_of(self.home) | {
            "PATH": f"{BIN}:{Path(self.node).parent}:/usr/bin:/bin",
            "PI_CODING_AGENT_DIR": str(self.agent),
            "PI_OFFLINE": "1",
            "PI_TELEMETRY": "0",
            "PI_SKIP_VERSION_CHECK": "1",
            "NO_COLOR": "1",
            "TERM": "dumb",
            "TMPDIR": str(scratch),
        }

    def install(self, *options: str) -> subprocess.CompletedProcess:
        """Install the extension by our own command."""
        return self.command("doxtr-rag", "install-agent", "pi", *options)

    def command(self, *words: str) -> subprocess.CompletedProcess:
        """Run a command in the project, as the user of this sandbox."""
        done = subprocess.run(
            words, cwd=self.project, env=self.environment, text=True, capture_output=True,
            timeout=120, check=False,
        )  # fmt: skip
        sys.stderr.write(done.stderr)  # shown with a test that fails
        return done

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

    def tool_end(self, question: str) -> dict:
        """Ask one question; return how the tool that the model called ended."""
        events = self.events(question)
        ends = [event for event in events if event["type"] == "tool_execution_end"]
        assert len(ends) == 1, [event["type"] for event in events]
        return ends[0]

    def rpc(self) -> Rpc:
        """Start Pi to be driven by messages."""
        return Rpc([self.node, self.cli, "--no-session", "--mode", "rpc"], self)


class Rpc:
    """Pi driven by JSON lines; a failure shows what it wrote to standard error."""

    def __init__(self, command: list[str], sandbox: Sandbox) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the exit
        self._process = subprocess.Popen(
            command, cwd=sandbox.project, env=sandbox.environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip
        self._messages: queue.Queue[dict | None] = queue.Queue()
        self.seen: list[dict] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout:
            if line.strip():
                self._messages.put(json.loads(line))
        self._messages.put(None)

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
                raise AssertionError(self._failure(f"not within {timeout_s} s")) from None
            if message is None:
                raise AssertionError(self._failure(f"Pi ended: {self._process.wait()}"))
            self.seen.append(message)
            if is_wanted(message):
                return message

    def _failure(self, what: str) -> str:
        kinds = [message.get("type") for message in self.seen]
        return f"{what}; seen: {kinds}; standard error:\n{self.stderr}"

    @property
    def stderr(self) -> str:
        """What Pi wrote to standard error so far."""
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), size, 0).decode(errors="replace")

    def __enter__(self) -> Rpc:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._process.stdin.close()
            self._process.wait(timeout=30)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            sys.stderr.write(self.stderr)  # shown with a test that fails
            self._errors.close()
