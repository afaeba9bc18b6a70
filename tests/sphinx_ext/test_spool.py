"""Harvested pages on disk: what comes back, and what damage costs."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from doxtr_rag.core.documents import Block, BlockKind, Locator, Section
from doxtr_rag.core.errors import CorruptDocumentError, StoreUnavailableError
from doxtr_rag.sphinx_ext.spool import Manifest, Spool, SpoolEntry

SECTIONS = (
    Section("", ("Title",), (Block(BlockKind.TEXT, "Prose with \u00e4 and \U0001f600."),)),
    Section(
        "a",
        ("Title", "Part"),
        (
            Block(BlockKind.TABLE, "| a |\n| --- |\n| 1 |", ("other#x",)),
            Block(BlockKind.CODE, "```\nx\n```"),
        ),
        Locator("page", 3, 4),
    ),
)


@pytest.fixture
def spool(tmp_path):
    return Spool(tmp_path / "spool")


@pytest.mark.parametrize(
    "docname", ["index", "guide/a b", "../odd", "x" * 300, "\u00fcber/\u4e2d\u6587", "a%2Fb"]
)
def test_a_page_comes_back_as_it_was(spool, docname):
    body_hash = spool.write(docname, SECTIONS)
    assert spool.read(docname, body_hash) == SECTIONS
    assert spool.has(docname)


def test_names_that_look_alike_do_not_meet(spool):
    first = spool.write("a/b", SECTIONS)
    second = spool.write("a%2Fb", SECTIONS[:1])
    assert spool.read("a/b", first) == SECTIONS
    assert spool.read("a%2Fb", second) == SECTIONS[:1]


def test_lone_surrogates_survive(spool):
    odd = (Section("", (), (Block(BlockKind.TEXT, "half \ud800"),)),)
    assert spool.read("x", spool.write("x", odd)) == odd


def test_a_changed_page_is_refused(spool, tmp_path):
    body_hash = spool.write("a", SECTIONS)
    spool.write("a", SECTIONS[:1])
    with pytest.raises(CorruptDocumentError, match="build again"):
        spool.read("a", body_hash)


def test_a_missing_page_is_refused(spool):
    assert not spool.has("a")
    with pytest.raises(CorruptDocumentError):
        spool.read("a", "0" * 64)


def test_the_manifest_comes_back_and_unnamed_pages_go(spool):
    body_hash = spool.write("a", SECTIONS)
    spool.write("gone", SECTIONS)
    entry = SpoolEntry(7, body_hash, ("word",), ("other",), ("old.txt",))
    manifest = Manifest({"a": entry}, {"word": "meaning"})
    spool.begin()
    spool.finish(manifest)
    assert spool.begin() == manifest
    assert not spool.has("gone")


def test_a_build_that_was_killed_leaves_an_empty_manifest(spool):
    spool.begin()
    spool.finish(Manifest({"a": SpoolEntry(7, "h")}))
    spool.begin()
    assert spool.begin() == Manifest()


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", "null", '{"schema": 999}', '{"schema": 1}', '{"schema": 1, "entries": 3}'],
)
def test_a_damaged_manifest_counts_as_none(spool, tmp_path, damage):
    spool.finish(Manifest({"a": SpoolEntry(7, "h")}))
    (tmp_path / "spool" / "manifest.json").write_text(damage)
    assert spool.begin() == Manifest()


def a_file_for_the_folder(folder):
    folder.touch()


def a_folder_for_each_file(folder):
    for name in ("unfinished", "manifest.json", "a.page.json"):
        (folder / name).mkdir(parents=True)


@pytest.mark.parametrize("spoil", [a_file_for_the_folder, a_folder_for_each_file])
def test_a_place_that_cannot_be_written_is_named(spool, tmp_path, spoil):
    spoil(tmp_path / "spool")
    for write in (
        spool.begin,
        lambda: spool.write("a", SECTIONS),
        lambda: spool.finish(Manifest()),
    ):
        with pytest.raises(StoreUnavailableError, match=r"spool/.*cannot be written.*build again"):
            write()


def test_two_builds_that_write_one_page_at_once_do_not_meet(tmp_path):
    def write(number):
        return Spool(tmp_path / "spool").write("a", SECTIONS[: 1 + number % 2])

    with ThreadPoolExecutor(4) as pool:
        hashes = set(pool.map(write, range(200)))
    assert len(hashes) == 2
    assert [path.name for path in (tmp_path / "spool").iterdir()] == ["a.page.json"]
