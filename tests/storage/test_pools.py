"""A store asked once for everything it has to say to a question."""

import dataclasses as dc

import pytest
from store_samples import DIMENSION, MODEL, OTHER_MODEL, chunk, fill, vector

from doxtr_rag.core.errors import ParityError
from doxtr_rag.core.ports import DocumentText, PoolRequest
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import open_reader, open_store


@pytest.fixture
def filled(store):
    fill(
        store,
        [
            chunk("a", "red apples", document="fruit/red"),
            chunk("b", "green apples", document="fruit/green"),
            chunk("c", "green peas", document="pods"),
        ],
    )
    return store


def request(query, text=None, **changes):
    made = PoolRequest(query, vector(text or query), MODEL, size=5, best=1)
    return dc.replace(made, **changes)


def anchors(hits):
    return [hit.chunk_id.partition("#")[2] for hit in hits]


def test_each_pool_ranks_and_the_best_section_comes_along(filled, reader):
    found = reader.pools(request("peas", "green peas"))
    assert list(found.rankings) == ["dense", "lexical"]
    assert len(found.rankings["dense"]) == 3
    assert anchors(found.rankings["lexical"]) == ["c"]
    assert list(found.chunks) == ["guide/pods#c"]
    assert {hit.store for hit in found.rankings["dense"]} == {reader.name}


@pytest.mark.parametrize(
    ("documents", "expected"),
    [("fruit/*", {"a", "b"}), ("GREEN", {"b"}), ("pods.rst", {"c"}), ("nothing", set())],
)
def test_a_filter_holds_for_every_pool(filled, reader, documents, expected):
    found = reader.pools(request("green red apples peas", documents=documents))
    assert set(anchors(found.rankings["dense"])) == expected
    assert set(anchors(found.rankings["lexical"])) == expected


def test_a_filter_finds_what_is_far_from_the_question(store, reader):
    """Filtering after the nearest were taken would return nothing."""
    crowd = [chunk(f"n{i:03}", f"text {i}", document="crowd") for i in range(60)]
    fill(store, [*crowd, chunk("far", "elsewhere", document="lonely")])
    found = reader.pools(request("text 1", documents="lonely", size=3))
    assert anchors(found.rankings["dense"]) == ["far"]


def test_a_question_of_another_model_is_refused(filled, reader):
    with pytest.raises(ParityError, match="another model"):
        reader.pools(request("apples", fingerprint=OTHER_MODEL))
    with pytest.raises(ParityError, match="dimensions"):
        reader.pools(request("apples", vector=vector("apples", DIMENSION + 1)))


def test_an_empty_store_answers_with_empty_pools(tmp_path):
    with open_store(tmp_path, Scope.SHARED_ORG, "shared") as empty:
        empty.seal(MODEL, DIMENSION)
    with open_reader(tmp_path, Scope.SHARED_ORG, "shared") as reader:
        found = reader.pools(request("apples"))
    assert found.rankings == {"dense": (), "lexical": ()}
    assert not found.chunks


def test_a_document_comes_in_reading_order_whatever_order_it_was_stored_in(store, reader):
    chunks = [chunk(anchor, f"{anchor}.", document="long") for anchor in "zyx"]
    placed = [
        dc.replace(scoped, chunk=dc.replace(scoped.chunk, position=at))
        for at, scoped in enumerate(chunks)
    ]
    fill(store, placed[::-1])
    for name in ("long", "guide/long", "long.rst"):
        assert [c.anchor for c in reader.document(name).chunks] == ["z", "y", "x"]
    assert reader.document("lomg") == DocumentText((), ("long",))
