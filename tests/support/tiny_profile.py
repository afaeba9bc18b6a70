"""The profile of the tiny model, as another package would register it (entry point `tiny`)."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from doxtr_rag.core.profiles import EmbeddingProfile, Pooling, WeightsOrigin

FOLDER_VARIABLE = "TINY_MODEL_DIR"
FILES = ("onnx/model.onnx", "onnx/model.onnx_data", "tokenizer.json", "config.json")


def profile() -> EmbeddingProfile:
    """Return the profile of the model in the folder that TINY_MODEL_DIR names."""
    return profile_of(Path(os.environ[FOLDER_VARIABLE]))


def profile_of(folder: Path) -> EmbeddingProfile:
    """Return the profile of the tiny model in a folder, pinned to the files that lie there."""
    return EmbeddingProfile(
        name="tiny",
        model="tiny",
        revision="1",
        dimension=1024,
        pooling=Pooling.CLS,
        max_tokens=512,
        target_tokens=60,
        cap_tokens=96,
        pad_id=1,
        origin=WeightsOrigin.FOLDER,
        source=str(folder),
        files={n: hashlib.sha256((folder / n).read_bytes()).hexdigest() for n in FILES},
        sizes={n: (folder / n).stat().st_size for n in FILES},
    )
