"""conf.py and the settings a build leaves, for the command line."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from doxtr_rag.config.environment import Environment
from doxtr_rag.config.schema import SphinxRAGConfig, is_meant_as_key
from doxtr_rag.config.settings import STATE_FOLDER, ProjectSettings, resolve
from doxtr_rag.core.errors import ConfigError, StoreUnavailableError
from doxtr_rag.core.files import replace_text

CONF_NAME = "conf.py"
SETTINGS_NAME = "settings.json"
ONLY_OWNER_FOLDER = 0o700


class Tags:
    """The `tags` object of conf.py when no builder set any."""

    def __init__(self) -> None:
        self._tags: set[str] = set()

    def has(self, name: str) -> bool:
        """Say whether a tag is set."""
        return name in self._tags

    __contains__ = has

    def __iter__(self) -> Iterator[str]:
        return iter(self._tags)

    def add(self, name: str) -> None:
        """Set a tag."""
        self._tags.add(name)

    def remove(self, name: str) -> None:
        """Take a tag away."""
        self._tags.discard(name)


@dataclass(frozen=True, slots=True)
class ConfFile:
    """What a conf.py says."""

    path: Path
    values: dict[str, object] = field(repr=False)
    project: str = ""
    language: str | None = None
    html_baseurl: str = ""

    def resolve(self, environment: Environment) -> ProjectSettings:
        """Return the settings of the project whose pages lie beside this file.

        Raises:
            ConfigError: naming every key and variable that is wrong.
        """
        return resolve(
            SphinxRAGConfig.from_values(self.values, environment),
            conf_dir=self.path.parent,
            source_dir=self.path.parent,
            sphinx_project=self.project,
            language=self.language,
            html_baseurl=self.html_baseurl,
        )


def read_conf(path: Path) -> ConfFile:
    """Execute a conf.py, given itself or its folder, as Sphinx does.

    Raises:
        ConfigError: it is not there, or it failed; with file, line and error.
    """
    file = (path / CONF_NAME if path.is_dir() else path).absolute()
    try:
        source = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}): name a conf.py") from error
    namespace = _execute(file, source)
    language = namespace.get("language", "")
    return ConfFile(
        path=file,
        values={name: value for name, value in namespace.items() if is_meant_as_key(name, value)},
        project=str(namespace.get("project") or ""),
        # Sphinx reads an explicit None as English.
        language="en" if language is None else str(language) or None,
        html_baseurl=str(namespace.get("html_baseurl") or ""),
    )


def _execute(file: Path, source: bytes) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__file__": str(file), "tags": Tags()}
    with _inside(file.parent):
        try:
            exec(compile(source, str(file), "exec"), namespace)  # noqa: S102 - as Sphinx does
        except (Exception, SystemExit) as error:
            raise ConfigError(
                f"{file}, line {_line_of(error, file)}: {type(error).__name__}: {error}"
            ) from error
    return namespace


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a folder for a while; what is printed meanwhile does not mix with an answer."""
    before, search_path = Path.cwd(), list(sys.path)
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.chdir(before)
        sys.path[:] = search_path


def _line_of(error: BaseException, file: Path) -> int:
    """Return the last line of the file that took part in an error."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno or 0
    frames = traceback.extract_tb(error.__traceback__)
    return next((f.lineno or 0 for f in reversed(frames) if f.filename == str(file)), 0)


def find_settings(start: Path) -> Path | None:
    """Return the nearest settings file at or above a folder.

    Files of other users do not count, root's apart: anyone can leave one in a folder like /tmp.
    """
    folder = start.absolute()
    trusted = {os.geteuid(), 0}
    for candidate in (folder, *folder.parents)[:-1]:  # the file system's root is no project
        file = candidate / STATE_FOLDER / SETTINGS_NAME
        try:
            is_ours = file.is_file() and file.stat().st_uid in trusted
        except OSError:
            # The folder of somebody else.
            continue
        if is_ours:
            return file
    return None


def load_settings(path: Path, environment: Environment | None = None) -> ProjectSettings:
    """Read the settings that a build left, with what the environment overrides.

    Raises:
        ConfigError: the file is missing or damaged, or a variable is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"{path} cannot be read ({error}): build the documentation again"
        ) from error
    settings = ProjectSettings.from_json(text, root=path.absolute().parent.parent.resolve())
    is_foreign = settings.written_in != _folder_mark(path.parent)
    settings = settings.overridden(environment or Environment())
    return replace(settings, written_in="", is_foreign=is_foreign)


def save_settings(settings: ProjectSettings) -> Path:
    """Write the settings for the command line, unless the same lie there; return the file.

    Raises:
        StoreUnavailableError: the folder cannot be written.
    """
    file = settings.state_dir / SETTINGS_NAME
    try:
        folder = prepare_state_dir(settings.root)
        text = replace(settings, written_in=_folder_mark(folder)).to_json()
        if not file.is_file() or file.read_bytes() != text.encode():
            replace_text(file, text)
    except OSError as error:
        raise StoreUnavailableError(
            f"{file} cannot be written ({error.strerror}): check the folder's permissions and space"
        ) from error
    return file


def _folder_mark(folder: Path) -> str:
    """Return what no copy of a folder shares with it, and nobody who packs one can know."""
    status = folder.stat()
    return f"{status.st_dev}:{status.st_ino}"


def prepare_state_dir(root: Path) -> Path:
    """Make the folder of everything that is not the project's own; git ignores it."""
    folder = root / STATE_FOLDER
    if not folder.is_dir():
        folder.mkdir(mode=ONLY_OWNER_FOLDER, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o777 != ONLY_OWNER_FOLDER:
        folder.chmod(ONLY_OWNER_FOLDER)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    return folder
