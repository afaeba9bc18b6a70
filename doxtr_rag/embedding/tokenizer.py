"""The profile's own tokenizer: text to ids, and how many tokens a text has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from doxtr_rag.core.errors import WeightsCorruptError, WeightsMissingError
from doxtr_rag.core.profiles import EmbeddingProfile
from doxtr_rag.embedding.registry import fetch_command

_WINDOW = 512
"""Texts whose full encodings, which are large, are in memory at once."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """The ids of some texts, and how many of those texts were cut."""

    ids: list[NDArray[np.int32]]
    truncated: int


class ProfileTokenizer:
    """Counts and encodes as the model expects it: no padding, cut at the profile's limit."""

    def __init__(self, profile: EmbeddingProfile, folder: Path) -> None:
        path = folder / profile.tokenizer_file
        if not path.is_file():
            raise WeightsMissingError(
                f"{profile.tokenizer_file} is missing in {folder}; run: {fetch_command(profile)}"
            )
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise WeightsCorruptError(
                f"{path} is damaged: {error}; run: {fetch_command(profile, '--force')}"
            ) from error
        # The file may ask for padding and for another limit; neither is the profile's.
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(profile.max_tokens)
        self._added = self._tokenizer.num_special_tokens_to_add(is_pair=False)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text before any cut, special tokens included."""
        return [self._whole_length(encoding) for encoding in self._encodings(texts)]

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Return the ids of each text, special tokens included, at most the profile's limit."""
        ids, truncated = [], 0
        for encoding in self._encodings(texts):
            ids.append(np.array(encoding.ids, np.int32))
            truncated += bool(encoding.overflowing)
        return Encoded(ids, truncated)

    def _encodings(self, texts: Sequence[str]) -> Iterator[Encoding]:
        for start in range(0, len(texts), _WINDOW):
            yield from self._tokenizer.encode_batch_fast(list(texts[start : start + _WINDOW]))

    def _whole_length(self, encoding: Encoding) -> int:
        """Add up the pieces of a cut text; each carries special tokens of its own."""
        rest = sum(len(piece.ids) - self._added for piece in encoding.overflowing)
        return len(encoding.ids) + rest
