import hashlib
import json
import math
import shutil
import struct
from dataclasses import replace

import numpy as np
import pytest
from platformdirs import user_cache_path

from doxtr_rag.core.errors import WeightsCorruptError
from doxtr_rag.embedding.minilm import convert
from doxtr_rag.embedding.onnx import OnnxEmbedder
from doxtr_rag.embedding.registry import MINILM_OFFLINE
from doxtr_rag.embedding.session import ModelSession
from doxtr_rag.embedding.weights import ModelFolders, fetch, verify

CONFIG = {
    "model_type": "bert",
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "layer_norm_eps": 1e-12,
}
INNER, WORDS, PLACES = 12, 20, 16


def draw_weights():
    draw = np.random.default_rng(3)
    hidden = CONFIG["hidden_size"]
    shapes = {
        "embeddings.word_embeddings.weight": (WORDS, hidden),
        "embeddings.position_embeddings.weight": (PLACES, hidden),
        "embeddings.token_type_embeddings.weight": (2, hidden),
        "embeddings.LayerNorm.weight": (hidden,),
        "embeddings.LayerNorm.bias": (hidden,),
    }
    for layer in range(CONFIG["num_hidden_layers"]):
        prefix = f"encoder.layer.{layer}."
        dense = {
            "attention.self.query": (hidden, hidden),
            "attention.self.key": (hidden, hidden),
            "attention.self.value": (hidden, hidden),
            "attention.output.dense": (hidden, hidden),
            "intermediate.dense": (INNER, hidden),
            "output.dense": (hidden, INNER),
        }
        for name, shape in dense.items():
            shapes[f"{prefix}{name}.weight"] = shape
            shapes[f"{prefix}{name}.bias"] = shape[:1]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"{prefix}{name}.weight"] = shapes[f"{prefix}{name}.bias"] = (hidden,)
    return {name: draw.standard_normal(shape).astype("<f4") for name, shape in shapes.items()}


def write_source(folder, weights):
    header, blob = {"__metadata__": {"format": "pt"}}, b""
    for name, array in weights.items():
        offsets = [len(blob), len(blob) + array.nbytes]
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": offsets}
        blob += array.tobytes()
    head = json.dumps(header).encode()
    packed = struct.pack("<Q", len(head)) + head + blob
    (folder / "model.safetensors").write_bytes(packed)
    (folder / "config.json").write_text(json.dumps(CONFIG))


def reference(weights, ids):
    """A BERT encoder in float64, one text, no padding."""

    def dense(state, name):
        return state @ weights[f"{name}.weight"].T.astype(float) + weights[f"{name}.bias"]

    def norm(state, name):
        centred = state - state.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def gelu(value):
        erf = np.vectorize(math.erf)
        return value * 0.5 * (1 + erf(value / np.sqrt(2)))

    state = weights["embeddings.word_embeddings.weight"][ids].astype(float)
    state = state + weights["embeddings.position_embeddings.weight"][: len(ids)]
    state = norm(
        state + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm"
    )
    for layer in range(CONFIG["num_hidden_layers"]):
        prefix, heads = f"encoder.layer.{layer}.", []
        query, key, value = (
            dense(state, f"{prefix}attention.self.{name}") for name in ("query", "key", "value")
        )
        for head in (slice(0, 4), slice(4, 8)):
            scores = np.exp(query[:, head] @ key[:, head].T / 2)
            heads.append(scores / scores.sum(-1, keepdims=True) @ value[:, head])
        mixed = dense(np.concatenate(heads, -1), f"{prefix}attention.output.dense")
        state = norm(mixed + state, f"{prefix}attention.output.LayerNorm")
        wide = gelu(dense(state, f"{prefix}intermediate.dense"))
        state = norm(dense(wide, f"{prefix}output.dense") + state, f"{prefix}output.LayerNorm")
    return state


@pytest.fixture
def source(tmp_path):
    write_source(tmp_path, draw_weights())
    return tmp_path


def test_converted_model_computes_what_bert_does_and_ignores_padding(source):
    convert(source, source / "model.onnx")
    session = ModelSession(MINILM_OFFLINE, source)
    ids = np.array([[3, 7, 1, 19, 4], [5, 6, 2, 0, 0]])
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    found = session.run("token_embeddings", ids, mask)
    assert np.abs(found[0] - reference(draw_weights(), ids[0])).max() < 1e-4
    assert np.abs(found[1, :3] - reference(draw_weights(), ids[1, :3])).max() < 1e-4


def test_conversion_gives_the_same_bytes_every_time(source):
    convert(source, source / "one.onnx")
    convert(source, source / "two.onnx")
    assert (source / "one.onnx").read_bytes() == (source / "two.onnx").read_bytes()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("config.json", b"{}", id="settings-are-missing"),
        pytest.param("config.json", b"{", id="settings-are-cut"),
        pytest.param("model.safetensors", b"", id="weights-are-empty"),
        pytest.param("model.safetensors", struct.pack("<Q", 2) + b"{}", id="weights-lack-tensors"),
    ],
)
def test_source_that_is_no_bert_is_refused(source, name, content):
    (source / name).write_bytes(content)
    with pytest.raises(WeightsCorruptError, match="holds no BERT encoder"):
        convert(source, source / "model.onnx")


class TestConvertedFile:
    @pytest.fixture
    def profile(self, source):
        names = ("config.json", "model.safetensors")
        return replace(
            MINILM_OFFLINE,
            name="small",
            source="small==1",
            files={n: hashlib.sha256((source / n).read_bytes()).hexdigest() for n in names},
            sizes={},
        )

    @pytest.fixture
    def folders(self, source, profile):
        folders = ModelFolders(source / "cache")
        target = folders.cache / "models" / profile.name / profile.revision
        target.mkdir(parents=True)
        for name in profile.files:
            shutil.copy(source / name, target / name)
        return folders

    def test_it_is_made_once(self, profile, folders):
        folder = fetch(profile, folders)
        made = (folder / "model.onnx").stat().st_mtime_ns
        fetch(profile, folders)
        assert (folder / "model.onnx").stat().st_mtime_ns == made

    @pytest.mark.parametrize("name", ["model.onnx", "model.onnx.json"])
    @pytest.mark.parametrize("force", [False, True], ids=["plain", "force"])
    def test_damage_is_seen_and_mended_without_a_download(self, profile, folders, name, force):
        folder = fetch(profile, folders)
        (folder / name).write_bytes(b"{}")
        with pytest.raises(WeightsCorruptError, match=r"model\.onnx in .*--profile small --force"):
            verify(profile, folder, folders.receipts)
        fetch(profile, folders, force=force)
        verify(profile, folder, folders.receipts)

    def test_model_of_other_weights_is_made_again(self, profile, folders):
        folder = fetch(profile, folders)
        note = folder / "model.onnx.json"
        note.write_text(json.dumps({**json.loads(note.read_text()), "converter": 0}))
        fetch(profile, folders)
        verify(profile, folder, folders.receipts)


@pytest.mark.slow
def test_real_profile_is_fetched_converted_and_finds_what_is_similar():
    folders = ModelFolders(user_cache_path("doxtr-rag"))
    folder = fetch(MINILM_OFFLINE, folders)
    verify(MINILM_OFFLINE, folder, folders.receipts)
    embedder = OnnxEmbedder(MINILM_OFFLINE, folder, "cpu")
    texts = [
        "How do I install the package?",
        "Run pip install to set up the software.",
        "The cat sat on the mat.",
        "word " * 300,
    ]
    found = dict(pair for batch in embedder.embed(texts) for pair in batch)
    question, near, far = (np.frombuffer(found[index], "<f4") for index in range(3))
    assert question @ near > 0.45
    assert question @ far < 0.15
    assert embedder.counts.truncated == 1
    assert [embedder.embed_query(text) for text in texts] == [found[index] for index in range(4)]
