"""Fixtures that more than one room's tests need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tiny_model import make_tiny_model
from tiny_profile import FILES, FOLDER_VARIABLE

IS_CI = os.environ.get("CI", "no").lower() not in {"", "0", "false", "no", "off"}

# No build of a test leaves a server behind: `rag_serve` is off under CI.
os.environ.setdefault("CI", "true")


@pytest.fixture(scope="session")
def is_ci():
    """Whether the tests run in CI, where a missing tool is a failure and no reason to skip."""
    return IS_CI


@pytest.fixture(scope="session")
def tiny_model_dir(tmp_path_factory):
    """The folder of the tiny model, which profile `tiny` finds too, in child processes as well."""
    given = os.environ.get(FOLDER_VARIABLE)
    if given and all(Path(given, name).is_file() for name in FILES):
        yield Path(given)
        return
    folder = make_tiny_model(tmp_path_factory.mktemp("tiny-model"))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(FOLDER_VARIABLE, str(folder))
        yield folder
