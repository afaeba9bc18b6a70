"""Chroma servers that a project names, and who may be told anything."""

from dataclasses import replace

import pytest

from doxtr_rag import bootstrap
from doxtr_rag.bootstrap.remotes import is_one_server, remote_access, remote_address
from doxtr_rag.config.environment import read_environment
from doxtr_rag.core.errors import StoreAccessError
from doxtr_rag.core.scope import Scope


def project(tmp_path, uri, *, is_foreign=False, **environment):
    (tmp_path / "pyproject.toml").touch()
    conf = tmp_path / "docs"
    conf.mkdir()
    (conf / "conf.py").write_text("project = 'Demo'\n")
    found = bootstrap.find_project(conf)
    settings = replace(found.settings, shared_server_uri=uri, is_foreign=is_foreign)
    return replace(found, settings=settings, environment=read_environment(environment))


def test_a_server_that_conf_names_is_asked_with_the_headers_of_its_variable(tmp_path):
    value = "b" * 20
    found = project(tmp_path, "https://kb.invalid", DOXTR_RAG_SHARED_STORE_HEADERS=f"X-Key={value}")
    address = remote_address(found, Scope.SHARED_ORG)
    assert (address.host, address.port, address.ssl) == ("kb.invalid", 443, True)
    assert dict(remote_access(found, Scope.SHARED_ORG).headers) == {"X-Key": value}
    assert remote_address(found, Scope.LOCAL_PRIVATE) is None
    assert not is_one_server(found)


def test_a_server_in_a_folder_from_elsewhere_is_told_nothing(tmp_path):
    found = project(tmp_path, "https://kb.invalid", is_foreign=True)
    with pytest.raises(StoreAccessError, match=r"kb.invalid.*told nothing.*sphinx-build here"):
        remote_address(found, Scope.SHARED_ORG)


def test_a_server_on_this_machine_may_be_asked_from_a_copy(tmp_path):
    found = project(tmp_path, "http://127.0.0.1:8000", is_foreign=True)
    assert remote_address(found, Scope.SHARED_ORG).is_loopback
