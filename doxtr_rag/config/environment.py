"""Every environment variable, declared once and read once; only this module looks there."""

from __future__ import annotations

import dataclasses as dc
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from doxtr_rag.config import checks, words
from doxtr_rag.core.errors import ConfigError

PREFIX = "DOXTR_RAG_"
SYSTEM_MODEL_FOLDER = Path("/opt/models/bge-m3")

OVERRIDES: Mapping[str, str] = {
    "rag_max_chunk_chars": "Overrides `rag_max_chunk_chars`.",
    "rag_chunk_overlap_chars": "Overrides `rag_chunk_overlap_chars`.",
    "rag_shared_port": "Overrides `rag_shared_port`.",
    "rag_private_port": "Overrides `rag_private_port`.",
    "rag_embed_port": "Overrides `rag_embed_port`.",
}
"""Keys that a variable of the same name overrides, and help."""

PI_FOLDER_VARIABLES = ("PI_CODING_AGENT_DIR", "PI_AGENT_DIR")
"""Where the Pi agent may keep its extensions; Pi itself reads the first one only."""

FOR_OTHERS: Mapping[str, str] = {
    f"{PREFIX}PI_DISABLE": "1 keeps the Pi extension from registering anything.",
    f"{PREFIX}AUTO_CONTEXT": "1 has the Pi extension search before every turn.",
    f"{PREFIX}AGENT_SCOPE": "shared keeps private pages from the Pi extension; all is the default.",
    f"{PREFIX}PREPROCESS_INVOCATION": "Set for hooks, which read it; ignored when set outside.",
}


def variable(
    default: object, parse: Callable[[str], Any], help_text: str, *, is_secret: bool = False
) -> Any:
    """Declare one variable; its name is `DOXTR_RAG_` plus the field's in capitals."""
    metadata = {"parse": parse, "help": help_text, "is_secret": is_secret}
    return dc.field(default_factory=lambda: default, metadata=metadata, repr=not is_secret)


@dc.dataclass(frozen=True, slots=True)
class Environment:
    """What the environment says; values that could not be understood are in `problems`."""

    bge_m3_onnx_dir: Path | None = variable(  # noqa: RUF009 - it declares a field
        None,
        words.folder,
        "Folder of the bge-m3 model; otherwise /opt/models/bge-m3 when it exists, else the user's "
        "cache folder.",
    )
    mount_port_base: int = variable(
        8790, words.number(1, checks.HIGHEST_PORT), "First loopback port of mounts."
    )
    shared_store_headers: Mapping[str, str] = variable(
        words.NOTHING, words.headers, "Headers for the shared store, `k=v;k=v`.", is_secret=True
    )
    local_store_headers: Mapping[str, str] = variable(
        words.NOTHING, words.headers, "Headers for the private store, `k=v;k=v`.", is_secret=True
    )
    endpoints: Path | None = variable(  # noqa: RUF009 - it declares a field
        None, words.folder, "Path of endpoints.json for the query side."
    )
    embed_url: str | None = variable(None, words.address, "Address of an embedding endpoint.")
    ingest_insecure: bool = variable(
        False, words.switch, "1 fetches URLs without TLS check and address guard; a last resort."
    )
    preprocess: str = variable(
        "default", words.preprocessing, "Which hooks run: default, approved or off."
    )
    preprocess_max_emitted_bytes: int = variable(
        10 * 1024 * 1024, words.number(1), "Most bytes of text that hooks may emit for a file."
    )
    index_reuse: bool = variable(
        True, words.switch, "0 never takes vectors from sibling stores or the cache folder."
    )
    index_no_progress_timeout_s: float = variable(
        900.0, words.seconds, "Seconds without progress after which a run fails."
    )
    llm_url: str | None = variable(
        None, words.address, "OpenAI-compatible endpoint for derived texts; off without one."
    )
    llm_model: str | None = variable(None, str, "Model to ask for at that endpoint.")
    llm_api_key: str | None = variable(None, str, "Key of that endpoint.", is_secret=True)
    no_vault: bool = variable(False, words.switch, "1 turns the local document brain off.")
    vault_paths: tuple[str, ...] = variable((), words.listed, "Watched paths, comma separated.")
    vault_chunk_tokens: int = variable(350, words.number(16), "Target size of document chunks.")
    vault_top_k: int = variable(6, words.number(1), "Sections handed on.")
    vault_budget: int = variable(4000, words.number(1), "Tokens of packed context.")
    vault_rerank: bool = variable(True, words.switch, "Use the reranker if one is configured.")
    vault_hyde: bool = variable(False, words.switch, "Also search with hypothetical answers.")
    vault_context_lines: bool = variable(
        True, words.switch, "Context lines if an endpoint is configured."
    )
    vault_ocr: bool = variable(True, words.switch, "Recognise text of pages that have none.")
    vault_max_file_mb: int = variable(100, words.number(1), "Larger files are ignored.")
    atlassian_sites: tuple[str, ...] = variable(
        (), words.addresses, "Base URLs of Jira and Confluence sites, comma separated."
    )
    atlassian_headers: str | None = variable(
        None, str, "Headers for each of those sites, never sent to another host.", is_secret=True
    )

    overrides: Mapping[str, object] = dc.field(default_factory=lambda: words.NOTHING)
    is_ci: bool = False
    home: Path = Path()
    pi_folders: tuple[tuple[str, Path], ...] = ()
    cache_dir: Path = Path(".cache/doxtr-rag")
    config_dir: Path = Path(".config")
    ca_bundle: Path | None = None
    unknown: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def names(self) -> Mapping[str, str]:
        """The variable that each overridden key was taken from."""
        return {key: _override_name(key) for key in self.overrides}

    def require_valid(self) -> None:
        """Refuse to go on with a value that was not understood.

        Raises:
            ConfigError: naming every such variable.
        """
        if self.problems:
            raise ConfigError("\n".join(self.problems))


def known_variables() -> dict[str, str]:
    """Return every variable of ours and its help."""
    declared = {PREFIX + f.name.upper(): f.metadata["help"] for f in _variables()}
    overriding = {_override_name(key): text for key, text in OVERRIDES.items()}
    return declared | overriding | dict(FOR_OTHERS)


def read_environment(environ: Mapping[str, str] | None = None) -> Environment:
    """Read every variable; one that is empty counts as not set."""
    source = os.environ if environ is None else environ
    given = {name: value.strip() for name, value in source.items() if value.strip()}
    values: dict[str, Any] = {}
    problems = []
    for field in _variables():
        name = PREFIX + field.name.upper()
        if name in given:
            try:
                values[field.name] = field.metadata["parse"](given[name])
            except ValueError as error:
                shown = "…" if field.metadata["is_secret"] else given[name]
                problems.append(checks.problem(name, str(error), shown))
    if "bge_m3_onnx_dir" not in values and SYSTEM_MODEL_FOLDER.is_dir():
        values["bge_m3_onnx_dir"] = SYSTEM_MODEL_FOLDER
    known = known_variables()
    ours = sorted(name for name in given if name.startswith(PREFIX) and name not in known)
    return Environment(
        **values,
        overrides=_overrides(given),
        is_ci=given.get("CI", "no").lower() not in words.NO,
        home=_home(given),
        pi_folders=tuple(
            (name, Path(given[name]).expanduser()) for name in PI_FOLDER_VARIABLES if name in given
        ),
        cache_dir=_user_folder(given, "XDG_CACHE_HOME", ".cache") / "doxtr-rag",
        config_dir=_user_folder(given, "XDG_CONFIG_HOME", ".config"),
        ca_bundle=_ca_bundle(given),
        unknown=tuple(checks.unknown(name, list(known)) for name in ours),
        problems=tuple(problems),
    )


def _variables() -> list[dc.Field[Any]]:
    return [field for field in dc.fields(Environment) if "parse" in field.metadata]


def _override_name(key: str) -> str:
    return PREFIX + key.removeprefix("rag_").upper()


def _overrides(given: Mapping[str, str]) -> dict[str, object]:
    """Return overridden keys; what is no number stays text, which the key's own check refuses."""
    return {
        key: words.number_or_text(given[_override_name(key)])
        for key in OVERRIDES
        if _override_name(key) in given
    }


def _home(given: Mapping[str, str]) -> Path:
    return Path(given["HOME"]) if "HOME" in given else Path.home()


def _user_folder(given: Mapping[str, str], variable_name: str, below_home: str) -> Path:
    declared = Path(given.get(variable_name, ""))
    return declared if declared.is_absolute() else _home(given) / below_home


def _ca_bundle(given: Mapping[str, str]) -> Path | None:
    named = given.get("SSL_CERT_FILE") or given.get("REQUESTS_CA_BUNDLE")
    return Path(named) if named else None
