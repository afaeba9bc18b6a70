from pathlib import Path

import pytest

from doxtr_rag.config.environment import OVERRIDES, Environment, known_variables, read_environment
from doxtr_rag.config.schema import keys
from doxtr_rag.core.errors import ConfigError


def test_empty_environment_gives_the_defaults():
    environment = read_environment({"HOME": "/home/me"})
    assert environment.cache_dir == Path("/home/me/.cache/doxtr-rag")
    assert (environment.is_ci, environment.unknown, environment.problems) == (False, (), ())
    assert environment.mount_port_base == 8790
    assert environment.overrides == {}
    assert environment.index_reuse


def test_process_environment_is_read(monkeypatch):
    monkeypatch.setenv("DOXTR_RAG_VAULT_TOP_K", "9")
    assert read_environment().vault_top_k == 9


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("DOXTR_RAG_BGE_M3_ONNX_DIR", "/models/m3", "bge_m3_onnx_dir", Path("/models/m3")),
        ("DOXTR_RAG_MOUNT_PORT_BASE", "9000", "mount_port_base", 9000),
        ("DOXTR_RAG_ENDPOINTS", "x/endpoints.json", "endpoints", Path("x/endpoints.json")),
        ("DOXTR_RAG_EMBED_URL", "http://host.example:1/", "embed_url", "http://host.example:1/"),
        ("DOXTR_RAG_INGEST_INSECURE", "1", "ingest_insecure", True),
        ("DOXTR_RAG_INDEX_REUSE", "Off", "index_reuse", False),
        ("DOXTR_RAG_INDEX_REUSE", "YES", "index_reuse", True),
        ("DOXTR_RAG_NO_VAULT", "true", "no_vault", True),
        ("DOXTR_RAG_NO_VAULT", " no ", "no_vault", False),
        ("DOXTR_RAG_NO_VAULT", "", "no_vault", False),
        ("DOXTR_RAG_PREPROCESS", "Yes", "preprocess", "default"),
        ("DOXTR_RAG_PREPROCESS", "APPROVED", "preprocess", "approved"),
        ("DOXTR_RAG_PREPROCESS", "0", "preprocess", "off"),
        ("DOXTR_RAG_INDEX_NO_PROGRESS_TIMEOUT_S", "1.5", "index_no_progress_timeout_s", 1.5),
        ("DOXTR_RAG_VAULT_PATHS", "a, b,,", "vault_paths", ("a", "b")),
        ("DOXTR_RAG_ATLASSIAN_SITES", "https://a.example", "atlassian_sites",
         ("https://a.example",)),
        ("DOXTR_RAG_SHARED_STORE_HEADERS", "a=b; d=e=f;", "shared_store_headers",
         {"a": "b", "d": "e=f"}),
        ("SSL_CERT_FILE", "ca.pem", "ca_bundle", Path("ca.pem")),
        ("REQUESTS_CA_BUNDLE", "ca.pem", "ca_bundle", Path("ca.pem")),
        ("CI", "true", "is_ci", True),
        ("CI", "false", "is_ci", False),
        ("XDG_CACHE_HOME", "/cache", "cache_dir", Path("/cache/doxtr-rag")),
        ("XDG_CACHE_HOME", "relative", "cache_dir", Path("/home/me/.cache/doxtr-rag")),
    ],
)  # fmt: skip
def test_variable_is_understood(name, text, field, value):
    environment = read_environment({"HOME": "/home/me", name: text})
    assert getattr(environment, field) == value
    assert not environment.problems
    assert not environment.unknown


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("DOXTR_RAG_MOUNT_PORT_BASE", "0"),
        ("DOXTR_RAG_MOUNT_PORT_BASE", "8790.0"),
        ("DOXTR_RAG_EMBED_URL", "localhost:1"),
        ("DOXTR_RAG_NO_VAULT", "2"),
        ("DOXTR_RAG_PREPROCESS", "some"),
        ("DOXTR_RAG_PREPROCESS_MAX_EMITTED_BYTES", "9" * 5000),
        ("DOXTR_RAG_INDEX_NO_PROGRESS_TIMEOUT_S", "nan"),
        ("DOXTR_RAG_INDEX_NO_PROGRESS_TIMEOUT_S", "soon"),
        ("DOXTR_RAG_VAULT_TOP_K", "-1"),
        ("DOXTR_RAG_VAULT_CHUNK_TOKENS", "1e3"),
        ("DOXTR_RAG_ATLASSIAN_SITES", "https://x.example, y"),
        ("DOXTR_RAG_ENDPOINTS", "http://x.example/endpoints.json"),
    ],
)
def test_wrong_value_is_named_with_its_variable(name, text):
    environment = read_environment({name: text})
    if name.endswith("EMITTED_BYTES"):
        assert not environment.overrides
    (line,) = environment.problems
    assert line.startswith(f"{name}: expected ")
    assert len(line) < 250
    with pytest.raises(ConfigError, match=name):
        environment.require_valid()


def test_secret_is_neither_shown_nor_repeated():
    environment = read_environment(
        {
            "DOXTR_RAG_LLM_API_KEY": "hush-one",
            "DOXTR_RAG_LOCAL_STORE_HEADERS": "x-key=hush-two",
            "DOXTR_RAG_SHARED_STORE_HEADERS": "hush-three",
        }
    )
    assert environment.llm_api_key == "hush-one"
    assert "hush" not in repr(environment)
    assert environment.problems[0].startswith("DOXTR_RAG_SHARED_STORE_HEADERS: expected headers")


def test_unknown_name_is_reported_with_the_nearest():
    environment = read_environment({"DOXTR_RAG_SHARED_PROT": "1", "DOXTR_OTHER": "1"})
    assert environment.unknown == (
        "DOXTR_RAG_SHARED_PROT: unknown, did you mean DOXTR_RAG_SHARED_PORT?",
    )


def test_every_override_is_a_key_and_every_variable_has_help():
    assert set(OVERRIDES) <= set(keys())
    assert all(text.endswith(".") for text in known_variables().values())
    assert read_environment(dict.fromkeys(known_variables(), "")).unknown == ()


def test_the_scope_of_agents_is_a_known_variable():
    assert read_environment({"DOXTR_RAG_AGENT_SCOPE": "shared"}).unknown == ()


def test_valid_environment_passes():
    Environment().require_valid()
