"""Chroma's own clients, of Python and of Node, on the ports of the stores."""

from __future__ import annotations

import json
import os
import subprocess

import chromadb
import pytest
from sandbox import environment_of

SCRIPT = """
import { ChromaClient } from "chromadb";
const { port, token, database, collection: name } = JSON.parse(process.argv[2]);
const headers = { Authorization: `Bearer ${token}` };
const client = new ChromaClient({ host: "127.0.0.1", port, ssl: false, headers, database });
const collection = await client.getCollection({ name });
const got = await collection.get({ limit: 100, include: ["documents", "embeddings"] });
const queryEmbeddings = [got.embeddings[0]];
const near = await collection.query({ queryEmbeddings, nResults: 2 });
const kinds = {
  upsert: () => collection.upsert({ ids: ["x"], embeddings: queryEmbeddings, documents: ["x"] }),
  delete: () => collection.delete({ ids: got.ids }),
  drop: () => client.deleteCollection({ name }),
  create: () => client.createCollection({ name: "other", embeddingFunction: null }),
};
const refused = {};
for (const [kind, change] of Object.entries(kinds)) {
  refused[kind] = await change().then(() => false, () => true);
}
const heartbeat = await client.heartbeat();
const count = await collection.count();
console.log(JSON.stringify({ heartbeat, count, ids: got.ids, near: near.ids[0], refused }));
"""


@pytest.fixture
def shared(served):
    """The shared store's target and the token of the running server."""
    state = served / ".doxtr"
    target = json.loads((state / "endpoints.json").read_text())["shared"]
    return target | {"token": (state / "server.token").read_text().strip()}


def test_the_client_of_python_reads_and_changes_nothing(shared):
    client = chromadb.HttpClient(
        "127.0.0.1",
        shared["port"],
        headers={"Authorization": f"Bearer {shared['token']}"},
        database=shared["database"],
    )
    assert client.heartbeat() > 0
    assert [c.name for c in client.list_collections()] == [shared["collection"]]
    collection = client.get_collection(shared["collection"], embedding_function=None)
    got = collection.get(include=["documents", "metadatas", "embeddings"])
    assert len(got["ids"]) == collection.count() == 3
    assert {m["access_scope"] for m in got["metadatas"]} == {"SHARED_ORG"}
    assert not any("nine thousand" in text for text in got["documents"])
    near = collection.query(query_embeddings=[got["embeddings"][2]], n_results=1)
    assert near["ids"] == [[got["ids"][2]]]
    found = collection.get(where={"source_file": "source/food.rst"})
    assert len(found["ids"]) == 2
    vector = [got["embeddings"][0]]
    for change in (
        lambda: collection.add(ids=["x"], embeddings=vector, documents=["x"]),
        lambda: collection.upsert(ids=["x"], embeddings=vector, documents=["x"]),
        lambda: collection.update(ids=got["ids"][:1], embeddings=vector),
        lambda: collection.delete(ids=got["ids"]),
        lambda: collection.modify(name="other"),
        lambda: client.delete_collection(shared["collection"]),
        lambda: client.create_collection("other", embedding_function=None),
        client.reset,
    ):
        with pytest.raises(Exception, match="read_only"):
            change()
    assert collection.count() == len(got["ids"])


def test_the_client_of_node_reads_and_changes_nothing(shared, installed, tmp_path):
    folder = installed["chromadb"]["folder"]
    script = tmp_path / "client.mjs"
    script.write_text(SCRIPT)
    (tmp_path / "node_modules").symlink_to(os.path.join(folder, "node_modules"))  # noqa: PTH118
    done = subprocess.run(
        [installed["chromadb"]["node"], script, json.dumps(shared)],
        env=environment_of(tmp_path), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["heartbeat"] > 0
    assert said["count"] == len(said["ids"]) == 3
    assert said["near"][0] == said["ids"][0]
    assert all(said["refused"].values())
