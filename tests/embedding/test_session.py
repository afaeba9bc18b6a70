import shutil
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from tiny_profile import profile_of

from doxtr_rag.core.errors import (
    EmbeddingError,
    ProviderFallbackError,
    WeightsCorruptError,
    WeightsMissingError,
)
from doxtr_rag.embedding.session import CPU, CUDA, ModelSession, runtime_packages, usable_cores

HAS_CUDA = CUDA in onnxruntime.get_available_providers()


@pytest.fixture
def copy(tiny_model_dir, tmp_path):
    """A model folder that a test may damage."""
    return shutil.copytree(tiny_model_dir, tmp_path / "model")


def run(session, rows=2):
    ids = np.full((rows, 4), 5, np.int64)
    return session.run("sentence_embedding", ids, np.ones_like(ids))


def test_session_says_where_it_runs(tiny_model_dir):
    session = ModelSession(profile_of(tiny_model_dir), tiny_model_dir, "cpu")
    assert session.provider == CPU
    assert session.fixed_batch is None
    assert run(session).shape == (2, 1024)


@pytest.mark.skipif(HAS_CUDA, reason="this onnxruntime has CUDA: run pytest -m gpu instead")
def test_cuda_without_cuda_is_an_error_that_says_how_to_swap(tiny_model_dir):
    with pytest.raises(ProviderFallbackError, match="pip uninstall -y onnxruntime && pip install"):
        ModelSession(profile_of(tiny_model_dir), tiny_model_dir, "cuda")


@pytest.mark.skipif(HAS_CUDA, reason="this onnxruntime has CUDA: run pytest -m gpu instead")
def test_auto_without_cuda_takes_the_cpu(tiny_model_dir):
    assert ModelSession(profile_of(tiny_model_dir), tiny_model_dir).provider == CPU


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_CUDA, reason="needs a GPU: pip install 'onnxruntime-gpu[cuda,cudnn]'")
@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_cuda_is_taken_where_there_is_one(tiny_model_dir, device):
    session = ModelSession(profile_of(tiny_model_dir), tiny_model_dir, device)
    cpu = ModelSession(profile_of(tiny_model_dir), tiny_model_dir, "cpu")
    assert session.provider == CUDA
    assert np.abs(run(session) - run(cpu)).max() < 1e-5


def test_missing_model_names_the_command(tiny_model_dir, tmp_path):
    with pytest.raises(WeightsMissingError, match="fetch-weights --profile tiny"):
        ModelSession(profile_of(tiny_model_dir), tmp_path)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        pytest.param("onnx/model.onnx", 0, id="empty-graph"),
        pytest.param("onnx/model.onnx", 1000, id="cut-graph"),
        pytest.param("onnx/model.onnx_data", 1000, id="cut-data"),
    ],
)
def test_damaged_model_names_the_command(copy, name, size):
    profile = profile_of(copy)
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[:size])
    with pytest.raises(WeightsCorruptError, match="fetch-weights --profile tiny --force"):
        ModelSession(profile, copy)


def test_model_without_its_data_names_the_command(copy):
    profile = profile_of(copy)
    (copy / "onnx" / "model.onnx_data").unlink()
    with pytest.raises(WeightsCorruptError, match="fetch-weights --profile tiny --force"):
        ModelSession(profile, copy)


def test_model_behind_a_link_is_loaded_from_where_it_lies(copy, tmp_path):
    (tmp_path / "linked" / "onnx").mkdir(parents=True)
    for name in ("onnx/model.onnx", "onnx/model.onnx_data"):
        (tmp_path / "linked" / name).symlink_to(copy / name)
    assert run(ModelSession(profile_of(copy), tmp_path / "linked")).shape == (2, 1024)


def test_fixed_batch_size_is_seen(copy):
    path = copy / "onnx" / "model.onnx"
    model = onnx.load(path, load_external_data=False)
    for put in model.graph.input:
        put.type.tensor_type.shape.dim[0].dim_value = 3
    path.write_bytes(model.SerializeToString())
    assert ModelSession(profile_of(copy), copy).fixed_batch == 3


def test_input_that_the_model_refuses_is_an_embedding_error(tiny_model_dir):
    session = ModelSession(profile_of(tiny_model_dir), tiny_model_dir)
    ids = np.full((1, 600), 5, np.int64)
    with pytest.raises(EmbeddingError, match="batch of 1 x 600 tokens"):
        session.run("sentence_embedding", ids, np.ones_like(ids))
    with pytest.raises(EmbeddingError, match="no_such_output"):
        session.run("no_such_output", ids[:, :4], np.ones_like(ids[:, :4]))


def test_nothing_reaches_the_terminal(tiny_model_dir, copy, capfd):
    run(ModelSession(profile_of(tiny_model_dir), tiny_model_dir))
    with pytest.raises(WeightsMissingError):
        ModelSession(replace(profile_of(copy), model_file="gone.onnx"), copy)
    assert capfd.readouterr() == ("", "")


def test_exactly_one_runtime_is_installed():
    assert runtime_packages() in (["onnxruntime"], ["onnxruntime-gpu"])


def test_at_least_one_core_is_usable():
    assert usable_cores() >= 1
