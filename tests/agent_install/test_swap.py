"""A crash at any moment leaves the old or the new folder, whole, and nothing for Pi to load."""

import os
import signal
import subprocess
import sys

import pytest

from doxtr_rag.agent_install import swap
from doxtr_rag.agent_install.errors import InstallError
from doxtr_rag.agent_install.files import sole_installer

INSTALLER = """
import os, signal, sys
from pathlib import Path
from doxtr_rag.agent_install import swap

def die(step):
    if step == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

def build(folder):
    folder.mkdir()
    folder.joinpath("a.txt").write_text("new")
    die("half built")
    folder.joinpath("b.txt").write_text("new")

trade = swap.exchange if sys.argv[3] == "exchange" else lambda one, other: False
if sys.argv[4] == "put":
    swap.put(build, Path(sys.argv[1]), trade=trade, at=die)
else:
    swap.take_away(Path(sys.argv[1]), at=die)
"""
NEW = {"a.txt": "new", "b.txt": "new"}
OLD = {"a.txt": "old", "c.txt": "old"}


@pytest.fixture
def target(tmp_path):
    target = tmp_path / "agent" / "extensions" / "chroma-rag"
    target.parent.mkdir(parents=True)
    return target


def fill(folder, files):
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)


def held(folder):
    return {path.name: path.read_text() for path in folder.iterdir()} if folder.exists() else None


def names_in(folder):
    return [path.name for path in folder.iterdir()]


def build_new(folder):
    fill(folder, NEW)


def kill_at(target, step, trade="exchange", verb="put"):
    done = subprocess.run(
        [sys.executable, "-c", INSTALLER, str(target), step, trade, verb], check=False
    )
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("old", [None, OLD], ids=["first", "update"])
@pytest.mark.parametrize("step", ["half built", "built", "in place", "swept"])
def test_killed_installer_leaves_old_or_new(target, step, old):
    if old is not None:
        fill(target, old)
    kill_at(target, step)
    assert held(target) == (NEW if step in {"in place", "swept"} else old)
    assert set(names_in(target.parent)) <= {"chroma-rag"}
    swap.put(build_new, target)
    assert held(target) == NEW
    assert names_in(target.parent.parent) == ["extensions"]


def test_where_names_cannot_be_exchanged_the_next_run_brings_the_old_one_back(target):
    fill(target, OLD)
    kill_at(target, "old moved away", trade="two renames")
    assert held(target) is None
    swap.sweep(target)
    assert held(target) == OLD
    assert names_in(target.parent.parent) == ["extensions"]


def test_two_renames_do_where_names_cannot_be_exchanged(target):
    fill(target, OLD)
    swap.put(build_new, target, trade=lambda one, other: False)
    assert held(target) == NEW
    assert names_in(target.parent.parent) == ["extensions"]


def test_killed_removal_leaves_nothing_at_the_target(target):
    fill(target, OLD)
    kill_at(target, "moved away", verb="take away")
    assert names_in(target.parent) == []
    swap.sweep(target)
    assert names_in(target.parent.parent) == ["extensions"]


def test_failed_build_changes_nothing(target):
    fill(target, OLD)

    def fail(folder):
        folder.mkdir()
        raise OSError(28, "No space left on device", str(folder))

    with pytest.raises(InstallError, match="No space left"):
        swap.put(fail, target)
    assert held(target) == OLD
    assert names_in(target.parent.parent) == ["extensions"]


def test_removing_a_link_leaves_what_it_leads_to(target, tmp_path):
    fill(tmp_path / "package", OLD)
    target.symlink_to(tmp_path / "package")
    swap.take_away(target)
    assert not os.path.lexists(target)
    assert held(tmp_path / "package") == OLD


def test_folder_takes_the_place_of_a_link(target, tmp_path):
    fill(tmp_path / "package", OLD)
    target.symlink_to(tmp_path / "package")
    swap.put(build_new, target)
    assert (target.is_symlink(), held(target)) == (False, NEW)
    assert held(tmp_path / "package") == OLD


def test_staging_follows_a_linked_folder_of_extensions(target, tmp_path):
    elsewhere = tmp_path / "dotfiles" / "extensions"
    elsewhere.mkdir(parents=True)
    target.parent.rmdir()
    target.parent.symlink_to(elsewhere)
    rooms = []
    swap.put(lambda folder: (rooms.append(folder.parent.parent), build_new(folder)), target)
    assert rooms == [elsewhere.parent]
    assert held(elsewhere / "chroma-rag") == NEW


def test_two_installers_do_not_meet(target):
    with sole_installer(target.parent.parent), pytest.raises(InstallError, match="another"):
        swap.put(build_new, target)
    assert held(target) is None
