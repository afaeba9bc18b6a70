"""The official Chroma client on a store's port: it reads what the store holds, and no more."""

import gc

import chromadb
import httpx
import pytest
from chromadb.config import Settings
from running_server import CHUNKS, NAMES
from store_samples import vector

CHANGES = {
    "add": lambda c, _: c.add(ids=["x"], embeddings=[NEAR], documents=["x"]),
    "upsert": lambda c, _: c.upsert(ids=["x"], embeddings=[NEAR], documents=["x"]),
    "update": lambda c, _: c.update(ids=[IDS[0]], documents=["x"], embeddings=[NEAR]),
    "delete": lambda c, _: c.delete(ids=IDS),
    "delete where": lambda c, _: c.delete(where={"project": "guide"}),
    "modify": lambda c, _: c.modify(name="other"),
    "drop": lambda _, client: client.delete_collection(NAMES.collection),
    "create": lambda _, client: client.create_collection("other", embedding_function=None),
    "get or create": lambda _, client: client.get_or_create_collection(
        "other", embedding_function=None
    ),
    "reset": lambda _, client: client.reset(),
}
TEXTS = {scoped.chunk.chunk_id: scoped.chunk.text for scoped in CHUNKS}
IDS = list(TEXTS)


def numbers(text):
    return list(memoryview(vector(text)).cast("f"))


NEAR = numbers("green peas")


@pytest.fixture(scope="module")
def client(running):
    with chromadb.HttpClient(
        "127.0.0.1",
        running.chroma_port,
        headers={"Authorization": f"Bearer {running.token}"},
        database=NAMES.database,
        settings=Settings(anonymized_telemetry=False),
    ) as client:
        yield client
        # Chroma's client closes, and leaves its connections open.
        for session in [found for found in gc.get_objects() if type(found) is httpx.Client]:
            session.close()


@pytest.fixture(scope="module")
def collection(client):
    return client.get_collection(NAMES.collection, embedding_function=None)


def test_the_client_finds_the_one_collection(client, collection):
    assert client.heartbeat() > 0
    assert client.get_version()
    assert [found.name for found in client.list_collections()] == [NAMES.collection]
    assert client.count_collections() == 1
    assert collection.count() == len(IDS)
    assert collection.metadata["hnsw:space"] == "cosine"
    with pytest.raises(chromadb.errors.NotFoundError):
        client.get_collection("other", embedding_function=None)


def test_records_are_those_of_the_store(collection):
    got = collection.get(include=["documents", "metadatas", "embeddings"])
    assert dict(zip(got["ids"], got["documents"], strict=True)) == TEXTS
    assert {metadata["project"] for metadata in got["metadatas"]} == {"guide"}
    for text, embedding in zip(got["documents"], got["embeddings"], strict=True):
        assert list(embedding) == pytest.approx(numbers(text))
    assert collection.peek(limit=1)["ids"] == IDS[:1]


@pytest.mark.parametrize(
    ("asked", "ids"),
    [
        ({}, IDS),
        ({"ids": [IDS[2], IDS[0]]}, [IDS[2], IDS[0]]),
        ({"ids": IDS[1]}, [IDS[1]]),
        ({"limit": 2}, IDS[:2]),
        ({"limit": 2, "offset": 2}, IDS[2:]),
        ({"where": {"source_file": "fruit.rst"}}, IDS[:2]),
        ({"where": {"source_file": {"$ne": "fruit.rst"}}}, IDS[2:]),
        ({"where": {"$and": [{"project": "guide"}, {"source_file": "pods.rst"}]}}, IDS[2:]),
        ({"where_document": {"$contains": "green"}}, IDS[1:]),
        ({"where_document": {"$contains": "green"}, "where": {"source_file": "fruit.rst"}},
         [IDS[1]]),
    ],
)  # fmt: skip
def test_records_are_got(collection, asked, ids):
    assert collection.get(**asked)["ids"] == ids


def test_the_nearest_are_those_of_the_vectors(collection):
    def distance(text):
        return 1 - sum(a * b for a, b in zip(numbers(text), NEAR, strict=True))

    expected = sorted(IDS, key=lambda chunk_id: distance(TEXTS[chunk_id]))
    found = collection.query(
        query_embeddings=[NEAR, numbers("red apples")],
        n_results=3,
        include=["documents", "distances", "metadatas", "embeddings"],
    )
    assert found["ids"][0] == expected
    assert found["ids"][1][0] == IDS[0]
    assert found["documents"][0] == [TEXTS[chunk_id] for chunk_id in expected]
    wanted = [distance(TEXTS[chunk_id]) for chunk_id in expected]
    assert found["distances"][0] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize(
    ("asked", "ids"),
    [
        ({"n_results": 1}, [IDS[2]]),
        ({"n_results": 5, "where": {"source_file": "pods.rst"}}, [IDS[2]]),
        ({"n_results": 1, "where_document": {"$contains": "red"}}, [IDS[0]]),
        ({"n_results": 5, "ids": [IDS[1]]}, [IDS[1]]),
        ({"n_results": 5, "where": {"source_file": "none"}}, []),
    ],
)
def test_filters_narrow_a_query(collection, asked, ids):
    assert collection.query(query_embeddings=[NEAR], **asked)["ids"] == [ids]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_change_is_refused_and_changes_nothing(client, collection, change):
    with pytest.raises(Exception, match="read_only"):
        CHANGES[change](collection, client)
    got = collection.get(include=["documents"])
    assert dict(zip(got["ids"], got["documents"], strict=True)) == TEXTS
