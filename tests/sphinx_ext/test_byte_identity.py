"""The pages that Sphinx writes are the same, byte for byte, with and without the extension."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import dox_build
import pytest

sys.path.insert(0, str(dox_build.REPOSITORY / "test_harness"))

from assertions import Expectation
from test_runner import build_environment, prepare, sphinx_build

ENOUGH_FILES = 300
JOBS = 2


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def assert_identical(without, with_extension):
    plain, built = contents(without), contents(with_extension)
    assert ".buildinfo" in plain
    assert not sorted(name for name, _ in plain.items() ^ built.items())


@pytest.mark.sphinx_side
@pytest.mark.parametrize("builder", ["html", "dirhtml"])
def test_harness_pages_are_what_they_are_without_the_extension(builder, tmp_path):
    source = prepare(Expectation(claim="as it is"), tmp_path)
    conf = source / "conf.py"
    with_extension = conf.read_text(encoding="utf-8")
    switched_off = f'{with_extension}\nextensions.remove("doxtr_rag")\n'
    folders: list[Path] = []
    for name, text in {"without": switched_off, "with": with_extension}.items():
        conf.write_text(text, encoding="utf-8")
        folders.append(tmp_path / name)
        status, output, _ = sphinx_build(source, folders[-1], builder, JOBS, build_environment())
        assert status == 0, output
    assert_identical(*folders)


@pytest.mark.corpus
@pytest.mark.slow
def test_reference_pages_are_what_they_are_without_the_extension():
    plain = dox_build.build(with_extension=False)
    built = dox_build.build(with_extension=True)
    assert (plain.status, built.status) == (0, 0), plain.output + built.output
    assert len(contents(plain.html)) > ENOUGH_FILES
    assert_identical(plain.html, built.html)
