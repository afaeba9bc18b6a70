"""Files of other programs are replaced whole, keep their mode, and are followed through links."""

import stat

import pytest

from doxtr_rag.agent_install import files
from doxtr_rag.agent_install.errors import InstallError


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o644])
def test_mode_is_kept(tmp_path, kept):
    path = tmp_path / "settings"
    path.write_bytes(b"old")
    path.chmod(kept)
    files.replace(path, b"old", b"new")
    assert (path.read_bytes(), mode(path)) == (b"new", kept)


def test_a_private_file_stays_private_and_a_first_one_becomes_so(tmp_path):
    path = tmp_path / "deep" / "settings"
    files.replace(path, None, b"new", files.PRIVATE)
    assert (path.read_bytes(), mode(path)) == (b"new", 0o600)
    assert files.is_private(path)


def test_a_link_stays_a_link(tmp_path):
    path, target = tmp_path / "settings", tmp_path / "dotfiles" / "settings"
    target.parent.mkdir()
    target.write_bytes(b"old")
    path.symlink_to(target)
    files.replace(path, b"old", b"new")
    assert path.is_symlink()
    assert target.read_bytes() == b"new"


def test_what_another_program_wrote_meanwhile_is_not_lost(tmp_path):
    path = tmp_path / "settings"
    path.write_bytes(b"theirs")
    with pytest.raises(InstallError, match="meanwhile"):
        files.replace(path, b"old", b"new")
    assert path.read_bytes() == b"theirs"
    assert [found.name for found in tmp_path.iterdir()] == ["settings"]


def test_what_a_killed_run_left_does_not_disturb(tmp_path):
    path = tmp_path / "settings"
    (tmp_path / ".settings.doxtr-rag-staging").write_bytes(b"half")
    files.replace(path, None, b"new")
    assert path.read_bytes() == b"new"
    assert [found.name for found in tmp_path.iterdir()] == ["settings"]


def test_the_first_copy_is_kept(tmp_path):
    path, backup = tmp_path / "settings", tmp_path / "settings.backup"
    path.write_bytes(b"first")
    path.chmod(0o600)
    assert files.keep_copy(path, backup, b"first")
    assert not files.keep_copy(path, backup, b"second")
    assert (backup.read_bytes(), mode(backup)) == (b"first", 0o600)


def read_folder(path):
    path.mkdir()
    files.content(path)


def write_below_a_file(path):
    path.write_bytes(b"a file where a folder is needed")
    files.replace(path / "below", None, b"new")


def remove_folder(path):
    path.mkdir()
    files.remove(path)


@pytest.mark.parametrize("act", [read_folder, write_below_a_file, remove_folder])
def test_what_the_system_refuses_is_said(tmp_path, act):
    with pytest.raises(InstallError, match="settings"):
        act(tmp_path / "settings")


def test_an_error_names_the_file_that_was_to_be_written(tmp_path):
    path = tmp_path / ".settings"
    (tmp_path / ".settings.doxtr-rag-staging").mkdir()
    with pytest.raises(InstallError) as failure:
        files.replace(path, None, b"new")
    assert str(failure.value).startswith(f"{path}: ")
    assert "staging" not in str(failure.value)
