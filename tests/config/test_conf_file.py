import dataclasses as dc
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from doxtr_rag.config.conf_file import find_settings, load_settings, read_conf, save_settings
from doxtr_rag.config.environment import Environment, read_environment
from doxtr_rag.core.errors import ConfigError, StoreUnavailableError


@pytest.fixture
def conf(tmp_path):
    path = tmp_path / "project" / "source" / "conf.py"
    path.parent.mkdir(parents=True)

    def write(text):
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("name", ["conf.py", "."])
def test_conf_is_executed_where_it_lies(conf, name):
    path = conf(
        "import os, sys\n"
        "sys.path.insert(0, os.path.abspath('.'))\n"
        "print('to standard output')\n"
        "project = 'My Guide'\nlanguage = 'de'\nhtml_baseurl = 'https://d.example/'\n"
        "tags.add('x')\n"
        "rag_project = os.path.basename(os.getcwd()) + str(tags.has('x') and 'x' in tags)\n"
        "rag_root = os.path.dirname(__file__)\n"
        "tags.remove('x')\n"
        "rag_builders = ['html', *tags]\n"
        "import os as rag_os\n"
        "def rag_helper(): pass\n"
    )
    before, search_path = Path.cwd(), list(sys.path)
    found = read_conf(path.parent / name)
    assert found.values == {
        "rag_project": "sourceTrue",
        "rag_root": str(path.parent),
        "rag_builders": ["html"],
    }
    assert (found.project, found.language) == ("My Guide", "de")
    assert found.html_baseurl == "https://d.example/"
    assert (Path.cwd(), sys.path) == (before, search_path)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        pytest.param("", None, id="not-set"),
        pytest.param("language = 'de'\n", "de", id="set"),
        pytest.param("language = None\n", "en", id="none-is-english-as-for-sphinx"),
    ],
)
def test_language(conf, text, language):
    assert read_conf(conf(text)).language == language


def test_print_does_not_mix_with_answers(conf, capsys):
    read_conf(conf("print('hello')\n"))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        pytest.param("a = 1\nb = c\n", 2, "NameError: name 'c'", id="name"),
        pytest.param("a = 1\n\nb = = 2\n", 3, "SyntaxError", id="syntax"),
        pytest.param("def f():\n    raise SystemExit(3)\n\nf()\n", 2, "SystemExit: 3", id="exit"),
        pytest.param("import json\njson.loads('{')\n", 2, "JSONDecodeError", id="in-a-library"),
        pytest.param("a = '\0'\n", 0, "", id="no-source"),
    ],
)
def test_failure_names_file_line_and_error(conf, text, line, message):
    path = conf(text)
    before = Path.cwd()
    with pytest.raises(ConfigError) as caught:
        read_conf(path)
    shown = str(caught.value)
    assert shown.startswith(f"{path}, line {line or ''}")
    assert message in shown
    assert caught.value.__cause__ is not None
    assert Path.cwd() == before


def test_missing_conf_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"conf\.py cannot be read"):
        read_conf(tmp_path)


def test_conf_resolves_to_settings(conf):
    path = conf("project = 'My Guide'\nrag_shared_port = 9000\n")
    settings = read_conf(path).resolve(Environment())
    assert (settings.project, settings.shared_port) == ("my-guide", 9000)
    assert settings.root == path.parent.parent
    assert settings.source_roots == (path.parent,)
    with pytest.raises(ConfigError, match="rag_sharde_port: unknown"):
        read_conf(conf("rag_sharde_port = 1\n")).resolve(Environment())


@pytest.fixture
def settings(conf):
    return read_conf(conf("project = 'My Guide'\n")).resolve(Environment())


def test_saved_settings_are_found_from_any_folder_below(settings):
    file = save_settings(settings)
    assert file == settings.root / ".doxtr/settings.json"
    assert find_settings(settings.source_dir) == file
    assert find_settings(settings.root) == file
    assert load_settings(file) == settings
    changed = load_settings(file, read_environment({"DOXTR_RAG_SHARED_PORT": "9001"}))
    assert changed == dc.replace(settings, shared_port=9001)


def test_a_copy_of_a_folder_is_known_as_one(settings, tmp_path):
    """So that an address in it, which anybody may have packed, is not simply asked."""
    file = save_settings(settings)
    assert not load_settings(file).is_foreign
    copy = tmp_path / "copy"
    shutil.copytree(settings.root, copy)
    assert load_settings(copy / ".doxtr" / file.name).is_foreign
    text = file.read_text()
    for forged in ('"written_in": ""', '"written_in": "1:2", "is_foreign": false'):
        file.write_text(re.sub(r'"written_in": "[^"]*"', forged, text))
        assert load_settings(file).is_foreign


def test_nothing_is_found_without_a_build(tmp_path):
    assert find_settings(tmp_path) is None


def test_only_the_owner_reads_and_git_ignores(settings):
    settings.state_dir.mkdir(mode=0o755)
    file = save_settings(settings)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert (file.parent / ".gitignore").read_text() == "*\n"
    assert sorted(p.name for p in file.parent.iterdir()) == [".gitignore", "settings.json"]


def test_same_settings_are_not_written_again(settings):
    before = save_settings(settings).stat().st_ino
    assert save_settings(settings).stat().st_ino == before
    assert save_settings(dc.replace(settings, device="cpu")).stat().st_ino != before


def test_folder_that_cannot_be_written_is_an_error(settings):
    settings.state_dir.write_text("a file where the folder should be")
    with pytest.raises(StoreUnavailableError, match="cannot be written"):
        save_settings(settings)


@pytest.mark.parametrize("content", [None, b"{", b"\xff", b"[]"])
def test_damaged_settings_file_asks_for_a_build(tmp_path, content):
    file = tmp_path / ".doxtr" / "settings.json"
    file.parent.mkdir()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match="build the documentation again"):
        load_settings(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away; run as root")
def test_settings_of_another_user_do_not_count(tmp_path):
    own = tmp_path / ".doxtr" / "settings.json"
    foreign = tmp_path / "below" / ".doxtr" / "settings.json"
    for file in (own, foreign):
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    os.chown(foreign, 65534, 65534)
    assert find_settings(tmp_path / "below") == own
