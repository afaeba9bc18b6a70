"""Runs killed at seeded moments: nothing is lost, leaked, embedded twice or left behind.

`DURABILITY_KILLS` and `DURABILITY_SEED` choose the moments. The name of a case that fails, given as
`DURABILITY_CASE`, has that one repeated.
"""

import os
from collections import Counter

import pytest
from crash_cases import Case, stories

pytestmark = [
    pytest.mark.slow,
    pytest.mark.durability,
    pytest.mark.usefixtures("stopped_calls"),
]

KILLS = int(os.environ.get("DURABILITY_KILLS", "30"))
SEED = int(os.environ.get("DURABILITY_SEED", "1"))
ONE_CASE = os.environ.get("DURABILITY_CASE", "")
STRUCK = 0.8
"""The share of moments that must have come: a run takes no call exactly as often as another."""


# While a corpus is made it has a journal, which a reader that may not write cannot undo.
PINNED = (
    "first-build|run unlink shared/corpus.sqlite3-journal|1|all|0.0|alone",
    "first-build|run fdatasync shared/corpus.sqlite3|1|all|0.0|alone",
)


@pytest.fixture(scope="module")
def tally():
    return Counter()


def check(laboratory, case, tally):
    laboratory.examine(case)
    tally["killed" if case.is_killed else "missed"] += 1
    tally[case.kill.victims.value] += case.is_killed
    tally["unsaved"] += case.unsaved
    again = f"DURABILITY_CASE='{case.name}' make durability PYTEST_ARGS='-k named'"
    assert not case.faults, "\n".join([*case.faults, f"to repeat it: {again}"])


@pytest.mark.skipif(bool(ONE_CASE), reason="DURABILITY_CASE asks for another case")
@pytest.mark.parametrize("number", range(KILLS))
def test_a_kill_costs_nothing(laboratory, tally, number):
    check(laboratory, laboratory.case(number, SEED), tally)


@pytest.mark.skipif(bool(ONE_CASE), reason="DURABILITY_CASE asks for another case")
@pytest.mark.parametrize("name", PINNED)
def test_a_kill_that_once_cost_something_costs_nothing(laboratory, name):
    case = Case.of(name)
    check(laboratory, case, Counter())
    assert case.is_killed


@pytest.mark.skipif(not ONE_CASE, reason="DURABILITY_CASE names a case to repeat")
def test_the_case_that_was_named(laboratory, tally):
    check(laboratory, Case.of(ONE_CASE), tally)


@pytest.mark.skipif(bool(ONE_CASE), reason="DURABILITY_CASE asks for another case")
def test_most_moments_came(laboratory, tally, say):
    points = {story.name: len(set(laboratory.points(story))) for story in stories()}
    say(f"runs killed with seed {SEED}: {dict(tally)}; points of each story: {points}")
    assert tally["killed"] >= STRUCK * (tally["killed"] + tally["missed"])
