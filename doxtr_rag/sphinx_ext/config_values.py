"""Registers every key with Sphinx and turns checked values into a project."""

from __future__ import annotations

import dataclasses as dc
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from doxtr_rag import bootstrap
from doxtr_rag.config import checks
from doxtr_rag.config.schema import PREFIX, SphinxRAGConfig, is_meant_as_key
from doxtr_rag.core.errors import ConfigError

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

NO_REBUILD: Final = ""
"""The knowledge base follows a changed value by itself; `html` would change `.buildinfo`."""


BUILDERS = "sphinx.builders"
"""The entry points by which packages offer builders."""

LISTS = frozenset({"rag_source_roots"})
NUMBERS = frozenset({"rag_max_chunk_tokens"})


def register(app: Sphinx) -> None:
    """Declare every key; types are checked by us, all together."""
    for key, default in _defaults().items():
        app.add_config_value(key, default, NO_REBUILD, types=Any)


def project(app: Sphinx, config: Config) -> bootstrap.Project:
    """Return the project that conf.py, the environment and Sphinx describe.

    Raises:
        ConfigError: naming every offending key and variable at once.
    """
    values = {
        key: _from_command_line(key, config[key])
        for key, default in _defaults().items()
        if config[key] != default
    }
    problems = _unknown_builders(app, values.get("rag_builders"))
    try:
        found = bootstrap.project(
            {**_undeclared(config), **values},
            conf_dir=Path(app.confdir),
            source_dir=Path(app.srcdir),
            sphinx_project=str(config.project),
            language=_declared_language(config),
            html_baseurl=str(config.html_baseurl or ""),
        )
    except ConfigError as error:
        raise ConfigError("\n".join([str(error), *problems])) from error
    if problems:
        raise ConfigError("\n".join(problems))
    return found


def _unknown_builders(app: Sphinx, names: object) -> list[str]:
    """Return a line for each name that no builder has: a build would feed nothing unnoticed."""
    if not isinstance(names, (list, tuple)):
        return []
    known = {*app.registry.builders, *(entry.name for entry in entry_points(group=BUILDERS))}
    wrong = (name for name in names if isinstance(name, str) and name not in known)
    return [checks.problem("rag_builders", "names of builders", name) for name in wrong]


def _undeclared(config: Config) -> dict[str, object]:
    """Return what conf.py sets under our prefix though nobody declared it."""
    return {
        name: value
        for name, value in config._raw_config.items()
        if name not in config and is_meant_as_key(name, value)
    }


def _defaults() -> dict[str, Any]:
    """Return the default of every key; as a list, where `-D key=a,b` is to be split by Sphinx."""
    return {
        PREFIX + f.name: list(f.default) if isinstance(f.default, tuple) else f.default
        for f in dc.fields(SphinxRAGConfig)
    }


def _from_command_line(key: str, value: object) -> object:
    """Return what `-D` meant for a key without a default, which Sphinx hands on as text."""
    if not isinstance(value, str):
        return value
    if key in LISTS:
        return value.split(",")
    return int(value) if key in NUMBERS and value.strip().isdecimal() else value


def _declared_language(config: Config) -> str | None:
    """Return the language that conf.py or the command line sets; Sphinx's own default is none."""
    declared = config._overrides.get("language") or config._raw_config.get("language")
    return str(config.language) if declared and config.language else None
