"""A model with the interface of bge-m3 and none of its size, for tests that need real vectors.

Attention is nearly even and values pass through almost unchanged, so that a text's vector is close
to the mean of its words' vectors: texts that share words are near each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
PAD_ID = 1
LETTERS = "abcdefghijklmnopqrstuvwxyz"
COMMON = """
a about access account action add address admin after again agent all allow also an and answer any
api app apply are area argument as at author available back base be because been before begin below
best between block body book both branch build builder but by cache call can case change chapter
check chunk class clear code column command comment company config configuration configure connect
contain content contract copy cost count create current customer cut data database date day decide
default define delete describe design detail develop device dictionary difference directory
document documentation domain done down draft drive each edit element email employee empty end
engine english enter entry environment error event every example except execute expect explain
export expression extension external extract false fast feature field figure file find first folder
follow for form format found from full function general get give glossary go good group guide had
has have header heading help her here history home host how html image import in include index
information input insert inside install instead integer interface internal into is issue it item its
job join keep key keyword kind know language large last layout left length less let level library
licence like limit line link list load local log long look machine main make manual many map mark
maximum may meeting member memory menu message method minimum missing mode model module more most
mount move must name need network never new next no node none normal not note now number object of
off office old on once one only open option or order organisation other our out output over own
package page paragraph parameter part password path pattern people person place plan please policy
port position possible price print private problem process product program project property public
python query question quick quote read reader record reference release remove rename render replace
report request require result return right role root row rule run safe same save scope script search
second section security see select send server service set setting shared she should show side
simple since size so some source space special sphinx standard start state step still stop store
string structure style such support system table tag take team template test text than that the
their them then there these they thing this those through time title to token tool top tree true two
type under unique until up update upload url use user using valid value vector version very view
wait want warning was way we web week were what when where which while who why will with without
word work world would write year yes you your
"""
WORDS = COMMON.split()


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of an encoder."""

    layers: int
    hidden: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    dimension: int


def make_tiny_model(folder: Path) -> Path:
    """Write the model, its external data, the tokenizer and a config.json; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    shape = Shape(
        layers=1,
        hidden=128,
        heads=4,
        inner=256,
        vocabulary=tokenizer.get_vocab_size(),
        positions=512 + PAD_ID + 1,
        dimension=1024,
    )
    make_model(folder / "onnx", shape)
    config = {"model_type": "xlm-roberta", "hidden_size": shape.hidden, "pad_token_id": PAD_ID}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def pieces() -> Iterator[tuple[str, float]]:
    """Yield the vocabulary: words, pairs of letters and characters; longer pieces are likelier."""
    yield from ((token, 0.0) for token in SPECIAL)
    yield from (("▁" + word, -8.0 - 0.001 * rank) for rank, word in enumerate(WORDS))
    for first in LETTERS:
        for second in LETTERS:
            if first + second not in WORDS:
                yield "▁" + first + second, -9.0
            yield first + second, -9.5
    yield "▁", -9.0
    printable = (chr(code) for code in range(33, 127))
    yield from ((character, -10.0) for character in printable)
    yield "<mask>", 0.0


def make_tokenizer() -> Tokenizer:
    """Return a tokenizer of the kind that XLM-R has, the same on every machine."""
    tokenizer = Tokenizer(models.Unigram(list(pieces()), SPECIAL.index("<unk>"), False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always"),
        ]
    )
    tokenizer.decoder = decoders.Metaspace(replacement="▁")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    tokenizer.add_special_tokens([*SPECIAL, "<mask>"])
    return tokenizer


def make_model(folder: Path, shape: Shape, seed: int = 0) -> None:
    """Write `model.onnx` and its external `model.onnx_data` with the weights of that seed."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "model.onnx_data").open("wb") as data:
        encoder = _Encoder(shape, np.random.default_rng(seed), data, [], [])
        encoder.build()
    (folder / "model.onnx").write_bytes(encoder.model())


@dataclass(slots=True)
class _Encoder:
    shape: Shape
    random: np.random.Generator
    data: object
    nodes: list
    tensors: list

    def node(self, operator: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], output, **attributes))
        return output

    def constant(self, name: str, value: object) -> str:
        if all(tensor.name != name for tensor in self.tensors):
            self.tensors.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, name: str, array: NDArray[np.float32]) -> str:
        """Append to the data file, so that a model larger than the memory can be written."""
        self.data.seek(-self.data.tell() % 4096, 1)
        entries = {
            "location": "model.onnx_data",
            "offset": self.data.tell(),
            "length": array.nbytes,
        }
        tensor = TensorProto(
            name=name,
            dims=array.shape,
            data_type=TensorProto.FLOAT,
            data_location=TensorProto.EXTERNAL,
        )
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=str(value))
        self.data.write(memoryview(np.ascontiguousarray(array)).cast("B"))
        self.tensors.append(tensor)
        return name

    def noise(self, *size: int, scale: float = 0.02) -> NDArray[np.float32]:
        drawn = self.random.standard_normal(size, np.float32)
        drawn *= np.float32(scale)
        return drawn

    def dense(self, state: str, output: str, matrix: NDArray[np.float32]) -> str:
        weight = self.weight(f"{output}.w", matrix)
        bias = self.weight(f"{output}.b", self.noise(matrix.shape[1], scale=0.01))
        return self.node(
            "Add", [self.node("MatMul", [state, weight], f"{output}.mm"), bias], output
        )

    def norm(self, state: str, output: str) -> str:
        gain = self.weight(f"{output}.g", np.ones(self.shape.hidden, np.float32))
        shift = self.weight(f"{output}.s", np.zeros(self.shape.hidden, np.float32))
        return self.node("LayerNormalization", [state, gain, shift], output, axis=-1, epsilon=1e-5)

    def embedded(self) -> str:
        """Positions count real tokens from the padding id up, as XLM-R does."""
        hidden = self.shape.hidden
        words = self.weight("words", self.noise(self.shape.vocabulary, hidden, scale=1.0))
        places = self.weight("places", self.noise(self.shape.positions, hidden))
        axis, pad = self.constant("axis", np.int64(1)), self.constant("pad", np.int64(PAD_ID))
        running = self.node("CumSum", ["attention_mask", axis], "running")
        real = self.node("Mul", [running, "attention_mask"], "real")
        position = self.node("Add", [real, pad], "position")
        word = self.node("Gather", [words, "input_ids"], "word")
        place = self.node("Gather", [places, position], "place")
        return self.norm(self.node("Add", [word, place], "word.place"), "embedded")

    def bias(self) -> str:
        wide = self.node("Unsqueeze", ["attention_mask", self.constant("axes", [1, 2])], "wide")
        real = self.node("Cast", [wide], "wide.real", to=TensorProto.BOOL)
        lowest = self.constant("lowest", np.finfo(np.float32).min)
        return self.node("Where", [real, self.constant("nought", np.float32(0)), lowest], "bias")

    def split(self, state: str, output: str, order: list[int]) -> str:
        heads = [0, 0, self.shape.heads, self.shape.hidden // self.shape.heads]
        parts = self.node("Reshape", [state, self.constant("heads", heads)], f"{output}.parts")
        return self.node("Transpose", [parts], output, perm=order)

    def layer(self, number: int, state: str, bias: str) -> str:
        hidden, inner, name = self.shape.hidden, self.shape.inner, f"layer.{number}."
        same = np.eye(hidden, dtype=np.float32)
        query = self.dense(state, f"{name}q", self.noise(hidden, hidden))
        key = self.dense(state, f"{name}k", self.noise(hidden, hidden))
        value = self.dense(state, f"{name}v", same + self.noise(hidden, hidden))
        query = self.split(query, f"{name}qh", [0, 2, 1, 3])
        key = self.split(key, f"{name}kh", [0, 2, 3, 1])
        value = self.split(value, f"{name}vh", [0, 2, 1, 3])
        scores = self.node("MatMul", [query, key], f"{name}scores")
        root = self.constant("root", np.float32((hidden // self.shape.heads) ** 0.5))
        scores = self.node("Div", [scores, root], f"{name}scaled")
        masked = self.node("Add", [scores, bias], f"{name}masked")
        shares = self.node("Softmax", [masked], f"{name}shares", axis=-1)
        mixed = self.node("MatMul", [shares, value], f"{name}mixed")
        turned = self.node("Transpose", [mixed], f"{name}turned", perm=[0, 2, 1, 3])
        joined = self.node(
            "Reshape", [turned, self.constant("joined", [0, 0, hidden])], f"{name}joined"
        )
        # Large, so that the words outweigh the first token's own vector.
        attended = self.dense(joined, f"{name}o", 20 * same + self.noise(hidden, hidden))
        attended = self.norm(self.node("Add", [attended, state], f"{name}o.sum"), f"{name}o.norm")
        wide = self.dense(attended, f"{name}up", self.noise(hidden, inner))
        wide = self.node("Gelu", [wide], f"{name}gelu")
        narrow = self.dense(wide, f"{name}down", self.noise(inner, hidden))
        return self.norm(self.node("Add", [narrow, attended], f"{name}sum"), f"{name}out")

    def build(self) -> None:
        state, bias = self.embedded(), self.bias()
        for number in range(self.shape.layers):
            state = self.layer(number, state, bias)
        if self.shape.dimension == self.shape.hidden:
            self.node("Identity", [state], "token_embeddings")
        else:
            wide = self.noise(self.shape.hidden, self.shape.dimension, scale=1.0)
            self.node("MatMul", [state, self.weight("wider", wide)], "token_embeddings")
        first = self.constant("first", np.int64(0))
        cls = self.node("Gather", ["token_embeddings", first], "cls", axis=1)
        length = self.node("ReduceL2", [cls, self.constant("last", [-1])], "cls.length", keepdims=1)
        self.node("Div", [cls, length], "sentence_embedding")

    def model(self) -> bytes:
        def value(name: str, kind: int, *sizes: str | int) -> object:
            return helper.make_tensor_value_info(name, kind, list(sizes))

        dimension = self.shape.dimension
        graph = helper.make_graph(
            self.nodes,
            "encoder",
            [
                value(n, TensorProto.INT64, "batch", "tokens")
                for n in ("input_ids", "attention_mask")
            ],
            [
                value("token_embeddings", TensorProto.FLOAT, "batch", "tokens", dimension),
                value("sentence_embedding", TensorProto.FLOAT, "batch", dimension),
            ],
            initializer=self.tensors,
        )
        opset = [helper.make_opsetid("", 20)]
        return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()
