from dataclasses import replace

import pytest
from tiny_profile import profile_of

from doxtr_rag.core.errors import WeightsCorruptError, WeightsMissingError
from doxtr_rag.embedding.tokenizer import ProfileTokenizer


@pytest.fixture(scope="module")
def tokenizer(tiny_model_dir):
    return ProfileTokenizer(profile_of(tiny_model_dir), tiny_model_dir)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param("", 2, id="empty-text-has-the-special-tokens"),
        pytest.param("how to configure sphinx", 6, id="short-text"),
        pytest.param("word " * 512, 514, id="text-just-over-the-limit"),
        pytest.param("word " * 1800, 1802, id="text-of-several-limits"),
    ],
)
def test_count_is_that_of_the_whole_text(tokenizer, text, tokens):
    assert tokenizer.count([text]) == [tokens]


def test_encode_cuts_at_the_limit_and_says_how_often(tokenizer):
    encoded = tokenizer.encode(["word " * 510, "word " * 511, "word " * 5000])
    assert [len(ids) for ids in encoded.ids] == [512, 512, 512]
    assert [ids[-1] for ids in encoded.ids] == [2, 2, 2]
    assert encoded.truncated == 2


def test_many_texts_keep_their_order(tokenizer):
    texts = ["word " * (number % 7) for number in range(1300)]
    assert tokenizer.count(texts) == [2 + number % 7 for number in range(1300)]


def test_padding_and_limit_of_the_file_are_overruled(tiny_model_dir, tmp_path):
    profile = replace(profile_of(tiny_model_dir), max_tokens=8)
    inner = ProfileTokenizer(profile, tiny_model_dir)._tokenizer
    inner.enable_padding(length=128)
    inner.enable_truncation(4)
    inner.save(str(tmp_path / "tokenizer.json"))
    loaded = ProfileTokenizer(profile, tmp_path)
    assert [len(ids) for ids in loaded.encode(["word", "word " * 20]).ids] == [3, 8]


def test_missing_file_names_the_command(tiny_model_dir, tmp_path):
    with pytest.raises(WeightsMissingError, match="fetch-weights --profile tiny"):
        ProfileTokenizer(profile_of(tiny_model_dir), tmp_path)


def test_damaged_file_names_the_command(tiny_model_dir, tmp_path):
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(WeightsCorruptError, match="--profile tiny --force"):
        ProfileTokenizer(profile_of(tiny_model_dir), tmp_path)
