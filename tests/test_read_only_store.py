"""A shared store that may only be read: builds leave it alone, questions do not."""

import json
import shutil
import subprocess
from contextlib import contextmanager

import disks
import pytest
from sphinx_project import Page, Project, build

from doxtr_rag.cli.main import main

pytestmark = [
    pytest.mark.usefixtures("tiny_model_dir"),
    pytest.mark.slow,
    pytest.mark.skipif(bool(disks.whynot()), reason=f"needs mount, as root: {disks.whynot()}"),
]

GUIDE = [("Ports", "Open port 8000 for the server."), ("Logs", "Read the logs.")]
PAGES = {
    "index": Page("Demo", [("Intro", "Welcome.")], children=["guide", "notes"]),
    "guide": Page("Guide", GUIDE),
    "notes": Page("Notes", [("Plan", "Nobody may see the plan.")], scope="LOCAL_PRIVATE"),
}
SAID = "is read-only: shared ingestion is skipped"


@pytest.fixture
def shared(tmp_path):
    return tmp_path / "drive" / "shared"


@pytest.fixture
def root(tmp_path, shared):
    """A project whose shared store was filled while that could be written."""
    root = tmp_path / "work"
    write(root, shared, PAGES)
    assert build(root).status == 0
    return root


def write(root, shared, pages):
    Project(pages, {"rag_shared_store_uri": str(shared), "rag_serve": "off"}).write(root)


@contextmanager
def read_only(folder):
    """Mount a folder onto itself so that nothing can be written there."""
    subprocess.run([disks.MOUNT, "--bind", folder, folder], check=True)
    try:
        options = ["-o", "remount,bind,ro", folder]
        subprocess.run([disks.MOUNT, *options], check=True)
        yield
    finally:
        subprocess.run([disks.UNMOUNT, folder], check=True)


def content(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        path.relative_to(folder): (path.stat().st_mtime_ns, path.read_bytes()) for path in files
    }


def texts(root, question, capsys, monkeypatch):
    monkeypatch.chdir(root)
    assert main(["search", question, "--json", "--top-k", "9"]) == 0
    return " ".join(hit["text"] for hit in json.loads(capsys.readouterr().out)["data"]["hits"])


def changed(**pages):
    return PAGES | pages


def test_a_build_leaves_it_alone_and_says_so_once(root, shared, capsys, monkeypatch):
    before = content(shared)
    write(
        root,
        shared,
        changed(
            guide=Page("Guide", [*GUIDE, ("More", "Something new for all.")]),
            notes=Page("Notes", [("Plan", "A newer plan.")], scope="LOCAL_PRIVATE"),
        ),
    )
    with read_only(shared):
        done = build(root)
        assert (done.status, done.warnings) == (0, "")
        assert done.output.count(SAID) == 1
        assert "+0 ~0 -0" not in done.output
        found = texts(root, "open port of the server, newer plan", capsys, monkeypatch)
        assert "Open port 8000" in found
        assert "A newer plan." in found
        assert "Something new" not in found
        again = build(root)
        assert (again.status, again.output.count(SAID)) == (0, 1)
        assert "embedded" not in again.output
        assert content(shared) == before
    assert build(root).status == 0
    assert "Something new" in texts(root, "something new", capsys, monkeypatch)


def test_a_first_build_fills_the_private_store_alone(tmp_path, shared, capsys, monkeypatch):
    root = tmp_path / "work"
    shared.mkdir(parents=True)
    write(root, shared, PAGES)
    with read_only(shared):
        assert build(root).status == 0
        assert "Nobody may see the plan." in texts(root, "plan", capsys, monkeypatch)
        assert not list(shared.iterdir())


def test_what_turned_private_and_cannot_be_withdrawn_is_no_green_run(root, shared):
    write(root, shared, changed(guide=Page("Guide", GUIDE, scope="LOCAL_PRIVATE")))
    with read_only(shared):
        done = build(root)
        assert done.status != 0
        assert "private by now (guide)" in done.warnings
        assert "at once" in done.warnings
    assert build(root).status == 0
    assert not [text for _, text in content(shared).values() if b"Open port 8000" in text]


def test_what_turned_shared_stays_findable_until_it_can_be_shared(
    root, shared, capsys, monkeypatch
):
    write(root, shared, changed(notes=Page("Notes", [("Plan", "Nobody may see the plan.")])))
    with read_only(shared):
        assert build(root).status == 0
        assert "Nobody may see the plan." in texts(root, "plan", capsys, monkeypatch)
    assert build(root).status == 0
    monkeypatch.chdir(root)
    main(["search", "plan", "--json"])
    hits = json.loads(capsys.readouterr().out)["data"]["hits"]
    assert [h["store"] for h in hits if "the plan" in h["text"]] == ["shared"]


def test_a_full_disk_is_no_reading_only(tmp_path):
    root, drive = tmp_path / "work", tmp_path / "drive"
    with disks.disk_at(drive) as disk:
        write(root, drive / "shared", PAGES)
        disk.leave_kib(0)
        done = build(root)
        assert done.status != 0
        assert SAID not in done.output
        disk.grow()
        assert build(root).status == 0
        shutil.rmtree(root / ".doxtr")
