"""Fetches one pinned file from the hub, going on where an earlier try stopped.

`hf_hub_download` throws away what a killed download had; this keeps it in a file of our own.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from huggingface_hub import get_hf_file_metadata, hf_hub_url

# HTTPError is httpx's or httpx2's, whichever the installed hub client speaks.
from huggingface_hub.errors import (  # type: ignore[attr-defined]
    HfHubHTTPError,
    HTTPError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import (  # type: ignore[attr-defined]
    WeakFileLock,
    build_hf_headers,
)

from doxtr_rag.core.errors import EmbeddingError, WeightsCorruptError, WeightsMissingError
from doxtr_rag.core.ports import Progress
from doxtr_rag.core.profiles import EmbeddingProfile
from doxtr_rag.embedding.receipts import sha256_of
from doxtr_rag.embedding.registry import fetch_command

_REASONS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    (OfflineModeIsEnabled, "HF_HUB_OFFLINE is set; unset it"),
    (
        (RemoteEntryNotFoundError, RevisionNotFoundError),
        "the hub does not have it; let HF_ENDPOINT name one that does",
    ),
    (
        RepositoryNotFoundError,
        "the hub shows you no such repository; set HF_TOKEN if it needs a login, check HF_ENDPOINT",
    ),
    (HfHubHTTPError, "the hub refused; wait, or check HF_TOKEN and HF_ENDPOINT"),
    (HTTPError, "the hub cannot be reached; check network, proxy and HF_ENDPOINT"),
)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Wait until no other process fetches into this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(folder / "lock"):
        yield


def download(
    profile: EmbeddingProfile,
    name: str,
    part: Path,
    endpoint: str | None,
    progress: Progress | None,
) -> None:
    """Leave the verified file at `part`; what is there already is taken as its beginning.

    Raises:
        WeightsMissingError: the hub cannot be reached, or does not give the file.
        WeightsCorruptError: the hub gave other bytes than the pinned ones.
        EmbeddingError: the disk is full or cannot be written.
    """
    try:
        resumed = _receive(profile, name, part, endpoint, progress)
        if sha256_of(part) == profile.files[name]:
            return
        part.unlink()
        if resumed:
            # The beginning may have been left over from something else.
            _receive(profile, name, part, endpoint, progress)
            if sha256_of(part) == profile.files[name]:
                return
            part.unlink()
    except (HTTPError, OSError) as error:
        raise _explained(error, profile, name) from error
    raise WeightsCorruptError(
        f"the bytes of {name} that the hub gave for {profile.source} are not the pinned ones and "
        f"were thrown away; check HF_ENDPOINT and proxies, then run: {fetch_command(profile)}"
    )


def _receive(
    profile: EmbeddingProfile,
    name: str,
    part: Path,
    endpoint: str | None,
    progress: Progress | None,
) -> bool:
    """Complete `part` and say whether some of it was there before."""
    url = hf_hub_url(profile.source, name, revision=profile.revision, endpoint=endpoint)
    offered = get_hf_file_metadata(url).size
    expected = profile.sizes.get(name, offered)
    if offered != expected:
        raise WeightsCorruptError(
            f"the hub offers {offered} bytes of {name}, the pinned file has {expected}; "
            f"check HF_ENDPOINT and proxies, then run: {fetch_command(profile)}"
        )
    done = part.stat().st_size if part.exists() else 0
    if expected is not None and done > expected:
        part.unlink()
        done = 0
    _check_space(part.parent, (expected or 0) - done)
    with part.open("ab") as file:
        http_get(
            url,
            file,
            resume_size=done,
            headers=build_hf_headers(),
            expected_size=expected,
            displayed_filename=name,
            tqdm_class=_bar(f"fetch {name}", progress),
        )
        file.flush()
        os.fsync(file.fileno())
    return done > 0


def _check_space(folder: Path, needed: int) -> None:
    if shutil.disk_usage(folder).free < needed:
        raise OSError(errno.ENOSPC, f"{needed} bytes needed", str(folder))


def _bar(phase: str, progress: Progress | None) -> Any:
    """Return a class that the hub takes for a progress bar and that prints nothing."""

    class Bar:
        def __init__(self, total: int | None = None, initial: int = 0, **_: object) -> None:
            self._done, self._total = initial, total or 0

        def update(self, amount: int) -> None:
            self._done += amount
            if progress is not None:
                progress(phase, self._done, self._total)

        def __enter__(self) -> Bar:
            return self

        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None:
            """Nothing to close."""

    return Bar


def _explained(error: Exception, profile: EmbeddingProfile, name: str) -> EmbeddingError:
    """Say in our words what went wrong and what helps."""
    what = f"cannot fetch {name} of {profile.source} at revision {profile.revision}"
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            return WeightsMissingError(
                f"{what}: {reason}, then run: {fetch_command(profile)} ({said})"
            )
    if isinstance(error, OSError) and error.errno is not None:
        return EmbeddingError(
            f"{what}: {error}; free space or choose another folder, "
            f"then run: {fetch_command(profile)}"
        )
    return WeightsMissingError(
        f"{what}: the transfer broke off ({error}); to go on where it stopped, "
        f"run: {fetch_command(profile)}"
    )
