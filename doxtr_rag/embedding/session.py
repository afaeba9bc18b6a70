"""An onnxruntime session on the execution provider that was asked for, or an error."""

from __future__ import annotations

import logging
import os
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as native

from doxtr_rag.core.errors import (
    EmbeddingError,
    ProviderFallbackError,
    WeightsCorruptError,
    WeightsMissingError,
)
from doxtr_rag.core.profiles import EmbeddingProfile
from doxtr_rag.embedding.registry import fetch_command

logger = logging.getLogger(__name__)

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
PACKAGES = ("onnxruntime", "onnxruntime-gpu")
SWAP = "pip uninstall -y onnxruntime && pip install 'onnxruntime-gpu[cuda,cudnn]'"

_ERRORS_ONLY = 3
# TF32 would move vectors by 1e-3, and a store built here is searched from other machines.
_CUDA_OPTIONS = {"arena_extend_strategy": "kSameAsRequested", "use_tf32": "0"}
_OUT_OF_MEMORY = ("failed to allocate", "out of memory", "bad_alloc", "bad allocation")
# Every error of the runtime is a class of its own right below Exception.
_RUNTIME_ERRORS: tuple[type[Exception], ...] = (
    ValueError,
    RuntimeError,
    *(
        kind
        for kind in vars(native).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ),
)


class ModelSession:
    """A loaded model; `provider` says where it runs.

    Raises:
        ProviderFallbackError: `cuda` was asked for and did not start.
        WeightsMissingError: there is no model file.
        WeightsCorruptError: the model file cannot be read as a model.
    """

    def __init__(self, profile: EmbeddingProfile, folder: Path, device: str = "auto") -> None:
        path = folder / profile.model_file
        if not path.is_file():
            raise WeightsMissingError(f"{path} is missing; run: {fetch_command(profile)}")
        ort.set_default_logger_severity(_ERRORS_ONLY)
        try:
            # External data behind a link that leaves the folder is refused.
            self._session = _open(path.resolve(), device)
        except _RUNTIME_ERRORS as error:
            raise WeightsCorruptError(
                f"{path} cannot be loaded as a model: {error}; a folder of links into a hub cache "
                f"must be copied with its links followed; otherwise "
                f"run: {fetch_command(profile, '--force')}"
            ) from error
        self.provider: str = self._session.get_providers()[0]
        rows = self._session.get_inputs()[0].shape[0]
        self.fixed_batch: int | None = rows if isinstance(rows, int) else None

    def run(
        self, output: str, ids: NDArray[np.int64], mask: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Run one padded batch and return the output of that name.

        Raises:
            MemoryError: the batch does not fit.
            EmbeddingError: the model could not be run.
        """
        feed = {"input_ids": ids, "attention_mask": mask}
        try:
            found: NDArray[np.float32] = self._session.run([output], feed)[0]
        except _RUNTIME_ERRORS as error:
            reason = str(error)
            if any(sign in reason.lower() for sign in _OUT_OF_MEMORY):
                raise MemoryError(reason) from error
            raise EmbeddingError(
                f"the model could not be run on a batch of {ids.shape[0]} x {ids.shape[1]} tokens "
                f"({self.provider}): {reason}; run: doxtr-rag doctor"
            ) from error
        return found


def runtime_packages() -> list[str]:
    """Return which distributions of onnxruntime are installed; exactly one is right."""
    return [name for name in PACKAGES if _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _open(path: Path, device: str) -> Any:
    if device == "cpu":
        return _load(path, [CPU])
    if CUDA not in ort.get_available_providers():
        if device == "cuda":
            raise ProviderFallbackError(
                f"device cuda was asked for, but the installed {' and '.join(runtime_packages())} "
                f"has no CUDA in it; run: {SWAP}"
            )
        return _load(path, [CPU])
    return _open_on_cuda(path, device)


def _open_on_cuda(path: Path, device: str) -> Any:
    if hasattr(ort, "preload_dlls"):
        ort.preload_dlls(directory="")
    try:
        session = _load(path, [(CUDA, _CUDA_OPTIONS), CPU])
    except _RUNTIME_ERRORS as error:
        reason = str(error)
        session = None
    else:
        reason = "CUDA or cuDNN libraries are missing or do not fit"
        if session.get_providers()[0] == CUDA:
            return session
    if device == "cuda":
        raise ProviderFallbackError(
            f"device cuda was asked for, but the session did not start there: {reason}; "
            f"check the driver with nvidia-smi, or run: {SWAP}"
        )
    logger.info("CUDA did not start (%s); the model runs on the CPU", reason)
    return session or _load(path, [CPU])


def _load(path: Path, providers: list[Any]) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    options.intra_op_num_threads = usable_cores()
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Its own fallback prints to standard output, which may be a protocol channel.
    return ort.InferenceSession(str(path), options, providers=providers, enable_fallback=0)


def usable_cores() -> int:
    """Return the cores this process may use, which in a container are fewer than the host's."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
