import random
from dataclasses import replace

import numpy as np
import pytest
from tiny_profile import profile_of

from doxtr_rag.core.errors import EmbeddingError
from doxtr_rag.core.ports import Embedder, EmbeddingCounts
from doxtr_rag.core.profiles import Pooling
from doxtr_rag.embedding.onnx import CPU_BUDGET, OnnxEmbedder, cpu_budget
from doxtr_rag.embedding.session import CPU, ModelSession
from doxtr_rag.embedding.tokenizer import ProfileTokenizer

WORDS = ["build", "cache", "chunk", "error", "folder", "mount", "page", "port", "server", "store"]


@pytest.fixture(scope="module")
def profile(tiny_model_dir):
    return profile_of(tiny_model_dir)


@pytest.fixture(scope="module")
def embedder(profile, tiny_model_dir):
    return OnnxEmbedder(profile, tiny_model_dir)


def sentences(count, seed=0):
    draw = random.Random(seed)  # noqa: S311
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 90))) for _ in range(count)]


def vectors(embedder, texts):
    found = {index: vector for batch in embedder.embed(texts) for index, vector in batch}
    return [found[index] for index in range(len(texts))]


def array(vector):
    return np.frombuffer(vector, "<f4")


class FakeSession:
    """A session that answers as told, in front of a real one."""

    provider = CPU
    fixed_batch = None

    def __init__(self, run, fixed_batch=None):
        self.run = run
        self.fixed_batch = fixed_batch


def test_embedder_is_the_port(embedder, profile):
    port: Embedder = embedder
    assert port.fingerprint == profile.fingerprint
    assert port.dimension == 1024
    assert embedder.provider == CPU


def test_vectors_have_length_one_and_the_right_size(embedder):
    for vector in vectors(embedder, ["", "how to mount a folder", "word " * 3000]):
        assert len(vector) == 4 * 1024
        assert np.linalg.norm(array(vector).astype(np.float64)) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("pooling", Pooling)
def test_vector_does_not_depend_on_batch_or_order(profile, tiny_model_dir, pooling):
    embedder = OnnxEmbedder(replace(profile, pooling=pooling), tiny_model_dir)
    texts = sentences(150)
    together = vectors(embedder, texts)
    assert [embedder.embed_query(text) for text in texts] == together
    order = random.Random(1).sample(range(len(texts)), len(texts))  # noqa: S311
    shuffled = vectors(embedder, [texts[index] for index in order])
    assert shuffled == [together[index] for index in order]


def test_texts_that_share_words_are_near(embedder):
    question, near, far = map(
        array,
        vectors(
            embedder,
            ["mount a folder", "a folder to mount", "error while the server starts its port"],
        ),
    )
    assert question @ near > question @ far + 0.2


def test_identical_texts_run_once(profile, tiny_model_dir):
    embedder = OnnxEmbedder(profile, tiny_model_dir)
    first, other, again = vectors(embedder, ["one page", "another page", "one page"])
    assert first == again != other
    assert embedder.counts.texts == 2


def test_no_texts_run_nothing(profile, tiny_model_dir):
    embedder = OnnxEmbedder(profile, tiny_model_dir)
    assert list(embedder.embed([])) == []
    assert embedder.counts == EmbeddingCounts()


def test_counts_tell_tokens_padding_and_cuts(profile, tiny_model_dir):
    embedder = OnnxEmbedder(profile, tiny_model_dir)
    vectors(embedder, ["word", "word word word", "word " * 600])
    assert embedder.counts == EmbeddingCounts(
        texts=3, tokens=512 + 5 + 3, padded_tokens=512 + 2 * 5, truncated=1
    )


@pytest.mark.parametrize(
    ("cores", "budget"),
    [
        pytest.param(1, 512, id="one-core-still-shares-out-the-weights"),
        pytest.param(2, 512, id="few-cores-stay-in-their-caches"),
        pytest.param(4, 1024, id="budget-grows-with-the-cores"),
        pytest.param(64, CPU_BUDGET, id="memory-is-bounded"),
    ],
)
def test_cpu_budget(cores, budget):
    assert cpu_budget(cores) == budget


def test_batches_come_longest_first_within_the_budget(profile, tiny_model_dir):
    embedder = OnnxEmbedder(profile, tiny_model_dir, budget=CPU_BUDGET)
    texts = ["word " * length for length in (5, 400, 30, 310)]
    batches = [[index for index, _ in batch] for batch in embedder.embed(texts)]
    assert batches == [[1, 3], [2, 0]]
    many = ["word " * (100 + number % 50) + str(number) for number in range(100)]
    widest = [max(map(len, (many[i] for i, _ in batch))) for batch in embedder.embed(many)]
    assert len(widest) > 100 * 100 // CPU_BUDGET
    assert widest == sorted(widest, reverse=True)


def test_prefixes_are_part_of_the_input(profile, tiny_model_dir, embedder):
    prefixed = replace(profile, query_prefix="query: ", passage_prefix="page: ")
    other = OnnxEmbedder(prefixed, tiny_model_dir)
    assert other.embed_query("cache") == embedder.embed_query("query: cache")
    assert vectors(other, ["cache"]) == vectors(embedder, ["page: cache"])
    assert other.fingerprint != embedder.fingerprint


def test_batch_that_does_not_fit_is_halved_and_the_size_remembered(profile, tiny_model_dir):
    real = ModelSession(profile, tiny_model_dir)
    tried = []

    def run(output, ids, mask):
        tried.append(ids.size)
        if ids.size > 500:
            raise MemoryError("no room")
        return real.run(output, ids, mask)

    embedder = OnnxEmbedder(profile, tiny_model_dir, session=FakeSession(run), budget=CPU_BUDGET)
    texts = sentences(60)
    assert vectors(embedder, texts) == vectors(OnnxEmbedder(profile, tiny_model_dir), texts)
    assert sum(size > 500 for size in tried) <= 3
    vectors(embedder, texts)
    assert sum(size > 500 for size in tried) <= 3


@pytest.mark.parametrize(
    ("texts", "fixed_batch", "said"),
    [
        pytest.param(["word word"], None, "embed 1 x 4 tokens at once: no room", id="one-text"),
        pytest.param(["word", "a"], 2, "embed 2 x 3 tokens at once: no room", id="fixed-batch"),
    ],
)
def test_what_cannot_be_halved_and_does_not_fit_is_an_error(
    profile, tiny_model_dir, texts, fixed_batch, said
):
    def run(output, ids, mask):
        raise MemoryError("no room")

    embedder = OnnxEmbedder(profile, tiny_model_dir, session=FakeSession(run, fixed_batch))
    with pytest.raises(EmbeddingError, match=said):
        vectors(embedder, texts)


def test_model_of_a_fixed_batch_size_gets_that_many_rows(profile, tiny_model_dir):
    real = ModelSession(profile, tiny_model_dir)
    rows = []

    def run(output, ids, mask):
        rows.append(len(ids))
        return real.run(output, ids, mask)

    embedder = OnnxEmbedder(profile, tiny_model_dir, session=FakeSession(run, fixed_batch=4))
    texts = sentences(10)
    assert vectors(embedder, texts) == vectors(OnnxEmbedder(profile, tiny_model_dir), texts)
    assert rows == [4, 4, 4]


@pytest.mark.parametrize(
    ("value", "dimension", "said"),
    [
        pytest.param(np.nan, 1024, "not finite", id="not-a-number"),
        pytest.param(np.inf, 1024, "not finite", id="infinite"),
        pytest.param(0.0, 1024, "zero", id="zero"),
        pytest.param(1.0, 384, "expected 1024", id="wrong-dimension"),
    ],
)
def test_what_is_no_vector_is_an_error(profile, tiny_model_dir, value, dimension, said):
    def run(output, ids, mask):
        return np.full((len(ids), dimension), value, np.float32)

    embedder = OnnxEmbedder(profile, tiny_model_dir, session=FakeSession(run))
    with pytest.raises(EmbeddingError, match=said):
        embedder.embed_query("page")


def test_loaded_tokenizer_can_be_shared(profile, tiny_model_dir):
    tokenizer = ProfileTokenizer(profile, tiny_model_dir)
    embedder = OnnxEmbedder(profile, tiny_model_dir, tokenizer=tokenizer)
    embedder.embed_query("one two three")
    assert embedder.counts.tokens == tokenizer.count(["one two three"])[0]
