"""Full, read-only and unwritable places."""

import contextlib
import os
import subprocess
import sys

import pytest
from store_samples import DIMENSION, MODEL, ORIGIN, PROJECT, chunk, fill, ids, publish, vector

from doxtr_rag.core.errors import StoreError, StoreReadOnlyError, StoreUnavailableError
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import StoreLock, is_writable, open_reader, open_store


def mounted(*arguments):
    command = ["mount", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True)


@contextlib.contextmanager
def mount(target, *arguments):
    if os.geteuid() or mounted(*arguments, target).returncode:
        pytest.skip("needs the right to mount; run as root: pytest tests/storage/test_media.py")
    try:
        yield target
    finally:
        command = ["umount", "-l", str(target)]
        subprocess.run(command, check=True)


@pytest.fixture
def read_only(folder):
    """A function that shows a folder through a read-only mount."""
    with contextlib.ExitStack() as stack:

        def show(name="shown"):
            target = folder.with_name(name)
            target.mkdir()
            stack.enter_context(mount(target, "--bind", folder))
            if mounted("-o", "remount,bind,ro", target).returncode:
                pytest.skip("needs the right to remount; run as root")
            return target

        yield show


def test_a_full_disk_undoes_the_publication(tmp_path):
    target = tmp_path / "small"
    target.mkdir()
    with mount(target, "-t", "tmpfs", "-o", "size=2m", "tmpfs"):
        with open_store(target, Scope.SHARED_ORG, "shared") as store:
            publish(store, [chunk("a", "one")])
            token = store.revision(PROJECT)
            big = [chunk(f"b{n}", f"{n} " + "word " * 20_000) for n in range(40)]
            with pytest.raises(StoreUnavailableError, match=r"disk is full.*free some space"):
                publish(store, big)
            assert set(store.hashes(PROJECT, ORIGIN)) == {"guide/intro#a"}
            assert store.revision(PROJECT) == token
        mounted("-o", "remount,size=64m", target)
        with open_store(target, Scope.SHARED_ORG, "shared") as store:
            fill(store, big)
            assert len(store.hashes(PROJECT, ORIGIN)) == 41


def test_a_disk_too_small_for_the_index_keeps_the_corpus(tmp_path):
    target = tmp_path / "small"
    target.mkdir()
    with (
        mount(target, "-t", "tmpfs", "-o", "size=900k", "tmpfs"),
        open_store(target, Scope.SHARED_ORG, "shared") as store,
    ):
        publish(store, [chunk(str(n), f"text {n}") for n in range(300)])
        store.seal(MODEL, DIMENSION)
        with pytest.raises(StoreError):
            store.refresh_index()
        assert not store.is_current()
        with open_reader(target, Scope.SHARED_ORG, "shared") as reader:
            assert ids(reader.dense(vector("text 3"), 1)) == ["guide/intro#3"]
        mounted("-o", "remount,size=64m", target)
        store.refresh_index()
        assert store.is_current()


@pytest.mark.parametrize("is_writer_open", [False, True], ids=["at-rest", "while-written"])
def test_a_read_only_mount_is_searched_through_a_shadow(folder, read_only, is_writer_open):
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(open_store(folder, Scope.SHARED_ORG, "shared"))
        fill(writer, [chunk(str(n), f"text {n}") for n in range(30)])
        if not is_writer_open:
            writer.close()
        shown = read_only()
        before = sorted(path for path in folder.rglob("*"))
        with open_reader(shown, Scope.SHARED_ORG, "shared") as reader:
            assert ids(reader.dense(vector("text 3"), 1)) == ["guide/intro#3"]
            assert ids(reader.lexical("3", 1)) == ["guide/intro#3"]
            assert reader.degradations() == []
        assert sorted(path for path in folder.rglob("*")) == before


def test_a_read_only_mount_shows_what_is_written_behind_it(folder, read_only):
    with open_store(folder, Scope.SHARED_ORG, "shared") as writer:
        fill(writer, [chunk("a", "first")])
    with open_reader(read_only(), Scope.SHARED_ORG, "shared") as reader:
        assert ids(reader.lexical("first", 1)) == ["guide/intro#a"]
        with open_store(folder, Scope.SHARED_ORG, "shared") as writer:
            fill(writer, [chunk("b", "second")])
        assert ids(reader.lexical("second", 1)) == ["guide/intro#b"]
        assert ids(reader.dense(vector("second"), 1)) == ["guide/intro#b"]


def test_a_read_only_mount_refuses_writers(folder, read_only):
    open_store(folder, Scope.SHARED_ORG, "shared").close()
    shown = read_only()
    assert is_writable(folder)
    assert not is_writable(shown)
    assert not is_writable(shown / "below" / "it")
    with pytest.raises(StoreReadOnlyError, match="shown"):
        StoreLock(shown).acquire(0, lambda _: None)
    with open_store(folder, Scope.SHARED_ORG, "shared") as store:
        publish(store, [chunk("a", "one")])
    with pytest.raises(StoreReadOnlyError), open_store(shown, Scope.SHARED_ORG, "shared") as store:
        publish(store, [chunk("b", "two")])


def test_the_probe_leaves_nothing_behind(tmp_path):
    assert is_writable(tmp_path / "not" / "yet")
    (tmp_path / "file").touch()
    assert not is_writable(tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


STRANGER = 12_345

ASK = """
import sys
from pathlib import Path
from doxtr_rag.core.errors import StoreError
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import BuildCache, StoreLock, is_writable, open_reader, open_store, stats

folder = Path(sys.argv[1])


def lock():
    StoreLock(folder).acquire(0, print)


def cache():
    BuildCache(folder / "cache.db").mark("guide", "sphinx")


for ask in (
    lambda: open_reader(folder, Scope.SHARED_ORG, "shared"),
    lambda: open_store(folder, Scope.SHARED_ORG, "shared"),
    lambda: stats(folder),
    lock,
    cache,
):
    try:
        ask()
    except StoreError as error:
        print(error)
print(is_writable(folder))
"""


def test_the_folder_of_somebody_else_is_said_to_be_that(store, folder):
    fill(store, [chunk("a", "one")])
    python = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    if os.geteuid() or subprocess.run([*python, "true"], check=False).returncode:
        pytest.skip("needs the right to become another user; run as root")
    done = subprocess.run(
        [*python, sys.executable, "-c", ASK, str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *refusals, writable = done.stdout.splitlines()
    assert len(refusals) == 5
    assert all("Permission denied" in refusal for refusal in refusals)
    assert writable == "False"
