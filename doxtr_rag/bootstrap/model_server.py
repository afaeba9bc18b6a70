"""A server of a model alone, for clients that `DOXTR_RAG_EMBED_URL` leads to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doxtr_rag.bootstrap.hosting import model_host, model_record
from doxtr_rag.bootstrap.project import model_folders, profile_named
from doxtr_rag.core.errors import ConfigError
from doxtr_rag.core.version import VERSION
from doxtr_rag.servers.app import Threads, embedding_app
from doxtr_rag.servers.gate import LOOPBACK_NAMES, Gate
from doxtr_rag.servers.lifecycle import bind_exactly, port_of, run

LOOPBACK_HOSTS = ("127.0.0.1", "localhost")
SHORTEST_TOKEN = 16


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """Where a model is served, and the file with the token that it asks for; port 0 is any."""

    host: str
    port: int
    token_file: Path | None = None

    @property
    def is_loopback(self) -> bool:
        """Say whether only programs of this machine can reach it."""
        return self.host in LOOPBACK_HOSTS


def serve_model(
    name: str | None, place: ModelPlace, *, conf: Path | None, say: Callable[[str], None]
) -> None:
    """Serve a model until a signal ends it.

    Raises:
        ConfigError: no profile has that name, or a token is needed and missing.
        PortTakenError: the port is taken.
    """
    profile, environment = profile_named(name, conf)
    token = _token(place)
    model, threads = model_host(profile, model_folders(environment), "auto"), Threads()

    def health() -> dict[str, Any]:
        return {"status": model.state()[0], "version": VERSION, "model": model_record(model)}

    listener = bind_exactly(place.host, place.port)
    port = port_of(listener)
    gate = Gate(
        {port: embedding_app(model, health=health, threads=threads)},
        kb_id="",
        token=token,
        host_names=frozenset(LOOPBACK_NAMES) if place.is_loopback else None,
    )
    model.warm_up()
    try:
        address = f"http://{place.host}:{port}/embed"
        run(gate, [listener], idle_s=None, when_ready=lambda: say(f"{profile.name} at {address}"))
    finally:
        threads.close()


def _token(place: ModelPlace) -> str | None:
    """Return the token to ask for; None on loopback without a file."""
    if place.token_file is None:
        if not place.is_loopback:
            raise ConfigError(
                f"--host {place.host}: whoever reaches it could use the model: name a file with a "
                "token by --token-file"
            )
        return None
    try:
        token = place.token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{place.token_file} cannot be read ({error}): name another") from error
    if len(token) < SHORTEST_TOKEN:
        raise ConfigError(
            f"{place.token_file}: a token has {SHORTEST_TOKEN} characters or more: write a "
            "random one"
        )
    return token
