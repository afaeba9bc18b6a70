"""What runs in CI is told apart from what the tests only tell their child processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, "False true"), ({"CI": "true"}, "True true"), ({"CI": "false"}, "False false")],
    ids=["unset", "true", "false"],
)
def test_ci_is_remembered_as_it_was_given(variables, expected):
    given = {name: value for name, value in os.environ.items() if name != "CI"}
    path = os.pathsep.join([str(TESTS), str(TESTS / "support")])
    done = subprocess.run(
        [sys.executable, "-c", "import conftest, os; print(conftest.IS_CI, os.environ['CI'])"],
        env={**given, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == expected
