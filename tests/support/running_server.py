"""A server of one small store, in a thread of the test, on ports of loopback."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn
from store_samples import DIMENSION, MODEL, chunk

from doxtr_rag.core.scope import Scope
from doxtr_rag.servers.app import Threads, api_app, chroma_app
from doxtr_rag.servers.chroma_api import ChromaRoutes, CollectionNames
from doxtr_rag.servers.gate import Gate
from doxtr_rag.servers.identity import make_token
from doxtr_rag.servers.lifecycle import bind_exactly, port_of
from doxtr_rag.servers.model import ModelHost, ModelNames
from doxtr_rag.servers.stores import OpenStore, ServedStore, StoreHealth
from doxtr_rag.storage import CollectionView, corpus_stamp, open_reader
from doxtr_rag.testing import HashEmbedder

KB_ID = "kb"
CHUNKS = [
    chunk("a", "red apples", document="fruit"),
    chunk("b", "green apples", document="fruit"),
    chunk("c", "green peas", document="pods"),
]
NAMES = CollectionNames("default_tenant", "doxtr_shared", "tiny_8")


@dataclass(frozen=True)
class RunningServer:
    """Where the server listens, and the token that it asks for."""

    api_port: int
    chroma_port: int
    token: str

    @property
    def url(self) -> str:
        """The address of the server's own routes."""
        return f"http://127.0.0.1:{self.api_port}"

    @property
    def authorization(self) -> dict[str, str]:
        """The header that lets a request through."""
        return {"authorization": f"Bearer {self.token}"}

    def is_well(self) -> bool:
        """Say whether a good request is answered."""
        asked = httpx.get(f"{self.url}/health", headers=self.authorization, timeout=5)
        return asked.status_code == 200


@contextmanager
def running_server(folder: Path, token: str | None = None) -> Iterator[RunningServer]:
    """Serve the store in a folder; the model is made of hashes."""
    listeners = [bind_exactly("127.0.0.1", 0) for _ in range(2)]
    api_port, chroma_port = map(port_of, listeners)
    token = token or make_token()
    threads, store = Threads(), _served(folder)
    names = ModelNames("tiny", "tiny-model", DIMENSION, MODEL)
    host = ModelHost(names, lambda: lambda: HashEmbedder(DIMENSION, fingerprint=MODEL))
    api = api_app(
        host,
        {"shared": store},
        page_of=lambda _: None,
        health=lambda: {"state": store.health().state},
        threads=threads,
    )
    apps = {api_port: api, chroma_port: chroma_app(ChromaRoutes(store, NAMES), threads)}
    gate = Gate(apps, kb_id=KB_ID, token=token)
    config = uvicorn.Config(gate, lifespan="off", ws="none", access_log=False, log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": listeners})
    thread.start()
    try:
        yield RunningServer(api_port, chroma_port, token)
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)
        threads.close()
        store.close()


def _served(folder: Path) -> ServedStore:
    def opened() -> OpenStore:
        reader = open_reader(folder, Scope.SHARED_ORG, "shared")
        return OpenStore(reader, CollectionView(reader), reader.close)

    return ServedStore(
        "shared",
        Scope.SHARED_ORG,
        open_store=opened,
        stamp=lambda: corpus_stamp(folder),
        look=lambda: StoreHealth("ready"),
    )


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
