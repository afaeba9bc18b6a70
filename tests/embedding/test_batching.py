import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxtr_rag.embedding.batching import distinct, longest_first, next_batch


def batches(lengths, budget, fixed_rows=None):
    order, start, made = longest_first(lengths), 0, []
    while start < len(order):
        made.append(list(next_batch(order, start, lengths, budget, fixed_rows)))
        start += len(made[-1])
    return made


@pytest.mark.parametrize(
    ("lengths", "budget", "fixed_rows", "expected"),
    [
        pytest.param([], 10, None, [], id="nothing-makes-no-batch"),
        pytest.param([3, 9, 3], 10, None, [[1], [0, 2]], id="longest-first-and-ties-in-order"),
        pytest.param([50, 1], 10, None, [[0], [1]], id="text-over-budget-runs-alone"),
        pytest.param([2, 2, 2, 2, 2], 10, None, [[0, 1, 2, 3, 4]], id="budget-is-filled"),
        pytest.param(
            [400, 390, 301, 299, 20, 5],
            2048,
            None,
            [[0, 1, 2], [3], [4, 5]],
            id="much-shorter-text-starts-another-batch",
        ),
        pytest.param([60, 20, 5, 2], 2048, None, [[0, 1, 2, 3]], id="small-batch-is-not-split"),
        pytest.param([9, 2, 2], 10, 2, [[0, 1], [2]], id="fixed-rows-overrule-the-budget"),
    ],
)
def test_next_batch(lengths, budget, fixed_rows, expected):
    assert batches(lengths, budget, fixed_rows) == expected


@given(st.lists(st.integers(1, 600), max_size=60), st.integers(1, 4096))
def test_every_text_runs_once_and_no_batch_breaks_the_budget(lengths, budget):
    made = batches(lengths, budget)
    assert sorted(index for batch in made for index in batch) == list(range(len(lengths)))
    for batch in made:
        padded = len(batch) * max(lengths[index] for index in batch)
        assert padded <= budget or len(batch) == 1


def test_distinct_keeps_the_order_and_every_place():
    assert list(distinct(["b", "a", "b"]).items()) == [("b", [0, 2]), ("a", [1])]
