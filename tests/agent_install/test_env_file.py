"""The variables that a shell gets are the ones meant, and the user's own lines stay."""

import subprocess
from pathlib import Path

import pytest

from doxtr_rag.agent_install import env_file

FOLDER, ENDPOINTS = Path("/models/bge-m3"), Path("/project/.doxtr/endpoints.json")
NAMES = (env_file.MODEL_FOLDER, env_file.ENDPOINTS, env_file.EMBED_URL, env_file.SCOPE, "OTHER")


def sourced(path):
    """Return what `sh` knows after it has read a file, by a shell that starts empty."""
    script = (
        '. "$1"; shift; for name; do eval "printf %s \\"\\${$name-unset}\\""; printf "\\0"; done'
    )
    done = subprocess.run(
        ["/bin/sh", "-euc", script, "sh", str(path), *NAMES],
        env={},
        capture_output=True,
        check=True,
    )
    assert not done.stderr
    return dict(zip(NAMES, done.stdout.decode().split("\0")[:-1], strict=True))


@pytest.fixture
def sourced_text(tmp_path):
    def run(text):
        path = tmp_path / "doxtr-rag.env"
        path.write_text(text, encoding="utf-8")
        return sourced(path)

    return run


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("/models/bge-m3", id="plain"),
        pytest.param("/my models/bge m3", id="spaces"),
        pytest.param('/it\'s/"here"', id="quotes"),
        pytest.param("/a\nline 'break\n", id="newlines"),
        pytest.param("/$HOME/`id`/$(id)/\\n", id="what-a-shell-would-expand"),
        pytest.param("/größe/模型", id="not-ascii"),
        pytest.param("/a#b ! * ~ ;&|", id="signs"),
    ],
)
def test_values_survive_the_shell_and_a_second_run(sourced_text, value):
    text = env_file.merged(None, Path(value), ENDPOINTS)
    found = sourced_text(text)
    assert found[env_file.MODEL_FOLDER] == str(Path(value))
    assert found[env_file.ENDPOINTS] == str(ENDPOINTS)
    assert (found[env_file.EMBED_URL], found["OTHER"]) == ("unset", "unset")
    assert env_file.merged(text, Path(value), ENDPOINTS) == text
    assert env_file.without_ours(text) == ""


def test_what_is_not_known_is_a_comment(sourced_text):
    text = env_file.merged(None, None, None)
    assert set(sourced_text(text).values()) == {"unset"}
    assert all(f"# export {name}=" in text for name in NAMES[:3])
    assert env_file.without_ours(text) == ""


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param("export OTHER='a\nb'\n", {"OTHER": "a\nb"}, id="another-variable"),
        pytest.param("OTHER=1 # it's mine\n", {"OTHER": "1"}, id="a-comment-with-an-apostrophe"),
        pytest.param("export OTHER=a\\\nb", {"OTHER": "ab"}, id="a-continued-line-without-end"),
        pytest.param(
            f"export {env_file.EMBED_URL}=http://gpu.example:8519/embed\n",
            {env_file.EMBED_URL: "http://gpu.example:8519/embed"},
            id="an-address-of-their-own",
        ),
    ],
)
def test_lines_of_the_user_stay(sourced_text, own, expected):
    text = env_file.merged(own, FOLDER, ENDPOINTS)
    assert own in text
    found = sourced_text(text)
    assert found.items() >= expected.items()
    assert found[env_file.MODEL_FOLDER] == str(FOLDER)
    assert env_file.merged(text, FOLDER, ENDPOINTS) == text
    kept = env_file.without_ours(text)
    assert kept.rstrip("\n") == own.rstrip("\n")


def test_known_values_replace_older_ones_where_they_stood(sourced_text):
    held = (
        f"{env_file.MODEL_FOLDER}='/old\nfolder'\n"
        "export OTHER=1\n"
        f"export {env_file.MODEL_FOLDER}=/older\n"
        f"# export {env_file.ENDPOINTS}=/commented\n"
    )
    text = env_file.merged(held, FOLDER, ENDPOINTS)
    assert sourced_text(text)[env_file.MODEL_FOLDER] == str(FOLDER)
    assert text.count(env_file.MODEL_FOLDER) == 1
    assert "/commented" not in text
    assert text.index(env_file.MODEL_FOLDER) < text.index("OTHER") < text.index(env_file.ENDPOINTS)


def test_a_value_that_is_not_known_any_more_stays():
    text = env_file.merged(None, FOLDER, ENDPOINTS)
    assert env_file.merged(text, None, None) == text


def test_an_open_quote_of_the_user_is_not_torn():
    held = "export OTHER='never closed\nexport A=1\n"
    assert held in env_file.merged(held, FOLDER, ENDPOINTS)


def test_a_scope_stays_until_another_is_named(sourced_text):
    text = env_file.merged(None, FOLDER, ENDPOINTS, "shared")
    assert sourced_text(text)[env_file.SCOPE] == "shared"
    assert env_file.merged(text, FOLDER, ENDPOINTS) == text
    assert sourced_text(env_file.merged(text, FOLDER, ENDPOINTS, "all"))[env_file.SCOPE] == "all"
    assert env_file.without_ours(text) == ""


@pytest.mark.parametrize(
    ("held", "value"),
    [
        ("", None),
        (f"# export {env_file.ENDPOINTS}=/e.json\n", None),
        (f"export {env_file.ENDPOINTS}='/a b.json' # mine\n", "/a b.json"),
        (f"{env_file.ENDPOINTS}=/a\nexport {env_file.ENDPOINTS}=/b\n", "/b"),
        (f"export {env_file.ENDPOINTS}='/open\n", None),
        (env_file.merged(None, FOLDER, ENDPOINTS), str(ENDPOINTS)),
    ],
)
def test_what_a_file_assigns(held, value):
    assert env_file.assigned(held, env_file.ENDPOINTS) == value
