"""Other worktrees, found by git's own files; git itself makes them here."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from doxtr_rag.bootstrap import siblings
from doxtr_rag.bootstrap.siblings import MOST_BYTES, worktree_roots

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git makes the worktrees")


def git(folder, *arguments):
    identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    subprocess.run(command, check=True, capture_output=True, env=environment)


@pytest.fixture
def main(tmp_path):
    folder = tmp_path / "main"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "index.rst").write_text("Demo\n====\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@pytest.fixture
def other(main, tmp_path):
    git(main, "worktree", "add", "-q", str(tmp_path / "other"))
    return tmp_path / "other"


def test_a_worktree_finds_the_others(main, other, tmp_path):
    git(main, "worktree", "add", "-q", str(tmp_path / "third"))
    assert worktree_roots(main) == [other, tmp_path / "third"]
    assert worktree_roots(other) == [main, tmp_path / "third"]


def test_a_project_in_a_folder_of_the_repository_is_found_in_that_folder(main, other):
    assert worktree_roots(main / "docs") == [other / "docs"]
    assert worktree_roots(other / "docs") == [main / "docs"]
    shutil.rmtree(other / "docs")
    assert worktree_roots(main / "docs") == []


def test_a_link_to_a_worktree_is_that_worktree(main, other, tmp_path):
    (tmp_path / "link").symlink_to(main)
    assert worktree_roots(tmp_path / "link") == [other]


def test_a_worktree_that_is_gone_is_none(main, other):
    shutil.rmtree(other)
    assert worktree_roots(main) == []


def test_relative_records_lead_there_too(main, other):
    record = main / ".git" / "worktrees" / "other"
    (record / "gitdir").write_text("../../../../other/.git\n")
    (other / ".git").write_text("gitdir: ../main/.git/worktrees/other\n")
    assert worktree_roots(main) == [other]
    assert worktree_roots(other) == [main]


def test_a_bare_repository_has_no_worktree_of_its_own(main, tmp_path):
    git(tmp_path, "clone", "-q", "--bare", str(main), "bare.git")
    for name in ("one", "two"):
        git(tmp_path / "bare.git", "worktree", "add", "-q", "-b", name, str(tmp_path / name))
    assert worktree_roots(tmp_path / "one") == [tmp_path / "two"]


def test_a_folder_without_git_has_none(tmp_path):
    assert worktree_roots(tmp_path) == []


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"nonsense",
        b"gitdir: ",
        b"gitdir: /nowhere/at/all",
        b"gitdir: \0",
        b"gitdir: " + b"x" * (2 * MOST_BYTES),
        b"\xff\xfe",
    ],
)
def test_a_git_file_that_leads_nowhere_is_no_error(tmp_path, said):
    (tmp_path / ".git").write_bytes(said)
    assert worktree_roots(tmp_path) == []


@pytest.mark.parametrize("said", [b"", b"\0", b"/nowhere/.git", b"x" * (2 * MOST_BYTES)])
def test_a_damaged_record_is_left_out(main, other, said):
    record = main / ".git" / "worktrees" / "damaged"
    record.mkdir()
    (record / "gitdir").write_bytes(said)
    (main / ".git" / "worktrees" / "stray").write_text("a file")
    assert worktree_roots(main) == [other]


def test_folders_of_somebody_else_are_left_alone(main, other, monkeypatch):
    monkeypatch.setattr(siblings.os, "getuid", lambda: os.geteuid() + 1)
    assert worktree_roots(main) == []


def test_git_is_not_called(main, other, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    monkeypatch.setenv("PATH", "")
    assert worktree_roots(main) == [other]


def test_many_worktrees_are_not_all_looked_at(main, other):
    for number in range(500):
        record = main / ".git" / "worktrees" / f"w{number:03}"
        record.mkdir()
        (record / "gitdir").write_text(f"{other}/.git\n")
    assert worktree_roots(main) == [other]
    assert isinstance(worktree_roots(main)[0], Path)
