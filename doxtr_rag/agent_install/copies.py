"""Other extensions that register a tool of ours: Pi stops at its start when two do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from doxtr_rag.agent_install.discovery import discovered_in, loaded_from, loaded_from_package

TOOLS = ("search_knowledge_base", "kb_doc", "kb_read")
_REGISTERED = {
    tool: re.compile(rf"""(?:\bname["']?\s*:|(?<![=!<>])=(?!=))\s*["'`]{tool}["'`]""")
    for tool in TOOLS
}
_RELATIVE_IMPORT = re.compile(
    r"""(?:\bfrom|\bimport|\brequire)\s*\(?\s*["'](\.{1,2}/[^"'\n]+)["']"""
)
_NPM_NAME = re.compile(r"npm:(@?[^@]+)")
_GIT_ADDRESS = re.compile(r"(?:git:)?(?:\w+://)?(?:[^@/]+@)?([^:/]+)[:/](.+?)(?:\.git)?(?:@[^@]+)?")
_REMOTE = ("npm:", "git:", "git@", "github:", "http:", "https:", "ssh:")


@dataclass(frozen=True, slots=True)
class Copy:
    """An extension that registers one of our tools, and the settings that list it, if any do."""

    path: Path
    tool: str
    listed_in: Path | None = None

    def __str__(self) -> str:
        if self.listed_in is None:
            return f"{self.path} registers {self.tool}: remove it"
        return f"{self.path} registers {self.tool}: take it out of {self.listed_in}"


@dataclass(frozen=True, slots=True)
class PiSettings:
    """The parts of a settings.json that name extensions; `problem` says why it was not read."""

    path: Path
    extensions: Sequence[str] = ()
    packages: Sequence[str] = ()
    problem: str = ""

    def turns_off(self, path: Path) -> bool:
        """Say whether an override in `extensions` keeps Pi from loading a file."""
        base = self.path.parent
        names = {path.as_posix(), path.name}
        if path.is_relative_to(base):
            names.add(path.relative_to(base).as_posix())
        exact = names - {path.name}
        off = any(fnmatch(name, glob) for glob in self._after("!") for name in names)
        is_on = any(_plain(entry) in exact for entry in self._after("+"))
        return any(_plain(entry) in exact for entry in self._after("-")) or (off and not is_on)

    def _after(self, sign: str) -> list[str]:
        return [entry[1:] for entry in self.extensions if entry.startswith(sign)]


def read_settings(path: Path) -> PiSettings:
    """Read a settings.json as far as it concerns extensions; it is never written."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return PiSettings(path)
    except (OSError, ValueError, RecursionError) as error:
        return PiSettings(path, problem=str(error))
    if not isinstance(found, dict):
        return PiSettings(path, problem="not a JSON object")
    packages = [_source_of(package) for package in _listed(found, "packages")]
    return PiSettings(
        path,
        extensions=[entry for entry in _listed(found, "extensions") if isinstance(entry, str)],
        packages=[source for source in packages if source],
    )


@dataclass(frozen=True, slots=True)
class CopySearch:
    """Where to look, and which real files are ours once the installation is done."""

    target: Path
    ours: frozenset[Path]
    home: Path
    found: dict[Path, Copy] = field(default_factory=dict)

    def in_folder(self, folder: Path, settings: PiSettings) -> None:
        """Look through a folder of extensions, one level deep as Pi does."""
        for child, entries in discovered_in(folder):
            if child != self.target:
                loaded = [entry for entry in entries if not settings.turns_off(entry)]
                self._judge(child, loaded, listed_in=None)

    def in_settings(self, settings: PiSettings) -> None:
        """Look through what a settings.json lists."""
        base = settings.path.parent
        for entry in settings.extensions:
            if not entry.startswith(("!", "+", "-", "builtin:")):
                place = self._resolved(entry, base)
                loaded = [e for e in loaded_from(place) if not settings.turns_off(e)]
                self._judge(place, loaded, listed_in=settings.path)
        for source in settings.packages:
            place = self._installed(source, base)
            self._judge(place, loaded_from_package(place), listed_in=settings.path)

    def _judge(self, place: Path, entries: Sequence[Path], *, listed_in: Path | None) -> None:
        for entry in entries:
            real = entry.resolve()
            if real not in self.ours and real not in self.found:
                tool = _tool_of(entry)
                if tool is not None:
                    self.found[real] = Copy(place, tool, listed_in)

    def _installed(self, source: str, base: Path) -> Path:
        """Return where Pi puts a package; one that is a path stays where it is."""
        if not source.startswith(_REMOTE):
            return self._resolved(source, base)
        npm = _NPM_NAME.match(source)
        if npm:
            return base / "npm" / "node_modules" / npm[1]
        git = _GIT_ADDRESS.fullmatch(source)
        return base / "git" / git[1] / git[2] if git else base / source

    def _resolved(self, entry: str, base: Path) -> Path:
        name = entry.strip().removeprefix("file://")
        if name == "~" or name.startswith("~/"):
            return self.home / name[2:]
        return base / name


def _tool_of(entry: Path) -> str | None:
    """Return the tool of ours that an extension registers, in its file or one it imports."""
    text = "\n".join(_sources(entry))
    return next((tool for tool, registered in _REGISTERED.items() if registered.search(text)), None)


def _sources(entry: Path) -> Iterator[str]:
    """Yield the text of a file and of every file it reaches by relative imports."""
    waiting, seen = [entry], set()
    while waiting:
        path = waiting.pop()
        if path.resolve() in seen:
            continue
        seen.add(path.resolve())
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        yield text
        for name in _RELATIVE_IMPORT.findall(text):
            waiting += [p for p in _candidates(path.parent / name) if p.is_file()][:1]


def _candidates(imported: Path) -> list[Path]:
    """Return the files that an import may mean, as TypeScript resolves it."""
    stem = imported.with_suffix("")
    return [
        imported,
        stem.with_suffix(".ts") if imported.suffix == ".js" else imported,
        *(imported.with_name(imported.name + suffix) for suffix in (".ts", ".js")),
        *(imported / f"index{suffix}" for suffix in (".ts", ".js")),
    ]


def _listed(found: Mapping[str, object], key: str) -> list[object]:
    value = found.get(key)
    return value if isinstance(value, list) else []


def _source_of(package: object) -> str:
    """Return the source of a package's entry; one that loads no extensions counts as none."""
    if isinstance(package, dict):
        return "" if package.get("extensions") == [] else str(package.get("source", ""))
    return package if isinstance(package, str) else ""


def _plain(entry: str) -> str:
    return entry.removeprefix("./")
