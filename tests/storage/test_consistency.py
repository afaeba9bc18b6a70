"""Whatever is published and withdrawn, chunks, text index and vectors tell one story."""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_samples import DIMENSION, MODEL, ORIGIN, PROJECT, chunk, ids, publish, vector

from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import open_reader, open_store

ANCHORS = st.sampled_from("abcdef")
TEXTS = st.sampled_from(["apple", "banana split", "cherry and apple", "date"])
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("publish"), st.dictionaries(ANCHORS, TEXTS, max_size=4), st.sets(ANCHORS)
        ),
        st.tuples(st.just("withdraw"), st.sets(ANCHORS, max_size=3)),
        st.tuples(st.just("seal")),
    ),
    max_size=8,
)


def name(anchor):
    return f"{PROJECT}/intro#{anchor}"


def apply(store, model, step):
    if step[0] == "publish":
        gone = step[2] - step[1].keys()
        publish(store, [chunk(a, t) for a, t in step[1].items()], [name(a) for a in gone])
        return {**{a: t for a, t in model.items() if a not in gone}, **step[1]}
    if step[0] == "withdraw":
        store.withdraw(PROJECT, [name(anchor) for anchor in step[1]])
        return {anchor: text for anchor, text in model.items() if anchor not in step[1]}
    store.seal(MODEL, DIMENSION)
    return model


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_every_sequence_ends_in_a_consistent_store(steps):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "store"
        with open_store(folder, Scope.SHARED_ORG, "shared") as store:
            model = {}
            for step in steps:
                model = apply(store, model, step)
            store.seal(MODEL, DIMENSION)
            assert set(store.hashes(PROJECT, ORIGIN)) == {name(anchor) for anchor in model}
            assert bool(store.revision(PROJECT)) == bool(model)
            with open_reader(folder, Scope.SHARED_ORG, "shared") as reader:
                for word in ("apple", "banana", "date"):
                    found = {name(a) for a, text in model.items() if word in text}
                    assert set(ids(reader.lexical(word, 50))) == found
                near = reader.dense(vector("apple"), 50)
                assert set(ids(near)) == {name(anchor) for anchor in model}
            with store._database.writing() as connection:
                connection.execute(
                    "INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('integrity-check', 1)"
                )
                kept = connection.execute("SELECT count(*) FROM vectors").fetchone()[0]
            assert kept == len({chunk(a, t).chunk.text_hash for a, t in model.items()})
