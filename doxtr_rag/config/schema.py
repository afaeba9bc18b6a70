"""Every key of conf.py, declared once with its default, its check and its help text."""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from doxtr_rag.config import checks
from doxtr_rag.config.environment import Environment
from doxtr_rag.core.errors import ConfigError
from doxtr_rag.core.scope import Scope

PREFIX = "rag_"


@dc.dataclass(frozen=True, slots=True)
class Mount:
    """A folder outside the Sphinx source tree; private unless it says otherwise.

    `path` is as declared: absolute, or relative to the project root.
    """

    path: str
    scope: Scope = Scope.LOCAL_PRIVATE
    name: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Mount:
        """Build a mount from a checked dictionary."""
        return cls(
            path=value["path"],
            scope=Scope(value.get("scope", Scope.LOCAL_PRIVATE.value)),
            name=value.get("name", ""),
            include=tuple(value.get("include", ())),
            exclude=tuple(value.get("exclude", ())),
        )


def _same(value: Any) -> Any:
    return value


def _tuple(value: Any) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)


def _mounts(value: Any) -> tuple[Mount, ...]:
    return tuple(map(Mount.from_value, value))


def setting(
    default: object, check: checks.Check, help_text: str, convert: Callable[[Any], Any] = _same
) -> Any:
    """Declare one setting of `SphinxRAGConfig`."""
    return dc.field(
        default=default, metadata={"check": check, "help": help_text, "convert": convert}
    )


@dc.dataclass(frozen=True, slots=True)
class SphinxRAGConfig:
    """The validated settings of one project; keys are `rag_` plus the field name."""

    shared_store_uri: str | None = setting(
        None,
        checks.optional(checks.store_uri),
        "Where the SHARED_ORG store is: a folder in embedded mode (`.doxtr/shared` when None), an "
        "address with its scheme in http mode. Never carries secrets.",
    )
    local_store_path: str = setting(
        ".doxtr/chroma", checks.path, "Folder of the embedded LOCAL_PRIVATE store."
    )
    external_mounts: tuple[Mount, ...] = setting(
        (),
        checks.mounts,
        "Folders outside the source tree, as a list of dictionaries with `path` and, if wanted, "
        "`scope`, `name`, `include`, `exclude`; LOCAL_PRIVATE unless `scope` is SHARED_ORG.",
        _mounts,
    )
    cache_db: str = setting(
        ".doxtr/cache.db",
        checks.path,
        "The build's hashes: of nodes, external files and link permissions.",
    )
    audit_log_path: str = setting(
        ".doxtr/security_audit.jsonl",
        checks.path,
        "Append-only JSON lines that say why something was kept private.",
    )
    embedding_provider: str = setting(
        "bge-m3",
        checks.profile_name,
        "Embedding profile: `bge-m3`, `minilm-offline`, `remote`, or one from an entry point.",
    )
    shared_store_mode: str = setting(
        "embedded",
        checks.one_of("embedded", "http"),
        "How the shared store is reached: embedded or http.",
    )
    local_store_mode: str = setting(
        "embedded",
        checks.one_of("embedded", "http"),
        "How the private store is reached: embedded or http.",
    )
    shared_store_database: str = setting(
        "doxtr_shared", checks.chroma_name, "Chroma database of the shared store."
    )
    local_store_database: str = setting(
        "doxtr_private", checks.chroma_name, "Chroma database of the private store."
    )
    store_tenant: str = setting(
        "default_tenant", checks.chroma_name, "Chroma tenant of both stores."
    )
    local_server_uri: str | None = setting(
        None, checks.optional(checks.http_uri), "Address of the private store in http mode."
    )
    max_chunk_chars: int = setting(
        2000,
        checks.whole_number("a whole number"),
        "Most characters of a chunk; 0 or less leaves only the token cap.",
    )
    chunk_overlap_chars: int = setting(
        300,
        checks.whole_number("a whole number from 0 up", 0),
        "Most characters that a part of a section repeats from the part before it.",
    )
    max_chunk_tokens: int | None = setting(
        None,
        checks.optional(checks.whole_number("None or a whole number from 16 up", 16)),
        "Most tokens of a chunk, its titles included; None takes the profile's.",
    )
    shared_port: int = setting(8787, checks.port, "Loopback port of the shared store.")
    private_port: int = setting(8788, checks.port, "Loopback port of the private store.")
    embed_port: int = setting(8789, checks.port, "Loopback port of embedding, search and health.")
    project: str | None = setting(
        None,
        checks.optional(checks.project_name),
        "Namespace of this project in every store; None takes Sphinx's `project`.",
    )
    builders: tuple[str, ...] = setting(
        ("html", "dirhtml", "rag"),
        checks.names,
        "Builders that feed the knowledge base.",
        _tuple,
    )
    url_style: str = setting(
        "html",
        checks.one_of("html", "dirhtml"),
        "How page URLs are formed, whichever builder ran; absolute when `html_baseurl` is set.",
    )
    allow_shrink: bool = setting(
        False,
        checks.flag,
        "Lets one run remove more than half of a store of 20 or more documents.",
    )
    reuse_vectors: bool = setting(
        True,
        checks.flag,
        "Take vectors of identical inputs from sibling stores and the cache folder.",
    )
    serve: str = setting(
        "auto",
        checks.one_of("auto", "on", "off"),
        "Start the server after a build; auto is on except under CI.",
    )
    device: str = setting(
        "auto", checks.one_of("auto", "cpu", "cuda"), "Where the model runs: auto, cpu or cuda."
    )
    source_roots: tuple[str, ...] | None = setting(
        None,
        checks.optional(checks.paths),
        "Folders, relative to the project root, whose documents may become SHARED_ORG; None takes "
        "the Sphinx source folder when it is named `source`, else nothing.",
        _tuple,
    )
    root: str | None = setting(
        None,
        checks.optional(checks.path),
        "The project root, relative to conf.py's folder; None takes the nearest folder at or above "
        "it with .git, .hg or pyproject.toml, else conf.py's folder (its parent when that is "
        "called source).",
    )
    private_paths: tuple[str, ...] = setting(
        ("noter", "NDA"),
        checks.path_parts,
        "Deny-list: a file is LOCAL_PRIVATE when a part of its path equals one of these, or starts "
        "with it followed by a non-letter or a plural s, in any case.",
        _tuple,
    )

    @classmethod
    def from_values(
        cls, values: Mapping[str, object], environment: Environment | None = None
    ) -> SphinxRAGConfig:
        """Build the configuration from flat `rag_*` values and what the environment overrides.

        Raises:
            ConfigError: naming every offending key and variable at once.
        """
        config, problems = cls.checked(values, environment or Environment())
        if problems:
            raise ConfigError("\n".join(problems))
        return config

    @classmethod
    def checked(
        cls, values: Mapping[str, object], environment: Environment
    ) -> tuple[SphinxRAGConfig, list[str]]:
        """Return the configuration, defaults in place of what is wrong, and every problem."""
        own = {key: value for key, value in values.items() if key.startswith(PREFIX)}
        merged = {**own, **environment.overrides}
        problems = [*environment.problems, *problems_of(merged, environment.names)]
        fields = {PREFIX + field.name: field for field in dc.fields(cls)}
        right = {
            fields[key].name: fields[key].metadata["convert"](value)
            for key, value in merged.items()
            if key in fields and not fields[key].metadata["check"](key, value)
        }
        return cls(**right), problems


def keys() -> list[str]:
    """Return every key of conf.py."""
    return [PREFIX + field.name for field in dc.fields(SphinxRAGConfig)]


def is_meant_as_key(name: str, value: object) -> bool:
    """Say whether a name in conf.py is meant as a key of ours: no function and no module is."""
    if not name.startswith(PREFIX):
        return False
    return name in keys() or not (callable(value) or isinstance(value, ModuleType))


def problems_of(values: Mapping[str, object], names: Mapping[str, str]) -> list[str]:
    """Return every problem of flat `rag_*` values; `names` says where a value came from."""
    lines = []
    complete: dict[str, object] = {}
    for field in dc.fields(SphinxRAGConfig):
        key = PREFIX + field.name
        complete[key] = values.get(key, field.default)
        if key in values:
            found = field.metadata["check"](names.get(key, key), values[key])
            lines += found
            if found:
                complete[key] = field.default
    lines += [checks.unknown(key, keys()) for key in values if key not in complete]
    return [*lines, *_contradictions(complete, names), *_wrong_addresses(values)]


def _contradictions(values: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    lines = []
    used: dict[int, str] = {}
    for key in ("rag_shared_port", "rag_private_port", "rag_embed_port"):
        name = names.get(key, key)
        if values[key] in used:
            expected = f"a port other than that of {used[values[key]]}"
            lines.append(checks.problem(name, expected, values[key]))
        used.setdefault(values[key], name)
    overlap, most = values["rag_chunk_overlap_chars"], values["rag_max_chunk_chars"]
    if 0 < most <= overlap:
        name = names.get("rag_chunk_overlap_chars", "rag_chunk_overlap_chars")
        limit = names.get("rag_max_chunk_chars", "rag_max_chunk_chars")
        lines.append(checks.problem(name, f"less than {limit}, which is {most}", overlap))
    return [*lines, *_mounts_that_collide(values["rag_external_mounts"])]


def _mounts_that_collide(mounts: Any) -> list[str]:
    lines = []
    for field in ("path", "name"):
        seen: dict[str, int] = {}
        for at, mount in enumerate(mounts):
            value = mount.get(field)
            if value is not None and seen.setdefault(value, at) != at:
                name = f"rag_external_mounts[{at}][{field!r}]"
                lines.append(checks.problem(name, "a value that no other mount has", value))
    return lines


def _wrong_addresses(values: Mapping[str, object]) -> list[str]:
    """Return the problems of store addresses that do not go with the modes."""
    lines = []
    servers: list[tuple[str, int] | None] = []
    for store, key in (("shared", "rag_shared_store_uri"), ("local", "rag_local_server_uri")):
        server = checks.server_of(values.get(key))
        is_http = values.get(f"rag_{store}_store_mode") == "http"
        if is_http and server is None:
            expected = "http://host:port or https://host:port in http mode"
            lines.append(checks.problem(key, expected, values.get(key)))
        servers.append(server if is_http else None)
    address = values.get("rag_shared_store_uri")
    if values.get("rag_shared_store_mode") != "http" and checks.is_http_uri(address):
        lines.append(checks.problem("rag_shared_store_uri", "a folder in embedded mode", address))
    return [*lines, *_one_database(values, servers)]


def _one_database(
    values: Mapping[str, object], servers: Sequence[tuple[str, int] | None]
) -> list[str]:
    """Return the problem of two scopes in one collection."""
    shared, local = (
        values.get(f"rag_{store}_store_database", f"doxtr_{default}")
        for store, default in (("shared", "shared"), ("local", "private"))
    )
    if servers[0] is None or servers[0] != servers[1] or shared != local:
        return []
    expected = "a database other than rag_shared_store_database on the same server"
    return [checks.problem("rag_local_store_database", expected, local)]
