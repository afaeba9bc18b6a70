"""A shared store on a real Chroma server, asked by the extension beside the private one."""

from __future__ import annotations

import json
import sqlite3
import struct
import subprocess
import time
from contextlib import closing

import chromadb
import pytest
from conftest import QUESTION
from sandbox import BIN, Sandbox

SENTENCE = "Moon cheese is handed out on every second Monday"
FIELDS = "id, text, title, breadcrumb, source_file, url, project, content_hash, text_hash, vector"
ROWS = f"SELECT {FIELDS} FROM chunks JOIN vectors USING (text_hash)"  # noqa: S608 - constants


@pytest.fixture
def chroma(tmp_path):
    """A Chroma server with nothing in it; returns its port."""
    port = 18_900
    command = [BIN / "chroma", "run", "--path", tmp_path / "chroma", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for _ in range(200):
        try:
            client = chromadb.HttpClient("127.0.0.1", port)
            break
        except ValueError:
            time.sleep(0.1)
    chromadb.AdminClient(
        chromadb.Settings(
            chroma_api_impl="chromadb.api.fastapi.FastAPI",
            chroma_server_host="127.0.0.1",
            chroma_server_http_port=port,
        )
    ).create_database("doxtr_shared")
    assert client.heartbeat() > 0
    yield port
    process.terminate()
    process.wait(timeout=20)


def copy_shared_store(project, port, endpoints):
    """Put the chunks of the shared store into the server, as a build would."""
    client = chromadb.HttpClient("127.0.0.1", port, database="doxtr_shared")
    collection = client.create_collection(
        endpoints["shared"]["collection"],
        metadata={"fingerprint": endpoints["embedding"]["fingerprint"]},
        configuration={"hnsw": {"space": "cosine"}},
        embedding_function=None,
    )
    corpus = project / ".doxtr" / "shared" / "corpus.sqlite3"
    with closing(sqlite3.connect(corpus)) as database:
        rows = database.execute(ROWS).fetchall()
    names = ("section_title", "breadcrumb", "source_file", "url", "project", "content_hash")
    collection.upsert(
        ids=[row[0] for row in rows],
        documents=[row[1] for row in rows],
        embeddings=[list(struct.unpack(f"<{len(row[9]) // 4}f", row[9])) for row in rows],
        metadatas=[
            dict(zip(names, row[2:8], strict=True))
            | {
                "text_hash": row[8],
                "access_scope": "SHARED_ORG",
                "provenance": json.dumps({"kind": "anchor", "value": "", "end": None}),
            }
            for row in rows
        ],
    )


def test_a_plain_chroma_store_answers_beside_our_server(tmp_path, pi, served, model, chroma):
    path = served / ".doxtr" / "endpoints.json"
    endpoints = json.loads(path.read_text())
    copy_shared_store(served, chroma, endpoints)
    endpoints["shared"] |= {"mode": "http", "port": chroma}
    path.write_text(json.dumps(endpoints))
    sandbox = Sandbox(tmp_path / "sandbox", pi, served, model.url)
    assert sandbox.install().returncode == 0
    sandbox.ask(QUESTION)
    assert SENTENCE in model.tool_result
    assert "food.html" in model.tool_result
    assert "unavailable" not in model.tool_result
