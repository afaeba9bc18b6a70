"""The tree of exceptions and its kinds."""

import pytest

from doxtr_rag.core.errors import (
    DoxtrRagError,
    EmbeddingError,
    ParityError,
    ServerGoneError,
    StoreError,
    WeightsMissingError,
    error_of_kind,
)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("identity_mismatch", ParityError),
        ("weights_missing", WeightsMissingError),
        ("store_server_down", ServerGoneError),
        ("embedding", EmbeddingError),
        ("store", StoreError),
        ("failed", DoxtrRagError),
        ("document", DoxtrRagError),
        ("never heard of", DoxtrRagError),
    ],
)
def test_a_kind_becomes_the_exception_it_came_from(kind, expected):
    error = error_of_kind(kind, "why")
    assert type(error) is expected
    assert str(error) == "why"
