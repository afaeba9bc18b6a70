import errno
import hashlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from fake_hub import FakeHub
from tiny_profile import profile_of

from doxtr_rag.core.errors import EmbeddingError, WeightsCorruptError, WeightsMissingError
from doxtr_rag.core.profiles import EmbeddingProfile, Pooling, WeightsOrigin
from doxtr_rag.embedding import hub as hub_module
from doxtr_rag.embedding.registry import BGE_M3, MINILM_OFFLINE
from doxtr_rag.embedding.weights import ModelFolders, fetch, locate, verify

REPOSITORY, REVISION = "someone/some-model", "5" * 40
HUB_CHUNK = 10 * 1024 * 1024
"""The hub client writes downloads to disk in pieces of this size."""
FILES = {
    "onnx/model.onnx": b"graph",
    "onnx/model.onnx_data": os.urandom(5000),
    "config.json": b"{}",
}


def pinned(files, name="hubbed", **changes):
    """Return the profile of a hub repository that holds exactly these files."""
    profile = EmbeddingProfile(
        name=name,
        model=REPOSITORY,
        revision=REVISION,
        dimension=4,
        pooling=Pooling.CLS,
        max_tokens=8,
        target_tokens=4,
        cap_tokens=8,
        pad_id=1,
        origin=WeightsOrigin.HUB,
        source=REPOSITORY,
        files={path: hashlib.sha256(content).hexdigest() for path, content in files.items()},
        sizes={path: len(content) for path, content in files.items()},
    )
    return replace(profile, **changes)


def present(folder):
    """Return the contents of a model folder, without what a fetch keeps beside them."""
    found = (path for path in folder.rglob("*") if path.is_file())
    named = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
    return {name: content for name, content in named.items() if not name.startswith(".fetch")}


@pytest.fixture
def hub():
    with FakeHub(REPOSITORY, REVISION, dict(FILES)) as serving:
        yield serving


@pytest.fixture
def folders(tmp_path):
    return ModelFolders(tmp_path / "cache", system_bge_m3=tmp_path / "system")


class TestLocate:
    def test_given_folder_of_bge_m3_comes_first(self, folders, tmp_path):
        folders.system_bge_m3.mkdir()
        assert locate(BGE_M3, replace(folders, bge_m3=tmp_path / "own")) == tmp_path / "own"

    def test_folder_of_the_system_comes_before_the_cache(self, folders):
        folders.system_bge_m3.mkdir()
        assert locate(BGE_M3, folders) == folders.system_bge_m3

    @pytest.mark.parametrize("known", [BGE_M3, MINILM_OFFLINE], ids=lambda known: known.name)
    def test_cache_folder_names_profile_and_revision(self, folders, known):
        assert locate(known, folders) == folders.cache / "models" / known.name / known.revision

    def test_profile_of_a_folder_stays_there(self, folders, tiny_model_dir):
        assert locate(profile_of(tiny_model_dir), folders) == tiny_model_dir


class TestVerify:
    @pytest.fixture
    def folder(self, tmp_path):
        for name, content in FILES.items():
            path = tmp_path / "model" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return tmp_path / "model"

    def test_right_files_pass_and_leave_receipts(self, folder, folders):
        verify(pinned(FILES), folder, folders.receipts)
        assert len(list(folders.receipts.iterdir())) == len(FILES)

    @pytest.mark.parametrize("name", FILES)
    def test_missing_file_is_named_with_the_command(self, folder, folders, name):
        (folder / name).unlink()
        said = f"{name} is missing in .*run: doxtr-rag fetch-weights --profile hubbed$"
        with pytest.raises(WeightsMissingError, match=said):
            verify(pinned(FILES), folder, folders.receipts)

    @pytest.mark.parametrize(
        "damage",
        [
            pytest.param(lambda content: content[:-1], id="cut"),
            pytest.param(lambda content: content[:-1] + b"?", id="one-byte-differs"),
        ],
    )
    def test_damaged_file_is_named_with_the_command(self, folder, folders, damage):
        verify(pinned(FILES), folder, folders.receipts)
        path = folder / "config.json"
        path.write_bytes(damage(path.read_bytes()))
        said = r"config\.json in .* is not the pinned file; .* --profile hubbed --force$"
        with pytest.raises(WeightsCorruptError, match=said):
            verify(pinned(FILES), folder, folders.receipts)

    def test_folder_where_a_file_should_be_is_said(self, folder, folders):
        (folder / "config.json").unlink()
        (folder / "config.json").mkdir()
        profile = pinned(FILES, sizes={})
        with pytest.raises(WeightsMissingError, match="cannot be read"):
            verify(profile, folder, folders.receipts)

    def test_profile_of_a_folder_is_not_told_to_fetch(self, tiny_model_dir, folders, tmp_path):
        with pytest.raises(WeightsMissingError, match="copy the files of the profile there again"):
            verify(profile_of(tiny_model_dir), tmp_path / "empty", folders.receipts)

    def test_nothing_at_all_is_missing_weights(self, folders, tmp_path):
        with pytest.raises(WeightsMissingError, match="fetch-weights --profile bge-m3"):
            verify(BGE_M3, tmp_path / "nowhere", folders.receipts)


class TestFetchFromHub:
    def test_complete_download_is_verified_and_in_place(self, hub, folders):
        seen = []
        folder = fetch(
            pinned(FILES), folders, endpoint=hub.endpoint, progress=lambda *step: seen.append(step)
        )
        assert present(folder) == FILES
        assert ("fetch onnx/model.onnx_data", 5000, 5000) in seen
        verify(pinned(FILES), folder, folders.receipts)

    def test_second_fetch_asks_the_hub_for_nothing(self, hub, folders):
        fetch(pinned(FILES), folders, endpoint=hub.endpoint)
        hub.requests.clear()
        fetch(pinned(FILES), folders, endpoint=hub.endpoint)
        assert hub.requests == []

    def test_only_what_is_missing_is_fetched(self, hub, folders):
        folder = fetch(pinned(FILES), folders, endpoint=hub.endpoint)
        (folder / "config.json").unlink()
        hub.requests.clear()
        fetch(pinned(FILES), folders, endpoint=hub.endpoint)
        assert present(folder) == FILES
        assert {request.path.rpartition("/")[2] for request in hub.requests} == {"config.json"}

    def test_broken_connection_is_resumed(self, hub, folders):
        big = {"onnx/model.onnx_data": os.urandom(HUB_CHUNK + 4000)}
        hub.files = big
        hub.break_after = [HUB_CHUNK + 1000]
        folder = fetch(pinned(big), folders, endpoint=hub.endpoint)
        assert present(folder) == big
        assert hub.ranges("model.onnx_data") == ["", f"bytes={HUB_CHUNK}-"]

    def test_redirect_to_a_storage_host_is_followed(self, hub, folders):
        with FakeHub(REPOSITORY, REVISION, dict(FILES)) as storage:
            hub.storage = storage.endpoint
            assert present(fetch(pinned(FILES), folders, endpoint=hub.endpoint)) == FILES
            assert storage.ranges("model.onnx_data") == [""]

    def test_killed_fetch_leaves_no_half_file_and_is_resumed(self, hub, folders):
        big = {"onnx/model.onnx_data": os.urandom(HUB_CHUNK + 4000)}
        hub.files = big
        hub.stall_after = HUB_CHUNK + 1000
        part = _start_and_kill(big, hub, folders)
        folder = locate(pinned(big), folders)
        assert present(folder) == {}
        assert part.stat().st_size == HUB_CHUNK
        hub.stall_after = None
        fetch(pinned(big), folders, endpoint=hub.endpoint)
        assert present(folder) == big
        assert hub.ranges("model.onnx_data")[-1] == f"bytes={HUB_CHUNK}-"

    @pytest.mark.parametrize(
        "left",
        [
            pytest.param(b"x" * 100, id="other-bytes"),
            pytest.param(b"x" * 9000, id="too-many-bytes"),
            pytest.param(b"x" * 5000, id="other-bytes-of-the-right-length"),
            pytest.param(FILES["onnx/model.onnx_data"], id="all-of-it"),
        ],
    )
    def test_whatever_an_earlier_fetch_left_the_result_is_right(self, hub, folders, left):
        profile = pinned(FILES)
        scratch = locate(profile, folders) / ".fetch"
        scratch.mkdir(parents=True)
        (scratch / f"{profile.files['onnx/model.onnx_data'][:16]}.part").write_bytes(left)
        assert present(fetch(profile, folders, endpoint=hub.endpoint)) == FILES

    @pytest.mark.parametrize(
        "served",
        [
            pytest.param(b"y" * 5000, id="same-length"),
            pytest.param(b"y" * 4999, id="shorter"),
            pytest.param(b"", id="empty"),
        ],
    )
    def test_wrong_bytes_are_refused_and_get_no_name(self, hub, folders, served):
        hub.files["onnx/model.onnx_data"] = served
        with pytest.raises(WeightsCorruptError, match="pinned"):
            fetch(pinned(FILES), folders, endpoint=hub.endpoint)
        assert "onnx/model.onnx_data" not in present(locate(pinned(FILES), folders))

    @pytest.mark.parametrize(
        ("refusal", "said"),
        [
            pytest.param((404, "EntryNotFound"), "does not have it", id="no-such-file"),
            pytest.param((404, "RevisionNotFound"), "does not have it", id="no-such-revision"),
            pytest.param((404, "RepoNotFound"), "HF_TOKEN", id="no-such-repository"),
            pytest.param((401, ""), "HF_TOKEN", id="login-needed"),
            pytest.param((403, "GatedRepo"), "HF_TOKEN", id="gated"),
            pytest.param((500, ""), "500", id="hub-is-ill"),
        ],
    )
    def test_refusal_says_what_to_do(self, hub, folders, refusal, said):
        hub.refusal = refusal
        with pytest.raises(WeightsMissingError, match=said) as raised:
            fetch(pinned(FILES), folders, endpoint=hub.endpoint)
        assert "fetch-weights --profile hubbed" in str(raised.value)
        assert present(locate(pinned(FILES), folders)) == {}

    def test_unreachable_hub_says_what_to_check(self, hub, folders):
        with FakeHub(REPOSITORY, REVISION, {}) as gone:
            endpoint = gone.endpoint
        with pytest.raises(WeightsMissingError, match="cannot be reached; check network"):
            fetch(pinned(FILES), folders, endpoint=endpoint)

    def test_offline_switch_is_named(self, folders):
        code = _fetching("http://127.0.0.1:9", FILES, folders)
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )
        assert "WeightsMissingError" in done.stderr
        assert "HF_HUB_OFFLINE is set; unset it" in done.stderr

    def test_two_fetches_at_once_download_once(self, hub, folders):
        profile, done = pinned(FILES), []
        threads = [
            threading.Thread(
                target=lambda: done.append(fetch(profile, folders, endpoint=hub.endpoint))
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [present(folder) for folder in done] == [FILES] * 4
        assert hub.ranges("model.onnx_data") == [""]

    def test_wrong_file_is_kept_without_force_and_replaced_with_it(self, hub, folders):
        profile = pinned(FILES)
        folder = fetch(profile, folders, endpoint=hub.endpoint)
        (folder / "config.json").write_bytes(b"[]")
        with pytest.raises(WeightsCorruptError, match="--force"):
            fetch(profile, folders, endpoint=hub.endpoint)
        assert (folder / "config.json").read_bytes() == b"[]"
        fetch(profile, folders, force=True, endpoint=hub.endpoint)
        assert present(folder) == FILES

    def test_force_does_not_believe_receipts(self, hub, folders):
        profile = pinned(FILES)
        folder = fetch(profile, folders, endpoint=hub.endpoint)
        damaged = folder / "onnx" / "model.onnx_data"
        before = damaged.stat()
        damaged.write_bytes(b"z" * 5000)
        os.utime(damaged, ns=(before.st_atime_ns, before.st_mtime_ns))
        verify(profile, folder, folders.receipts)
        fetch(profile, folders, force=True, endpoint=hub.endpoint)
        assert present(folder) == FILES

    def test_folder_that_cannot_be_made_is_named(self, hub, tmp_path):
        (tmp_path / "taken").write_text("a file where the cache should be")
        with pytest.raises(EmbeddingError, match=r"cannot write .*taken"):
            fetch(pinned(FILES), ModelFolders(tmp_path / "taken"), endpoint=hub.endpoint)

    def test_full_disk_is_said(self):
        error = hub_module._explained(
            OSError(errno.ENOSPC, "No space left on device"), pinned(FILES), "config.json"
        )
        assert type(error) is EmbeddingError
        assert "No space left" in str(error)
        assert "free space" in str(error)

    def test_disk_without_room_is_refused_before_the_download(self, tmp_path):
        with pytest.raises(OSError, match="bytes needed") as raised:
            hub_module._check_space(tmp_path, 1 << 62)
        assert raised.value.errno == errno.ENOSPC


def test_profile_of_a_folder_is_only_verified(tiny_model_dir, folders):
    assert fetch(profile_of(tiny_model_dir), folders) == tiny_model_dir


def _fetching(endpoint, files, folders):
    """Return a program that fetches these files."""
    profile = pinned(files)
    fields = {"files": dict(profile.files), "sizes": dict(profile.sizes)}
    return (
        "import json; from dataclasses import replace; from pathlib import Path\n"
        "from doxtr_rag.core.profiles import WeightsOrigin\n"
        "from doxtr_rag.embedding.registry import BGE_M3\n"
        "from doxtr_rag.embedding.weights import ModelFolders, fetch\n"
        f"profile = replace(BGE_M3, name='hubbed', source={REPOSITORY!r}, "
        f"revision={REVISION!r}, **json.loads({json.dumps(fields)!r}))\n"
        f"fetch(profile, ModelFolders(Path({str(folders.cache)!r})), endpoint={endpoint!r})\n"
    )


def _start_and_kill(files, hub, folders):
    """Kill a fetch once a whole piece is on disk; return the file it was written to."""
    running = subprocess.Popen(
        [sys.executable, "-c", _fetching(hub.endpoint, files, folders)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert hub.stalled.wait(60)
        scratch = Path(locate(pinned(files), folders), ".fetch")
        tick = threading.Event()
        for _ in range(600):
            parts = [path for path in scratch.glob("*.part") if path.stat().st_size == HUB_CHUNK]
            if parts:
                return parts[0]
            tick.wait(0.05)
        raise AssertionError("the fetch wrote nothing")
    finally:
        running.kill()
        running.wait()
