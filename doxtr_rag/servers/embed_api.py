"""`/embed`: texts in, vectors out, in the shape of OpenAI's embeddings endpoint."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from doxtr_rag.core.cutting import clean
from doxtr_rag.core.documents import Vector
from doxtr_rag.servers.failures import RequestError
from doxtr_rag.servers.model import ModelHost
from doxtr_rag.servers.wire import vector_text

MAX_TEXTS = 256
MAX_CHARACTERS = 2_000_000
FLOAT_BYTES = 4


def embed(host: ModelHost, body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one request; a single text gets its vector at the top level too.

    Raises:
        RequestError: the request is malformed or too large, or asks for another model.
        DoxtrRagError: the model cannot be used.
    """
    _check_model(host, body.get("model"))
    is_single = isinstance(body.get("input"), str)
    inputs = _inputs(body.get("input"))
    as_base64 = _choice(body, "encoding_format", ("float", "base64")) == "base64"
    is_query = _choice(body, "input_type", ("query", "passage")) == "query"
    embedder = host.embedder()
    vectors: dict[int, Vector] = {}
    if is_query:
        vectors = {index: embedder.embed_query(text) for index, text in enumerate(inputs)}
    else:
        for batch in embedder.embed(inputs):
            vectors.update(batch)
    shown = [_shown(vectors[index], as_base64) for index in range(len(inputs))]
    counts = embedder.counts
    answer = {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in enumerate(shown)
        ],
        "model": host.names.profile,
        "dimension": host.names.dimension,
        "fingerprint": host.names.fingerprint,
        "usage": {
            "prompt_tokens": counts.tokens,
            "padded_tokens": counts.padded_tokens,
            "truncated": counts.truncated,
        },
    }
    return answer | {"embedding": shown[0]} if is_single else answer


def _check_model(host: ModelHost, name: object) -> None:
    if name not in (None, host.names.profile, host.names.model):
        raise RequestError(
            404, "unknown_model", f"model: this server has {host.names.profile} only"
        )


def _inputs(given: object) -> list[str]:
    inputs = [given] if isinstance(given, str) else given
    if not isinstance(inputs, list) or not inputs:
        raise RequestError(400, "bad_input", "input: expected a text or a list of texts")
    if not all(isinstance(text, str) and text.strip() for text in inputs):
        raise RequestError(400, "bad_input", "input: expected texts that are not empty")
    if len(inputs) > MAX_TEXTS or sum(map(len, inputs)) > MAX_CHARACTERS:
        raise RequestError(
            413,
            "too_many_texts",
            f"input: at most {MAX_TEXTS} texts and {MAX_CHARACTERS} characters at once",
        )
    return [clean(text) for text in inputs]


def _choice(body: Mapping[str, Any], name: str, words: tuple[str, ...]) -> str:
    """Return a word of the body; the first one when it says nothing."""
    word = body.get(name, words[0])
    if word not in words:
        raise RequestError(400, "bad_input", f"{name}: expected one of {', '.join(words)}")
    return str(word)


def _shown(vector: Vector, as_base64: bool) -> str | list[float]:
    if as_base64:
        return vector_text(vector)
    return list(struct.unpack(f"<{len(vector) // FLOAT_BYTES}f", vector))
