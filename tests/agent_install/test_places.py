"""What the installer is told about the project that it runs in, or that was named."""

import pytest

from doxtr_rag.agent_install.places import find_places


@pytest.fixture
def project(tmp_path, monkeypatch):
    root = tmp_path / "project"
    root.mkdir()
    (root / "conf.py").write_text('project = "Demo"\nextensions = ["doxtr_rag"]\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return root


def test_a_project_that_is_named_and_not_built(project):
    places = find_places(project)
    assert places.project_root == project
    assert (places.is_project_named, places.is_built) == (True, False)


def test_no_project(project):
    places = find_places(None)
    assert (places.project_root, places.is_project_named, places.is_built) == (None, False, False)
