"""Every kind of node, from source text to Markdown blocks.

A case is a document of `tests/roots/kinds` and, beside it, what is harvested of it. A missing
`.harvest.txt` is written by the run that misses it, which fails: read it before the next run.
"""

import io
import sys
from pathlib import Path

import pytest
from harvest_project import dump, harvest_folder

pytestmark = pytest.mark.sphinx_side

ROOT = Path(__file__).parent.parent / "roots" / "kinds"
CASES = sorted(path.stem for path in ROOT.glob("*-*.*") if path.suffix in {".rst", ".md"})


@pytest.fixture(scope="module")
def harvested(tmp_path_factory):
    return harvest_folder(ROOT, tmp_path_factory.mktemp("kinds"))


@pytest.mark.parametrize("case", CASES)
def test_harvest_of(case, harvested):
    expected = ROOT / f"{case}.harvest.txt"
    found = dump(harvested.sections[case])
    if not expected.exists():
        expected.write_text(found, encoding="utf-8")
        pytest.fail(f"{expected.name} was missing: read what was written")
    assert found == expected.read_text(encoding="utf-8")
