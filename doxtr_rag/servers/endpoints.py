"""`.doxtr/endpoints.json`: where a knowledge base is asked (interface I4)."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from doxtr_rag.core.contract import contract
from doxtr_rag.core.errors import ConfigError, StoreUnavailableError
from doxtr_rag.core.files import replace_text

VERSION = 1
FILE_NAME = "endpoints.json"
TOKEN_NAME = "server.token"  # noqa: S105 - a file's name
LOOPBACK = "127.0.0.1"
LARGEST_PORT = 65535
LARGEST_FILE = 1024 * 1024
REPAIR = "run doxtr-rag serve --detach in that project"


@dataclass(frozen=True, slots=True)
class StoreTarget:
    """The address of one store as a Chroma client needs it; header names without values."""

    mode: str
    host: str
    port: int
    ssl: bool
    tenant: str
    database: str
    collection: str
    header_keys: tuple[str, ...] = ()

    @property
    def is_embedded(self) -> bool:
        """Say whether the knowledge base's own server answers there."""
        return self.mode == "embedded"

    def record(self) -> dict[str, Any]:
        """Return the target as it is written."""
        return {
            "mode": self.mode,
            "host": self.host,
            "port": self.port,
            "ssl": self.ssl,
            "tenant": self.tenant,
            "database": self.database,
            "collection": self.collection,
            "header_keys": list(self.header_keys),
        }


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where stores and model of a knowledge base are; no `api_port` while no server runs.

    `lock` is the device and inode of the lock that the server holds: a copy of the folder has
    another one.
    """

    kb_id: str
    project: str
    model: str
    dimension: int
    fingerprint: str
    stores: Mapping[str, StoreTarget]
    api_port: int | None = None
    lock: str | None = None

    @property
    def api_url(self) -> str | None:
        """The address of the server's own routes."""
        return None if self.api_port is None else f"http://{LOOPBACK}:{self.api_port}"

    def stopped(self) -> Endpoints:
        """Return the same without a server; the ports are those it last had."""
        return replace(self, api_port=None, lock=None)

    def record(self) -> dict[str, Any]:
        """Return the endpoints as they are written."""
        url = self.api_url
        return {
            "version": VERSION,
            "kb_id": self.kb_id,
            "project": self.project,
            "embedding": {
                "model": self.model,
                "dimension": self.dimension,
                "fingerprint": self.fingerprint,
                "embed_url": None if url is None else f"{url}/embed",
            },
            **{name: target.record() for name, target in self.stores.items()},
            "search_url": None if url is None else f"{url}/search",
            "token_file": None if url is None else TOKEN_NAME,
            **({} if self.lock is None else {"lock": self.lock}),
        }


def read_endpoints(state_dir: Path, file_name: str = FILE_NAME) -> Endpoints | None:
    """Return the endpoints of a knowledge base; None before the first were published.

    Raises:
        ConfigError: the file was not written by this user's own program, or is malformed.
    """
    text = _own_text(state_dir / file_name)
    if text is None:
        return None
    try:
        record = json.loads(text)
        json.dumps(record, ensure_ascii=False).encode()  # a lone surrogate is no text
        return checked(record, state_dir / file_name)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{state_dir / file_name} is not JSON ({error}): {REPAIR}") from error


def checked(record: Any, place: Path) -> Endpoints:
    """Return what a parsed file says.

    Raises:
        ConfigError: naming the first field that is not what the schema asks for.
    """
    import jsonschema  # noqa: PLC0415 - a tenth of a second

    validator = jsonschema.Draft202012Validator(contract("endpoints.schema"))
    errors = sorted(validator.iter_errors(record), key=lambda error: len(error.absolute_path))
    for error in errors[:1]:
        at = ".".join(map(str, error.absolute_path)) or "the file"
        raise ConfigError(f"{place} is not usable ({at}: {error.message[:200]}): {REPAIR}")
    embedding, api_port = record["embedding"], _port(record["search_url"])
    if api_port is not None and not _is_port(api_port):
        raise ConfigError(f"{place} is not usable (search_url: no such port): {REPAIR}")
    return Endpoints(
        kb_id=record["kb_id"],
        project=record["project"],
        model=embedding["model"],
        dimension=int(embedding["dimension"]),
        fingerprint=embedding["fingerprint"],
        stores={name: _target(record[name]) for name in ("shared", "private")},
        api_port=api_port,
        lock=record.get("lock"),
    )


def _target(fields: Mapping[str, Any]) -> StoreTarget:
    # A later version may have added fields, and 8787.0 is an integer to JSON Schema.
    values = {name: fields[name] for name in StoreTarget.__slots__}
    exact = {"port": int(fields["port"]), "header_keys": tuple(fields["header_keys"])}
    return StoreTarget(**{**values, **exact})


def _port(url: str | None) -> int | None:
    return None if url is None else int(url.split("/")[2].rpartition(":")[2])


def read_token(state_dir: Path) -> str | None:
    """Return the secret of the running server; None when there is none.

    Raises:
        ConfigError: the file was not written by this user's own program.
    """
    text = _own_text(state_dir / TOKEN_NAME)
    return None if text is None else text.strip()


def publish(state_dir: Path, endpoints: Endpoints, token: str | None) -> None:
    """Write the endpoints, and the secret of the server that they lead to.

    Without a secret no server runs: the secret of the last one goes.

    Raises:
        StoreUnavailableError: the folder cannot be written.
    """
    text = json.dumps(endpoints.record(), indent=2) + "\n"
    try:
        if token is not None:
            replace_text(state_dir / TOKEN_NAME, token + "\n")
        if _trusted_text(state_dir / FILE_NAME) != text:
            replace_text(state_dir / FILE_NAME, text)
        if token is None:
            (state_dir / TOKEN_NAME).unlink(missing_ok=True)
    except OSError as error:
        raise StoreUnavailableError(
            f"{state_dir}: the endpoints cannot be written ({error.strerror}): "
            "check the folder's permissions and space"
        ) from error


def is_published(state_dir: Path, endpoints: Endpoints) -> bool:
    """Say whether the same lies there already, whatever its ports; cheaper than reading it."""
    try:
        written = json.loads(_trusted_text(state_dir / FILE_NAME) or "null")
        ports = {
            name: written[name]["port"]
            for name, target in endpoints.stores.items()
            if target.is_embedded
        }
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    record = endpoints.record()
    for name, port in ports.items():
        record[name]["port"] = port
    return bool(written == record) and all(map(_is_port, ports.values()))


def _is_port(number: object) -> bool:
    return type(number) is int and 1 <= number <= LARGEST_PORT


def _trusted_text(path: Path) -> str | None:
    """Return a file of our own; None without one, or where it may be somebody else's."""
    try:
        return _own_text(path)
    except ConfigError:
        return None


def _own_text(path: Path) -> str | None:
    """Return a file that nobody but this user (or root) can have written, None without one.

    Raises:
        ConfigError: somebody else could read or write it, it is no file, or too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): {REPAIR}") from error
    status = os.fstat(descriptor)
    is_ours = status.st_uid in {os.geteuid(), 0} and not status.st_mode & 0o077
    if not stat.S_ISREG(status.st_mode) or not is_ours:
        os.close(descriptor)
        raise ConfigError(
            f"{path} could have been written by somebody else: check who did, remove it, "
            f"and {REPAIR}"
        )
    if status.st_size > LARGEST_FILE:
        os.close(descriptor)
        raise ConfigError(f"{path} has {status.st_size} bytes, too many: remove it, and {REPAIR}")
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as stream:
        return stream.read()
