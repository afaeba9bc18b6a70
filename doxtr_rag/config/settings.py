"""What the rooms are told: the settings of one project with every default and path resolved."""

from __future__ import annotations

import dataclasses as dc
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from doxtr_rag.config import checks
from doxtr_rag.config.environment import Environment
from doxtr_rag.config.schema import PREFIX, Mount, SphinxRAGConfig, problems_of
from doxtr_rag.core.chunking import ChunkLimits
from doxtr_rag.core.errors import ConfigError
from doxtr_rag.core.identity import project_slug
from doxtr_rag.core.profiles import EmbeddingProfile
from doxtr_rag.core.scope import Scope

VERSION = 3
STATE_FOLDER = ".doxtr"
SHARED_STORE = f"{STATE_FOLDER}/shared"
REMOTE_SHARED = f"{STATE_FOLDER}/remote-shared"
REMOTE_PRIVATE = f"{STATE_FOLDER}/remote-private"
ROOT_MARKS = (".git", ".hg", "pyproject.toml")
UNMARKED = (
    "since no folder at or above conf.py holds .git, .hg or pyproject.toml: set rag_root = '..' "
    "(relative to conf.py), or name the folders from there, '.' for all of it"
)
SOURCE_NAME = "source"
PATHS = (
    "conf_dir",
    "source_dir",
    "shared_store_path",
    "local_store_path",
    "cache_db",
    "audit_log_path",
)
COPIED = (
    "private_paths",
    "builders",
    "url_style",
    "device",
    "serve",
    "allow_shrink",
    "reuse_vectors",
    "max_chunk_chars",
    "chunk_overlap_chars",
    "max_chunk_tokens",
    "shared_port",
    "private_port",
    "embed_port",
    "store_tenant",
    "shared_store_database",
    "local_store_database",
)
"""Settings that need no resolution."""


@dc.dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The settings of one project; every path is absolute, nothing is secret.

    `project` is its namespace in every store. `sharing_undeclared` says that nobody declared what
    may be shared, so that nothing is. `profile` names the embedding profile. A store with the
    address of a server is in http mode: its folder holds the corpus alone. `written_in` is device
    and inode of the state folder that these were written to, and `is_foreign` says that they were
    read from another one: a copy, or what somebody packed.
    """

    root: Path
    conf_dir: Path
    source_dir: Path
    project: str
    language: str | None
    html_baseurl: str
    profile: str
    shared_store_path: Path
    local_store_path: Path
    shared_server_uri: str | None
    local_server_uri: str | None
    cache_db: Path
    audit_log_path: Path
    source_roots: tuple[Path, ...]
    sharing_undeclared: bool
    mounts: tuple[Mount, ...]
    private_paths: tuple[str, ...]
    builders: tuple[str, ...]
    url_style: str
    device: str
    serve: str
    allow_shrink: bool
    reuse_vectors: bool
    max_chunk_chars: int
    chunk_overlap_chars: int
    max_chunk_tokens: int | None
    shared_port: int
    private_port: int
    embed_port: int
    store_tenant: str
    shared_store_database: str
    local_store_database: str
    written_in: str = ""
    is_foreign: bool = False

    @property
    def state_dir(self) -> Path:
        """The folder of everything that is not the project's own."""
        return self.root / STATE_FOLDER

    def store_path(self, scope: Scope) -> Path:
        """Return the folder of the store of a scope."""
        return self.shared_store_path if scope is Scope.SHARED_ORG else self.local_store_path

    def server_uri(self, scope: Scope) -> str | None:
        """Return the address of the Chroma server of a store; None when it is embedded."""
        return self.shared_server_uri if scope is Scope.SHARED_ORG else self.local_server_uri

    def port(self, scope: Scope) -> int:
        """Return the loopback port at which our own server offers a store."""
        return self.shared_port if scope is Scope.SHARED_ORG else self.private_port

    def database(self, scope: Scope) -> str:
        """Return the Chroma database of a store."""
        is_shared = scope is Scope.SHARED_ORG
        return self.shared_store_database if is_shared else self.local_store_database

    def chunk_limits(self, profile: EmbeddingProfile) -> ChunkLimits:
        """Return how long chunks may be; never longer than the model reads."""
        cap = min(self.max_chunk_tokens or profile.cap_tokens, profile.max_tokens)
        return ChunkLimits(
            target_tokens=min(profile.target_tokens, cap),
            cap_tokens=cap,
            max_chars=self.max_chunk_chars,
            overlap_chars=self.chunk_overlap_chars,
        )

    def overridden(self, environment: Environment) -> ProjectSettings:
        """Return these settings with what the environment overrides.

        Raises:
            ConfigError: naming every variable that is wrong.
        """
        current = {PREFIX + name: getattr(self, name) for name in COPIED}
        values = {**current, **environment.overrides}
        problems = [*environment.problems, *problems_of(values, environment.names)]
        if problems:
            raise ConfigError("\n".join(problems))
        changes = {key.removeprefix(PREFIX): value for key, value in environment.overrides.items()}
        return dc.replace(self, **changes)  # type: ignore[arg-type]

    def to_json(self) -> str:
        """Return the settings as JSON; paths below the root are relative to it."""
        fields: dict[str, Any] = {f.name: getattr(self, f.name) for f in dc.fields(self)}
        del fields["root"], fields["is_foreign"]
        for name in PATHS:
            fields[name] = self._portable(fields[name])
        fields["source_roots"] = [self._portable(folder) for folder in self.source_roots]
        fields["mounts"] = [
            dc.asdict(mount) | {"scope": mount.scope.value} for mount in self.mounts
        ]
        return json.dumps({"version": VERSION, **fields}, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str, *, root: Path) -> ProjectSettings:
        """Read settings that were written for the project at `root`, wherever it lies by now.

        Raises:
            ConfigError: the text is damaged or of another version.
        """
        try:
            return cls._read(json.loads(text), root)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(
                f"the settings of {root} cannot be read ({error!r}): build the documentation again"
            ) from error

    @classmethod
    def _read(cls, fields: dict[str, Any], root: Path) -> ProjectSettings:
        version = fields.pop("version")
        if version != VERSION:
            raise ConfigError(
                f"the settings of {root} are of version {version}, this program reads {VERSION}: "
                "build the documentation again"
            )
        for name in PATHS:
            fields[name] = root / fields[name]
        fields["source_roots"] = tuple(root / folder for folder in fields["source_roots"])
        fields["mounts"] = tuple(map(Mount.from_value, fields["mounts"]))
        for name in ("private_paths", "builders"):
            fields[name] = tuple(fields[name])
        return cls(root=root, **fields)

    def _portable(self, path: Path) -> str:
        is_below = path.is_relative_to(self.root)
        return path.relative_to(self.root).as_posix() if is_below else str(path)


def resolve(
    config: SphinxRAGConfig,
    *,
    conf_dir: Path,
    source_dir: Path,
    sphinx_project: str,
    language: str | None,
    html_baseurl: str,
) -> ProjectSettings:
    """Return a configuration with every default and path resolved.

    Raises:
        ConfigError: a folder is missing, or two things would share one folder.
    """
    root = project_root(config.root, conf_dir)
    roots, problems = _source_roots(config.source_roots, root, source_dir)
    shared_server = config.shared_store_uri if config.shared_store_mode == "http" else None
    local_server = config.local_server_uri if config.local_store_mode == "http" else None
    shared = REMOTE_SHARED if shared_server else config.shared_store_uri or SHARED_STORE
    local = REMOTE_PRIVATE if local_server else config.local_store_path
    settings = ProjectSettings(
        root=root,
        conf_dir=conf_dir.resolve(),
        source_dir=source_dir.resolve(),
        project=project_slug(config.project or sphinx_project, language),
        language=language,
        html_baseurl=checks.USER_INFORMATION.sub("", html_baseurl),
        profile=config.embedding_provider,
        shared_store_path=_below(root, shared),
        local_store_path=_below(root, local),
        shared_server_uri=shared_server,
        local_server_uri=local_server,
        cache_db=_below(root, config.cache_db),
        audit_log_path=_below(root, config.audit_log_path),
        source_roots=roots,
        sharing_undeclared=config.source_roots is None and not roots,
        mounts=config.external_mounts,
        **{name: getattr(config, name) for name in COPIED},
    )
    problems += _shared_folders(settings)
    if problems:
        raise ConfigError("\n".join(problems))
    return settings


def project_root(declared: str | None, conf_dir: Path) -> Path:
    """Return the project root (interface I1, rag_root).

    Raises:
        ConfigError: the declared folder does not exist.
    """
    conf_dir = conf_dir.resolve()
    if declared is not None:
        root = _below(conf_dir, declared).resolve()
        if not root.is_dir():
            raise ConfigError(checks.problem("rag_root", "an existing folder", declared))
        return root
    for folder in (conf_dir, *conf_dir.parents):
        if _is_marked(folder):
            return folder
    return conf_dir.parent if conf_dir.name == SOURCE_NAME else conf_dir


def _is_marked(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in ROOT_MARKS)


def _below(folder: Path, path: str) -> Path:
    """Return an absolute path without `..`; links in it stay as they are."""
    return Path(os.path.abspath(folder / Path(path).expanduser()))  # noqa: PTH100


def _source_roots(
    declared: tuple[str, ...] | None, root: Path, source_dir: Path
) -> tuple[tuple[Path, ...], list[str]]:
    if declared is None:
        real = source_dir.resolve()
        is_shared = source_dir.name == SOURCE_NAME and real.is_relative_to(root)
        return ((real,) if is_shared else ()), []
    folders = {folder: _below(root, folder).resolve() for folder in declared}
    why = "" if _is_marked(root) else f"; that is the root, {UNMARKED}"
    problems = [
        checks.problem("rag_source_roots", f"folders that exist in {root}{why}", folder)
        for folder, real in folders.items()
        if not (real.is_dir() and real.is_relative_to(root))
    ]
    return tuple(dict.fromkeys(folders.values())), problems


def _shared_folders(settings: ProjectSettings) -> list[str]:
    """Return the problems of stores and files that would lie in one another."""
    shared, local = settings.shared_store_path, settings.local_store_path
    problems = []
    if _contains(shared, local) or _contains(local, shared):
        problems.append(
            checks.problem(
                "rag_local_store_path", f"a folder apart from the shared store {shared}", str(local)
            )
        )
    named: Mapping[str, Path] = {"rag_shared_store_uri": shared, "rag_local_store_path": local}
    for key, store in named.items():
        if _contains(store, settings.root) or _contains(store, settings.source_dir):
            problems.append(checks.problem(key, "a folder of its own", str(store)))
    files = {"rag_cache_db": settings.cache_db, "rag_audit_log_path": settings.audit_log_path}
    for key, file in files.items():
        if _contains(shared, file):
            problems.append(checks.problem(key, "a file outside the shared store", str(file)))
    return problems


def _contains(folder: Path, path: Path) -> bool:
    """Say whether a path is a folder or lies in it, also where letter case does not count."""
    outer = Path(str(folder.resolve()).casefold())
    return Path(str(path.resolve()).casefold()).is_relative_to(outer)
