import pytest
from store_samples import chunk, ids, publish

from doxtr_rag.storage import lexical, open_reader
from doxtr_rag.storage.lexical import FieldWeights, match_expression


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("", id="empty"),
        pytest.param("   \t\n", id="blank"),
        pytest.param("the of and", id="stop-words-only"),
        pytest.param("a\0b", id="nul"),
        pytest.param('"unbalanced', id="open-quote"),
        pytest.param("title: NEAR( foo* OR NOT ^x {a b}", id="operators"),
        pytest.param("') DROP TABLE chunks; --", id="sql"),
        pytest.param("-- - + * ( ) : ^ ~", id="signs-only"),
        pytest.param(" ".join(f"word{n}" for n in range(10_000)), id="ten-thousand-words"),
        pytest.param("x" * 200_000, id="one-endless-word"),
        pytest.param("\ud800 lone surrogate", id="lone-surrogate"),
        pytest.param("日本語 ñandú 😀", id="other-scripts"),
    ],
)
def test_any_text_is_a_valid_query(store, reader, query):
    publish(store, [chunk("a", "some text")])
    assert len(reader.lexical(query, 5)) <= 1
    assert len(reader.fetch(["guide/intro#a"])) == 1


@pytest.mark.parametrize(
    ("query", "best"),
    [
        pytest.param("configurations", "stem", id="stems"),
        pytest.param("what is the gearbox", "gear", id="stop-words-do-not-drown-a-word"),
        pytest.param("os.path.join", "dotted", id="identifier-with-dots"),
        pytest.param('NOT "gearbox"', "gear", id="quoted-operator-is-a-word"),
        pytest.param("CAFÉ", "accent", id="accents-and-case-fold"),
        pytest.param("of", "stop", id="a-stop-word-alone-is-searched"),
    ],
)
def test_the_best_chunk_comes_first(store, reader, query, best):
    texts = {
        "stem": "Every configuration is a file.",
        "gear": "Oil the gearbox.",
        "dotted": "Call os.path.join with parts.",
        "paths": "A join in the path by an os.",
        "accent": "Meet in the cafe.",
        "stop": "of",
    }
    publish(store, [chunk(anchor, text) for anchor, text in texts.items()])
    assert ids(reader.lexical(query, 3))[0] == f"guide/intro#{best}"


def test_a_title_weighs_more_than_a_body(store, folder):
    publish(store, [chunk("zebra", "stripes"), chunk("horse", "a zebra is no horse, not at all")])
    for weights, first in ((None, "zebra"), (FieldWeights(0.0, 0.0, 1.0), "horse")):
        with open_reader(folder, store.scope, "shared") as reader:
            reader._weights = weights or reader._weights
            assert ids(reader.lexical("zebra", 2))[0] == f"guide/intro#{first}"


def test_scores_fall_and_ties_go_to_the_smaller_id(store, reader):
    publish(store, [chunk(anchor, "same words", document="d") for anchor in ("b", "a", "c")])
    hits = reader.lexical("words", 2)
    assert ids(hits) == ["guide/d#a", "guide/d#b"]
    assert hits[0].score == hits[1].score > 0
    assert not reader.lexical("words", 0)


def test_no_word_asks_nothing():
    assert match_expression("... !!") is None


@pytest.mark.parametrize("common", [0, 20, 10_000])
def test_common_words_change_no_best_hit(store, reader, monkeypatch, common):
    """Ranking through the rare words alone gives what ranking every chunk gives."""
    texts = [f"sphinx text {'zebra ' * (n % 7 == 0)}{n}" for n in range(60)]
    publish(store, [chunk(f"n{n:03}", text) for n, text in enumerate(texts)])

    def best(limit):
        monkeypatch.setattr(lexical, "COMMON", limit)
        return [(h.chunk_id, round(h.score, 9)) for h in reader.lexical("sphinx zebra text", 5)]

    assert len(best(common)) == 5
    assert best(common) == best(10_000)


def test_chunks_with_common_words_alone_are_found_where_rare_ones_are_too_few(
    store, reader, monkeypatch
):
    publish(store, [chunk(f"n{n:03}", f"sphinx {'zebra' * (n == 7)}{n}") for n in range(30)])
    monkeypatch.setattr(lexical, "COMMON", 5)
    found = [h.chunk_id for h in reader.lexical("sphinx zebra7", 5)]
    assert len(found) == 5
    assert found[0].endswith("n007")


@pytest.mark.parametrize("common", [0, 20, 10_000])
def test_ties_go_to_the_smaller_id_however_many_there_are(store, reader, monkeypatch, common):
    """So that two stores of the same chunks answer alike, whatever was written first."""
    monkeypatch.setattr(lexical, "TIES", 3)
    monkeypatch.setattr(lexical, "COMMON", common)
    publish(store, [chunk(f"n{n:03}", "sphinx zebra") for n in reversed(range(30))])
    found = [h.chunk_id for h in reader.lexical("sphinx zebra", 4)]
    assert found == sorted(found)
    assert found[0].endswith("n000")
