"""Prints how much resident memory a profile's model takes: loaded, and after full batches."""

from __future__ import annotations

import json
import sys

from process_usage import peak_memory, resident_memory

WORD = "section "


def main(name: str) -> None:
    """Load the embedder and run batches as large as its budget allows."""
    before = resident_memory()
    from doxtr_rag.config.environment import read_environment  # noqa: PLC0415 - counts too
    from doxtr_rag.embedding import registry, weights  # noqa: PLC0415
    from doxtr_rag.embedding.onnx import CPU_BUDGET, OnnxEmbedder  # noqa: PLC0415

    imported = resident_memory()
    profile = registry.profile(name)
    environment = read_environment()
    folders = weights.ModelFolders(environment.cache_dir, environment.bge_m3_onnx_dir)
    embedder = OnnxEmbedder(profile, weights.locate(profile, folders))
    loaded = resident_memory()
    length = profile.cap_tokens - 2
    texts = [WORD * length + " " * row for row in range(CPU_BUDGET // profile.cap_tokens)]
    for _ in embedder.embed(texts):
        pass
    found = {
        "imports": imported - before,
        "weights": loaded - imported,
        "batch": peak_memory() - loaded,
        "total": peak_memory() - before,
        "padded_tokens": embedder.counts.padded_tokens,
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
