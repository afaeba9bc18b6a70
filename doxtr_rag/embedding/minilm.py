"""Builds an ONNX model from the safetensors of a BERT encoder, with numpy and onnx alone.

The graph ends at the token vectors: `doxtr_rag.embedding.onnx` takes their mean outside it.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from doxtr_rag.core.errors import WeightsCorruptError

OPSET = 20
_IR_VERSION = 9
_LENGTH = struct.Struct("<Q")


def convert(folder: Path, target: Path) -> None:
    """Write the model of `config.json` and `model.safetensors` to `target`.

    Raises:
        WeightsCorruptError: the two files do not describe a BERT encoder.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        graph = _Graph(_read_safetensors(folder / "model.safetensors"), config)
        graph.build()
    except (KeyError, ValueError, struct.error) as error:
        raise WeightsCorruptError(
            f"{folder} holds no BERT encoder: {type(error).__name__}: {error}; "
            "run: doxtr-rag fetch-weights --force"
        ) from error
    target.write_bytes(graph.model())


def _read_safetensors(path: Path) -> dict[str, NDArray[np.float32]]:
    raw = path.read_bytes()
    (size,) = _LENGTH.unpack_from(raw)
    first = _LENGTH.size + size
    tensors = {}
    for name, entry in json.loads(raw[_LENGTH.size : first]).items():
        if entry.get("dtype") == "F32":
            begin, end = entry["data_offsets"]
            flat = np.frombuffer(raw, "<f4", (end - begin) // 4, first + begin)
            tensors[name] = flat.reshape(entry["shape"])
    return tensors


@dataclass(slots=True)
class _Graph:
    weights: dict[str, NDArray[np.float32]]
    config: dict[str, Any]
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, TensorProto] = field(default_factory=dict)

    def build(self) -> None:
        state = self._embeddings()
        bias = self._padding_bias()
        for layer in range(self.config["num_hidden_layers"]):
            state = self._layer(f"encoder.layer.{layer}.", state, bias)
        self._node("Identity", [state], "token_embeddings")

    def model(self) -> bytes:
        def value(name: str, kind: int, *more: int) -> Any:
            return helper.make_tensor_value_info(name, kind, ["batch", "sequence", *more])

        graph = helper.make_graph(
            self.nodes,
            self.config.get("model_type", "bert"),
            [value(name, TensorProto.INT64) for name in ("input_ids", "attention_mask")],
            [value("token_embeddings", TensorProto.FLOAT, self.config["hidden_size"])],
            initializer=list(self.constants.values()),
        )
        opset = [helper.make_opsetid("", OPSET)]
        made = helper.make_model(graph, opset_imports=opset, ir_version=_IR_VERSION)
        return bytes(made.SerializeToString())

    def _constant(self, name: str, value: Any) -> str:
        array = np.array(value, order="C")
        self.constants.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def _node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], output, **attributes))
        return output

    def _dense(self, state: str, prefix: str, output: str, scale: float = 1.0) -> str:
        weight = self._constant(
            f"{prefix}.w", self.weights[f"{prefix}.weight"].T * np.float32(scale)
        )
        bias = self._constant(f"{prefix}.b", self.weights[f"{prefix}.bias"] * np.float32(scale))
        product = self._node("MatMul", [state, weight], f"{output}.product")
        return self._node("Add", [product, bias], output)

    def _norm(self, state: str, prefix: str, output: str) -> str:
        gain = self._constant(f"{prefix}.w", self.weights[f"{prefix}.weight"])
        shift = self._constant(f"{prefix}.b", self.weights[f"{prefix}.bias"])
        epsilon = self.config["layer_norm_eps"]
        return self._node(
            "LayerNormalization", [state, gain, shift], output, axis=-1, epsilon=epsilon
        )

    def _embeddings(self) -> str:
        """Words plus places; every token is of the first type, so that is added to the places."""
        prefix = "embeddings."
        words = self._constant("words", self.weights[f"{prefix}word_embeddings.weight"])
        kind = self.weights[f"{prefix}token_type_embeddings.weight"][0]
        places = self.weights[f"{prefix}position_embeddings.weight"] + kind
        # The second dimension of the ids: the length of the longest text.
        length = self._node("Shape", ["input_ids"], "length", start=1, end=2)
        used = self._node(
            "Slice", [self._constant("places", places), self._constant("zero", [0]), length], "used"
        )
        total = self._node(
            "Add", [self._node("Gather", [words, "input_ids"], "looked"), used], "sum"
        )
        return self._norm(total, f"{prefix}LayerNorm", "embedded")

    def _padding_bias(self) -> str:
        """Zero where there is a token and the lowest number where there is padding."""
        row = self._node("Unsqueeze", ["attention_mask", self._constant("axes", [1, 2])], "row")
        real = self._node("Cast", [row], "real", to=TensorProto.BOOL)
        lowest = self._constant("lowest", np.finfo(np.float32).min)
        return self._node("Where", [real, self._constant("none", np.float32(0)), lowest], "bias")

    def _heads(self, state: str, output: str, order: list[int]) -> str:
        heads = self.config["num_attention_heads"]
        width = self.config["hidden_size"] // heads
        split = self._constant("split", np.array([0, 0, heads, width], np.int64))
        parts = self._node("Reshape", [state, split], f"{output}.parts")
        return self._node("Transpose", [parts], output, perm=order)

    def _layer(self, prefix: str, state: str, bias: str) -> str:
        width = self.config["hidden_size"] // self.config["num_attention_heads"]
        attention = f"{prefix}attention.self."
        # Scaling the query once is scaling every score.
        query = self._dense(state, f"{attention}query", f"{prefix}q", scale=width**-0.5)
        key = self._dense(state, f"{attention}key", f"{prefix}k")
        value = self._dense(state, f"{attention}value", f"{prefix}v")
        query = self._heads(query, f"{prefix}qh", [0, 2, 1, 3])
        key = self._heads(key, f"{prefix}kh", [0, 2, 3, 1])
        value = self._heads(value, f"{prefix}vh", [0, 2, 1, 3])
        scores = self._node("MatMul", [query, key], f"{prefix}scores")
        masked = self._node("Add", [scores, bias], f"{prefix}masked")
        shares = self._node("Softmax", [masked], f"{prefix}shares", axis=-1)
        mixed = self._node("MatMul", [shares, value], f"{prefix}mixed")
        turned = self._node("Transpose", [mixed], f"{prefix}turned", perm=[0, 2, 1, 3])
        merge = self._constant("merge", np.array([0, 0, self.config["hidden_size"]], np.int64))
        joined = self._node("Reshape", [turned, merge], f"{prefix}joined")
        output = f"{prefix}attention.output."
        attended = self._dense(joined, f"{output}dense", f"{prefix}attended")
        attended = self._node("Add", [attended, state], f"{prefix}attended.sum")
        attended = self._norm(attended, f"{output}LayerNorm", f"{prefix}attended.norm")
        return self._feed_forward(prefix, attended)

    def _feed_forward(self, prefix: str, state: str) -> str:
        wide = self._dense(state, f"{prefix}intermediate.dense", f"{prefix}wide")
        wide = self._node("Gelu", [wide], f"{prefix}gelu")
        narrow = self._dense(wide, f"{prefix}output.dense", f"{prefix}narrow")
        total = self._node("Add", [narrow, state], f"{prefix}sum")
        return self._norm(total, f"{prefix}output.LayerNorm", f"{prefix}out")
