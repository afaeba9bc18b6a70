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
from loopback import free_ports
from sandbox import BIN, environment_of
from station import QUESTION, SENTENCE, endpoints_with_shared_at

MARK = "This is the copy."
FIELDS = "id, text, title, breadcrumb, source_file, url, project, content_hash, text_hash, vector"
ROWS = f"SELECT {FIELDS} FROM chunks JOIN vectors USING (text_hash)"  # noqa: S608 - constants


@pytest.fixture
def chroma(tmp_path):
    """A Chroma server with nothing in it; returns its port."""
    (port,) = free_ports(1)
    command = [BIN / "chroma", "run", "--path", tmp_path / "chroma", "--port", str(port)]
    with (tmp_path / "chroma.log").open("w+") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1"], env=environment_of(tmp_path),
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            make_database(port, process, log)
            yield port
        finally:
            process.terminate()
            process.wait(timeout=20)


def make_database(port, process, log):
    """Wait for the server, and give it the shared store's database."""
    for _ in range(200):
        try:
            client = chromadb.HttpClient("127.0.0.1", port)
            break
        except ValueError:
            assert process.poll() is None, log.seek(0) or log.read()
            time.sleep(0.1)
    chromadb.AdminClient(
        chromadb.Settings(
            chroma_api_impl="chromadb.api.fastapi.FastAPI",
            chroma_server_host="127.0.0.1",
            chroma_server_http_port=port,
        )
    ).create_database("doxtr_shared")
    assert client.heartbeat() > 0


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
        documents=[f"{row[1]} {MARK}" for row in rows],
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


def test_a_plain_chroma_store_answers_beside_our_server(tmp_path, served, sandbox, model, chroma):
    chosen = endpoints_with_shared_at(served, tmp_path, chroma)
    copy_shared_store(served, chroma, json.loads(chosen.read_text()))
    sandbox.environment["DOXTR_RAG_ENDPOINTS"] = str(chosen)
    sandbox.ask(QUESTION)
    assert f"{SENTENCE}, one wheel for each crew. {MARK}" in model.tool_result
    assert "food.html" in model.tool_result
    assert "unavailable" not in model.tool_result
