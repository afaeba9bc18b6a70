"""JSON text without half surrogate pairs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxtr_rag.core.json_text import without_half_pairs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(r'"\ud800"', r'"\ufffd"', id="high-alone"),
        pytest.param(r'"\uDFFF"', r'"\ufffd"', id="low-alone"),
        pytest.param(r'"\uD83D\ude00"', r'"\uD83D\ude00"', id="pair"),
        pytest.param(r'"\ude00\ud83d"', r'"\ufffd\ufffd"', id="pair-reversed"),
        pytest.param(r'"\ud800\ud83d\ude00"', r'"\ufffd\ud83d\ude00"', id="half-before-pair"),
        pytest.param(r'"\\ud800"', r'"\\ud800"', id="escaped-backslash"),
        pytest.param(r'"\\\ud800"', r'"\\\ufffd"', id="escape-after-escaped-backslash"),
        pytest.param(r'"\ud83d\\ude00"', r'"\ufffd\\ude00"', id="pair-split-by-a-backslash"),
        pytest.param(r'"\ud7ff\ue000"', r'"\ud7ff\ue000"', id="neighbours"),
        pytest.param(r'"\ud80"', r'"\ud80"', id="malformed"),
        pytest.param('{"a": "\\', '{"a": "\\', id="cut-off"),
    ],
)
def test_only_half_pairs_are_replaced(text, expected):
    assert without_half_pairs(text) == expected


@given(st.text(st.characters(codec=None)))
def test_any_text_can_be_encoded_afterwards_and_the_rest_is_as_it_was(text):
    read = json.loads(without_half_pairs(json.dumps(text)))
    read.encode()
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert read.replace("\ufffd", "") == whole.replace("\ufffd", "")
