import dataclasses as dc
import json

import pytest

from doxtr_rag.config.environment import Environment, read_environment
from doxtr_rag.config.schema import SphinxRAGConfig
from doxtr_rag.config.settings import ProjectSettings, resolve
from doxtr_rag.core.errors import ConfigError
from doxtr_rag.core.profiles import EmbeddingProfile, Pooling, WeightsOrigin
from doxtr_rag.core.scope import Scope


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "project"
    (folder / "docs" / "source").mkdir(parents=True)
    (folder / ".git").write_text("gitdir: elsewhere")
    return folder


def resolved(conf_dir, values=None, **facts):
    known = {"sphinx_project": "My Guide", "language": None, "html_baseurl": ""}
    config = SphinxRAGConfig.from_values(values or {})
    return resolve(config, conf_dir=conf_dir, source_dir=conf_dir, **(known | facts))


@pytest.mark.parametrize(
    ("mark", "conf", "expected"),
    [
        pytest.param(".git/", "docs/source", ".", id="above-conf-py"),
        pytest.param("pyproject.toml", "docs", ".", id="pyproject"),
        pytest.param("docs/.hg/", "docs/source", "docs", id="nearest-mark-wins"),
        pytest.param("docs/source/pyproject.toml", "docs/source", "docs/source", id="beside-conf"),
        pytest.param(None, "docs/source", "docs", id="parent-of-source"),
        pytest.param(None, "docs", "docs", id="folder-of-conf-py"),
    ],
)
def test_project_root(tmp_path, mark, conf, expected):
    (tmp_path / conf).mkdir(parents=True)
    if mark and mark.endswith("/"):
        (tmp_path / mark).mkdir(parents=True)
    elif mark:
        (tmp_path / mark).touch()
    assert resolved(tmp_path / conf).root == tmp_path / expected


def test_declared_root_is_relative_to_conf_py(root):
    assert resolved(root / "docs/source", {"rag_root": ".."}).root == root / "docs"
    with pytest.raises(ConfigError, match="rag_root: expected an existing folder"):
        resolved(root / "docs/source", {"rag_root": "nowhere"})


def test_paths_are_below_the_root(root):
    settings = resolved(root / "docs/source")
    assert settings.shared_store_path == root / ".doxtr/shared"
    assert settings.local_store_path == root / ".doxtr/chroma"
    assert settings.cache_db == root / ".doxtr/cache.db"
    assert settings.audit_log_path == root / ".doxtr/security_audit.jsonl"
    assert settings.state_dir == root / ".doxtr"
    assert settings.store_path(Scope.SHARED_ORG) == settings.shared_store_path
    assert settings.store_path(Scope.LOCAL_PRIVATE) == settings.local_store_path
    shared = root.parent / "drive"
    values = {"rag_shared_store_uri": str(shared), "rag_local_store_path": "../private"}
    settings = resolved(root / "docs/source", values)
    assert settings.shared_store_path == shared
    assert settings.local_store_path == root.parent / "private"


@pytest.mark.parametrize(
    ("conf", "values", "roots", "is_undeclared"),
    [
        pytest.param("docs/source", {}, ["docs/source"], False, id="folder-named-source"),
        pytest.param("docs", {}, [], True, id="other-name-shares-nothing"),
        pytest.param("docs", {"rag_source_roots": []}, [], False, id="nothing-by-intent"),
        pytest.param("docs", {"rag_source_roots": ["."]}, ["."], False, id="whole-project"),
        pytest.param(
            "docs", {"rag_source_roots": ["docs", "docs/"]}, ["docs"], False, id="declared"
        ),
    ],
)
def test_source_roots(root, conf, values, roots, is_undeclared):
    settings = resolved(root / conf, values)
    assert settings.source_roots == tuple(root / folder for folder in roots)
    assert settings.sharing_undeclared == is_undeclared


def test_source_folder_that_is_a_link_out_of_the_project_shares_nothing(root):
    (root / "docs/source").rmdir()
    (root.parent / "outside").mkdir()
    (root / "docs/source").symlink_to(root.parent / "outside")
    config = SphinxRAGConfig()
    settings = resolve(
        config,
        conf_dir=root / "docs",
        source_dir=root / "docs/source",
        sphinx_project="x",
        language=None,
        html_baseurl="",
    )
    assert (settings.source_roots, settings.sharing_undeclared) == ((), True)


@pytest.mark.parametrize("folder", ["missing", "..", "/"])
def test_source_root_must_exist_in_the_project(root, folder):
    with pytest.raises(ConfigError, match="rag_source_roots: expected folders that exist"):
        resolved(root / "docs", {"rag_source_roots": [folder]})


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"rag_shared_store_uri": ".doxtr/chroma"}, "rag_local_store_path"),
        ({"rag_shared_store_uri": ".doxtr/./x/../Chroma/"}, "rag_local_store_path"),
        ({"rag_shared_store_uri": ".doxtr/chroma/shared"}, "rag_local_store_path"),
        ({"rag_shared_store_uri": ".doxtr"}, "rag_local_store_path"),
        ({"rag_local_store_path": "link/chroma"}, "rag_local_store_path"),
        ({"rag_local_store_path": "."}, "rag_local_store_path"),
        ({"rag_shared_store_uri": "docs"}, "rag_shared_store_uri"),
        ({"rag_cache_db": ".doxtr/shared/cache.db"}, "rag_cache_db"),
        ({"rag_audit_log_path": ".doxtr/shared/audit.jsonl"}, "rag_audit_log_path"),
    ],
)
def test_stores_lie_apart(root, values, key):
    (root / "link").symlink_to(root / ".doxtr/shared")
    with pytest.raises(ConfigError, match=key):
        resolved(root / "docs/source", values)


@pytest.mark.parametrize(
    ("values", "language", "expected"),
    [
        ({}, None, "my-guide"),
        ({}, "de", "my-guide.de"),
        ({"rag_project": "Other"}, "de", "other.de"),
    ],
)
def test_project_is_a_namespace(root, values, language, expected):
    assert resolved(root / "docs", values, language=language).project == expected


def profile(**fields):
    known = EmbeddingProfile(
        "m", "m", "1", 8, Pooling.CLS, 512, 350, 512, 0, WeightsOrigin.FOLDER, "/m"
    )
    return dc.replace(known, **fields)


@pytest.mark.parametrize(
    ("cap", "fields", "expected"),
    [
        pytest.param(None, {}, (350, 512), id="profile-decides"),
        pytest.param(128, {}, (128, 128), id="smaller-cap-lowers-the-target"),
        pytest.param(9999, {"max_tokens": 600}, (350, 600), id="never-more-than-the-model-reads"),
    ],
)
def test_chunk_limits(root, cap, fields, expected):
    limits = resolved(root / "docs", {"rag_max_chunk_tokens": cap}).chunk_limits(profile(**fields))
    assert (limits.target_tokens, limits.cap_tokens) == expected
    assert (limits.max_chars, limits.overlap_chars) == (2000, 300)


MANY = {
    "rag_external_mounts": [{"path": "../drive", "scope": "SHARED_ORG", "include": ["*.md"]}],
    "rag_shared_store_uri": "/srv/shared",
    "rag_source_roots": ["docs"],
    "rag_max_chunk_tokens": 64,
    "rag_private_paths": ["Geheim"],
}


def test_settings_survive_json(root):
    settings = resolved(root / "docs", MANY, language="de", html_baseurl="https://d.example/")
    assert ProjectSettings.from_json(settings.to_json(), root=root) == settings


def test_settings_follow_a_moved_project(root, tmp_path):
    text = resolved(root / "docs", MANY).to_json()
    moved = ProjectSettings.from_json(text, root=tmp_path / "moved")
    assert moved.source_roots == (tmp_path / "moved/docs",)
    assert moved.local_store_path == tmp_path / "moved/.doxtr/chroma"
    assert str(root) not in text


def test_address_of_pages_is_kept_without_credentials(root):
    settings = resolved(root / "docs", html_baseurl="https://me:pass-word@d.example/x")
    assert settings.html_baseurl == "https://d.example/x"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda fields: fields | {"version": 99}, id="other-version"),
        pytest.param(lambda fields: fields | {"extra": 1}, id="unknown-field"),
        pytest.param(lambda fields: {"version": 1}, id="missing-fields"),
        pytest.param(lambda fields: fields | {"mounts": [{}]}, id="damaged-mount"),
        pytest.param(lambda fields: fields | {"conf_dir": 5}, id="wrong-type"),
        pytest.param(lambda fields: [1], id="no-object"),
    ],
)
def test_damaged_settings_ask_for_a_build(root, change):
    text = json.dumps(change(json.loads(resolved(root / "docs").to_json())))
    with pytest.raises(ConfigError, match="build the documentation again"):
        ProjectSettings.from_json(text, root=root)


def test_environment_overrides_saved_settings(root):
    settings = resolved(root / "docs")
    environ = {"DOXTR_RAG_EMBED_PORT": "9999"}
    assert settings.overridden(read_environment(environ)).embed_port == 9999
    assert settings.overridden(Environment()) == settings
    with pytest.raises(ConfigError, match="DOXTR_RAG_EMBED_PORT: expected a port other"):
        settings.overridden(read_environment({"DOXTR_RAG_EMBED_PORT": "8787"}))
