"""The harness project, built in every configuration, leaves the stores it must."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).parent.parent / "test_harness"
sys.path.insert(0, str(HARNESS))

from assertions import Expectation, problems  # noqa: E402 - needs the path above
from test_runner import OVERRIDES, differences, prepare, run  # noqa: E402 - the same

pytestmark = pytest.mark.sphinx_side


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Build each configuration once, when it is first asked for."""
    done = {}

    def outcome(name):
        if name not in done:
            done[name] = run(name, tmp_path_factory.mktemp(name))
        return done[name]

    return outcome


@pytest.mark.parametrize("name", OVERRIDES)
def test_stores_hold_what_the_configuration_claims(name, outcomes):
    assert not outcomes(name).problems, "\n".join(outcomes(name).problems)


@pytest.mark.parametrize(
    "name", [name for name, path in OVERRIDES.items() if Expectation.read(path).same_as]
)
def test_configuration_gives_the_same_knowledge_base(name, outcomes):
    expected = Expectation.read(OVERRIDES[name])
    assert not differences(outcomes(expected.same_as).digest, outcomes(name).digest)


@pytest.mark.parametrize("trace", ["quokka", "PRIVATEMARK-quokka", "hiddenmark"])
def test_a_trace_of_private_text_in_any_file_of_the_shared_store_is_noticed(trace, tmp_path):
    expected = Expectation(claim="a leak")
    prepare(expected, tmp_path)
    folder = tmp_path / expected.shared_store / "index" / "1"
    folder.mkdir(parents=True)
    (folder / "data.bin").write_bytes(b"\x00" + trace.upper().encode() + b"\xff")
    assert any("index/1/data.bin holds" in line for line in problems(tmp_path, expected))


def test_a_page_that_is_in_no_store_is_noticed(tmp_path):
    expected = Expectation(claim="an empty store")
    prepare(expected, tmp_path)
    found = problems(tmp_path, expected)
    assert "PUBLICMARK-index: expected in ['SHARED_ORG'], found in []" in found
    assert "PRIVATEMARK-quokka: expected in ['LOCAL_PRIVATE'], found in []" in found
