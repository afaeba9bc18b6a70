import dataclasses as dc

import pytest

from doxtr_rag.config.environment import Environment, read_environment
from doxtr_rag.config.schema import Mount, SphinxRAGConfig, keys
from doxtr_rag.core.errors import ConfigError
from doxtr_rag.core.scope import Scope


def problems(values, environ=None):
    with pytest.raises(ConfigError) as caught:
        SphinxRAGConfig.from_values(values, environ and read_environment(environ))
    return str(caught.value).splitlines()


def test_nothing_set_gives_the_defaults():
    config = SphinxRAGConfig.from_values({"project": "ignored", "extensions": []})
    assert config == SphinxRAGConfig()
    assert (config.shared_port, config.private_port, config.embed_port) == (8787, 8788, 8789)
    assert config.private_paths == ("noter", "NDA")


def test_every_key_has_help_and_a_default_that_passes_its_check():
    for field in dc.fields(SphinxRAGConfig):
        assert field.metadata["help"].endswith(".")
        assert field.metadata["check"](field.name, field.default) == []


def test_every_problem_is_reported_at_once():
    assert problems({"rag_local_store_mode": "ftp", "rag_shared_port": 0, "rag_devise": "cpu"}) == [
        "rag_local_store_mode: expected one of embedded, http (got 'ftp')",
        "rag_shared_port: expected a port from 1 to 65535 (got 0)",
        "rag_devise: unknown, did you mean rag_device?",
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rag_shared_store_uri", ""),
        ("rag_shared_store_uri", "ftp://host/x"),
        ("rag_shared_store_uri", "https://host.example/kb"),
        ("rag_shared_store_uri", 3),
        ("rag_local_store_path", None),
        ("rag_local_store_path", "a\0b"),
        ("rag_local_server_uri", "localhost:8000"),
        ("rag_local_server_uri", "http://host.example:99999"),
        ("rag_cache_db", " "),
        ("rag_audit_log_path", 5),
        ("rag_embedding_provider", ""),
        ("rag_shared_store_database", "a b"),
        ("rag_store_tenant", "x"),
        ("rag_max_chunk_chars", True),
        ("rag_max_chunk_chars", "2000"),
        ("rag_chunk_overlap_chars", -1),
        ("rag_chunk_overlap_chars", 2000),
        ("rag_max_chunk_tokens", 15),
        ("rag_max_chunk_tokens", False),
        ("rag_shared_port", True),
        ("rag_shared_port", 65536),
        ("rag_private_port", 8789.0),
        ("rag_project", "***"),
        ("rag_builders", []),
        ("rag_builders", "html"),
        ("rag_builders", ["html", 1]),
        ("rag_url_style", "singlehtml"),
        ("rag_allow_shrink", 1),
        ("rag_reuse_vectors", "yes"),
        ("rag_serve", True),
        ("rag_device", "gpu"),
        ("rag_source_roots", "source"),
        ("rag_source_roots", [""]),
        ("rag_root", ""),
        ("rag_private_paths", "NDA"),
        ("rag_private_paths", ["docs/private"]),
        ("rag_private_paths", ["NDA*"]),
        ("rag_private_paths", [" . "]),
    ],
)
def test_wrong_value_is_named_with_its_key(key, value):
    (line,) = problems({key: value})
    assert line.startswith(f"{key}: expected ")
    assert line.endswith(f"(got {value!r})")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("rag_local_server_uri", "http://me:pass-word@host.example", id="password"),
        pytest.param("rag_shared_store_uri", "https://host.example/?k=pass-word", id="query"),
        pytest.param("rag_external_mounts", {"path": "x", "key": "pass-word"}, id="dictionary"),
        pytest.param("rag_device", [{"key": "pass-word"}], id="dictionary-in-a-list"),
    ],
)
def test_what_may_be_secret_is_not_repeated(key, value):
    lines = problems({key: value})
    assert key in "\n".join(lines)
    assert "pass-word" not in "\n".join(lines)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rag_local_store_path", "a\ud800"),
        ("rag_embedding_provider", "a\ud800"),
        ("rag_builders", ["a\ud800"]),
        ("rag_private_paths", ["a\ud800"]),
    ],
)
def test_half_a_character_is_refused(key, value):
    assert problems({key: value})[0].startswith(f"{key}: expected ")


def test_what_is_wrong_has_its_default_in_the_checked_configuration():
    values = {"rag_device": "tpu", "rag_shared_port": 9000, "rag_devise": "cpu"}
    config, found = SphinxRAGConfig.checked(values, Environment())
    assert (config.device, config.shared_port) == ("auto", 9000)
    assert len(found) == 2


HTTP = {
    "rag_shared_store_mode": "http",
    "rag_shared_store_uri": "https://kb.example",
    "rag_local_store_mode": "http",
    "rag_local_server_uri": "http://127.0.0.1:8000",
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rag_local_store_mode": "embedded", "rag_local_server_uri": None},
        {"rag_local_server_uri": "https://kb.example/"},
    ],
)
def test_stores_may_be_on_servers(changes):
    config = SphinxRAGConfig.from_values({**HTTP, **changes})
    assert config.shared_store_mode == "http"


@pytest.mark.parametrize("key", ["rag_shared_store_uri", "rag_local_server_uri"])
@pytest.mark.parametrize(
    "value",
    [None, "https://kb.example/chroma", "https://kb.example/?k=v", "https://kb.example/#x"],
)
def test_a_server_is_named_by_scheme_host_and_port(key, value):
    (line,) = problems({**HTTP, key: value})
    assert line.startswith(f"{key}: expected http://host:port or https://host:port in http mode")


@pytest.mark.parametrize("address", ["https://kb.example:443", "https://KB.example"])
def test_two_scopes_never_share_a_database_of_a_server(address):
    same = {**HTTP, "rag_local_server_uri": address, "rag_local_store_database": "doxtr_shared"}
    (line,) = problems(same)
    assert line.startswith("rag_local_store_database: expected a database other than")
    apart = {**same, "rag_local_store_database": "doxtr_private"}
    assert SphinxRAGConfig.from_values(apart).local_store_database == "doxtr_private"


@pytest.mark.parametrize(
    "values",
    [
        {"rag_shared_port": 8788},
        {"rag_private_port": 9000, "rag_embed_port": 9000},
    ],
)
def test_ports_are_distinct(values):
    (line,) = problems(values)
    assert "expected a port other than that of rag_" in line


def test_no_character_cap_allows_any_overlap():
    config = SphinxRAGConfig.from_values(
        {"rag_max_chunk_chars": 0, "rag_chunk_overlap_chars": 9999}
    )
    assert (config.max_chunk_chars, config.chunk_overlap_chars) == (0, 9999)


def test_mounts_are_private_unless_they_say_otherwise():
    config = SphinxRAGConfig.from_values(
        {
            "rag_external_mounts": [
                {"path": "../drive"},
                {"path": "/srv/x", "scope": "SHARED_ORG", "name": "X", "include": ["*.pdf"]},
            ]
        }
    )
    assert config.external_mounts == (
        Mount("../drive"),
        Mount("/srv/x", Scope.SHARED_ORG, "X", ("*.pdf",)),
    )
    assert config.external_mounts[0].scope is Scope.LOCAL_PRIVATE


def test_every_problem_of_a_mount_is_named():
    mounts = [{"scope": "PUBLIC"}, {"path": "a", "exlude": []}, "b", {"path": "a", "name": "!"}]
    lines = problems({"rag_external_mounts": mounts})
    assert [line.partition(":")[0] for line in lines] == [
        "rag_external_mounts[0]",
        "rag_external_mounts[0]['scope']",
        "rag_external_mounts[1]['exlude']",
        "rag_external_mounts[2]",
        "rag_external_mounts[3]['name']",
    ]
    assert lines[2].endswith("unknown, did you mean exclude?")


@pytest.mark.parametrize("field", ["path", "name"])
def test_mounts_do_not_share(field):
    first = {"path": "a", "name": "A"}
    (line,) = problems(
        {"rag_external_mounts": [first, {"path": "b", "name": "B", field: first[field]}]}
    )
    assert line.startswith(f"rag_external_mounts[1]['{field}']: expected a value that no other")


def test_lists_become_tuples():
    config = SphinxRAGConfig.from_values({"rag_builders": ["html"], "rag_source_roots": []})
    assert (config.builders, config.source_roots) == (("html",), ())


def test_environment_overrides_and_is_blamed():
    environ = {"DOXTR_RAG_MAX_CHUNK_CHARS": "900", "DOXTR_RAG_SHARED_PORT": "9001"}
    config = SphinxRAGConfig.from_values({"rag_shared_port": 1}, read_environment(environ))
    assert (config.max_chunk_chars, config.shared_port) == (900, 9001)
    assert problems({}, {"DOXTR_RAG_SHARED_PORT": "x", "DOXTR_RAG_NO_VAULT": "maybe"}) == [
        "DOXTR_RAG_NO_VAULT: expected one of 1, 0, true, false, yes, no, on, off (got 'maybe')",
        "DOXTR_RAG_SHARED_PORT: expected a port from 1 to 65535 (got 'x')",
    ]
    assert problems({}, {"DOXTR_RAG_CHUNK_OVERLAP_CHARS": "5000"}) == [
        "DOXTR_RAG_CHUNK_OVERLAP_CHARS: expected less than rag_max_chunk_chars, which is 2000 "
        "(got 5000)"
    ]


def test_derived_names_are_no_keys():
    assert not {"rag_embedding_model", "rag_embedding_dimension"} & set(keys())
    assert "rag_embedding_model: unknown" in problems({"rag_embedding_model": "x"})[0]
