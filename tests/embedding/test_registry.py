import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from doxtr_rag.core.errors import ConfigError
from doxtr_rag.core.profiles import Pooling, WeightsOrigin
from doxtr_rag.embedding.registry import BGE_M3, MINILM_OFFLINE, _load, profile, profile_names

SUPPORT = Path(__file__).parent.parent / "support"


@pytest.mark.parametrize("known", [BGE_M3, MINILM_OFFLINE], ids=lambda known: known.name)
def test_built_in_profile_is_found_and_pins_every_file(known):
    assert profile(known.name) is known
    assert known.files.keys() == known.sizes.keys()
    assert all(len(sha256) == 64 for sha256 in known.files.values())
    assert known.tokenizer_file in known.files
    assert known.target_tokens < known.cap_tokens <= known.max_tokens


def test_default_profile_is_what_the_specification_says():
    assert (BGE_M3.model, BGE_M3.dimension, BGE_M3.max_tokens) == ("BAAI/bge-m3", 1024, 8192)
    assert (BGE_M3.pooling, BGE_M3.origin, BGE_M3.pad_id) == (Pooling.CLS, WeightsOrigin.HUB, 1)
    assert BGE_M3.collection == "bge_m3_1024"
    assert BGE_M3.fingerprint != MINILM_OFFLINE.fingerprint


def test_registered_profile_is_found_by_name(tiny_model_dir):
    assert "tiny" in profile_names()
    assert profile("tiny").source == str(tiny_model_dir)


def test_registered_profile_is_found_in_a_child_process(tiny_model_dir):
    code = "from doxtr_rag.embedding.registry import profile; print(profile('tiny').fingerprint)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(SUPPORT)!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == profile("tiny").fingerprint


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"'bge-m4': expected one of bge-m3, minilm-offline"):
        profile("bge-m4")


def test_profiles_that_do_not_exist_yet_are_not_listed():
    assert not {"remote", "bge-m3-int8"} & set(profile_names())


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param("no_such_module:profile", "No module named", id="module-is-missing"),
        pytest.param("os:no_such_name", "no_such_name", id="attribute-is-missing"),
        pytest.param("json:loads", "TypeError", id="callable-needs-arguments"),
        pytest.param("sys:exit", "SystemExit", id="it-would-end-the-build"),
        pytest.param("os:sep", "expected an EmbeddingProfile", id="not-a-profile"),
        pytest.param(
            "doxtr_rag.embedding.registry:BGE_M3", "named 'broken'", id="profile-of-another-name"
        ),
    ],
)
def test_entry_point_that_does_not_load_names_its_owner(value, said):
    entry = EntryPoint("broken", value, "doxtr_rag.embedding_profiles")
    with pytest.raises(ConfigError, match=said) as raised:
        _load(entry)
    assert value in str(raised.value)


def test_broken_profile_names_its_distribution(tmp_path, monkeypatch):
    folder = tmp_path / "wrecked-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: wrecked\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[doxtr_rag.embedding_profiles]\nwreck = gone:x\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="'wreck' of wrecked"):
        profile("wreck")


def test_registry_and_tokenizer_do_not_load_the_runtime():
    code = (
        "import sys, doxtr_rag.embedding.registry, doxtr_rag.embedding.tokenizer, "
        "doxtr_rag.embedding.weights; "
        "print([m for m in ('onnxruntime', 'onnx', 'huggingface_hub') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
