"""The reference project, Sphinx's own documentation, gives the knowledge base it gave before."""

from __future__ import annotations

import functools
import html
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

import dox_build
import pytest

BASELINE = Path(__file__).parent / "baselines" / "dox_reference.json"
BASE_URL = "https://www.sphinx-doc.org/en/master/"
NOTHING_BUT_A_TOCTREE = {"development/howtos/index", "development/tutorials/index"}
TOLERANCE = {
    "documents": 0.0,
    "sections": 0.02,
    "chunks": 0.05,
    "shared_chunks": 0.05,
    "warnings": 0.1,
}

pytestmark = [pytest.mark.corpus, pytest.mark.slow]


@pytest.fixture(scope="module")
def built():
    done = dox_build.build(with_extension=True)
    assert done.status == 0, done.output
    return done


@pytest.mark.parametrize("count", TOLERANCE)
def test_count_stays_near_the_baseline(count, built):
    wanted = json.loads(BASELINE.read_text(encoding="utf-8"))[count]
    assert built.counts()[count] == pytest.approx(wanted, rel=TOLERANCE[count])


def stored(built, query):
    found = set()
    for folder in dox_build.STORES:
        with closing(sqlite3.connect(built.project / folder / "corpus.sqlite3")) as connection:
            found |= {row[0] for row in connection.execute(query)}
    return found


def test_every_page_with_text_is_in_the_knowledge_base(built):
    written = (built.html / "_sources").rglob("*.rst.txt")
    pages = {
        path.relative_to(built.html / "_sources").as_posix().removesuffix(".rst.txt")
        for path in written
    }
    assert pages
    assert stored(built, "SELECT document FROM chunks") == pages - NOTHING_BUT_A_TOCTREE


def test_only_the_declared_folder_is_shared(built):
    corpus = built.project / ".doxtr/shared" / "corpus.sqlite3"
    with closing(sqlite3.connect(corpus)) as connection:
        files = {row[0] for row in connection.execute("SELECT source_file FROM chunks")}
    assert files
    assert all(name.startswith("doc/usage/") for name in files)


def test_every_address_opens_at_its_place(built):
    addresses = stored(built, "SELECT url FROM chunks")
    read = functools.cache(lambda page: (built.html / page).read_text(encoding="utf-8"))
    broken = []
    for address in sorted(addresses):
        page, _, anchor = address.removeprefix(BASE_URL).partition("#")
        place = f'id="{html.escape(unquote(anchor))}"' if anchor else ""
        if not (built.html / page).is_file() or place not in read(page):
            broken.append(address)
    assert addresses
    assert not broken


def test_the_extension_adds_no_warning(built):
    plain = dox_build.build(with_extension=False)
    assert plain.status == 0, plain.output
    added = [line for line in built.warnings if line not in plain.warnings]
    assert not added
