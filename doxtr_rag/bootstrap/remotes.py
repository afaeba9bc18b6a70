"""Stores on Chroma servers: where a project has them, and what the servers want to see."""

from __future__ import annotations

from doxtr_rag.bootstrap.project import STORE_NAMES, Project
from doxtr_rag.core.errors import StoreAccessError
from doxtr_rag.core.scope import Scope
from doxtr_rag.storage import StoreReader, open_reader
from doxtr_rag.storage.remote import RemoteAccess, RemoteAddress, RemoteReader

HEADER_VARIABLES = {
    Scope.SHARED_ORG: "DOXTR_RAG_SHARED_STORE_HEADERS",
    Scope.LOCAL_PRIVATE: "DOXTR_RAG_LOCAL_STORE_HEADERS",
}

ONE_SERVER = (
    "both stores are on one Chroma server, which keeps no database from the other: the proxy "
    "before it has to, see docs/howto/remote-store"
)


def remote_address(project: Project, scope: Scope) -> RemoteAddress | None:
    """Return where the Chroma server of a store is; None when the store is embedded.

    Raises:
        ConfigError: the address is none.
        StoreAccessError: it was found in a folder that came from elsewhere.
    """
    settings, address = project.settings, _address(project, scope)
    if address is not None and settings.is_foreign and not address.is_loopback:
        raise StoreAccessError(
            f"{settings.state_dir} was written elsewhere and names {address.origin}, which is told "
            "nothing before you confirm it: run sphinx-build here, or name the conf.py with --conf"
        )
    return address


def _address(project: Project, scope: Scope) -> RemoteAddress | None:
    settings = project.settings
    uri = settings.server_uri(scope)
    if uri is None:
        return None
    return RemoteAddress.of_uri(
        uri,
        tenant=settings.store_tenant,
        database=settings.database(scope),
        collection=project.profile.collection,
    )


def remote_access(project: Project, scope: Scope) -> RemoteAccess:
    """Return with which headers the Chroma server of a store is asked."""
    environment = project.environment
    is_shared = scope is Scope.SHARED_ORG
    headers = environment.shared_store_headers if is_shared else environment.local_store_headers
    return RemoteAccess(HEADER_VARIABLES[scope], headers, environment.ca_bundle)


def remote_reader(project: Project, scope: Scope) -> RemoteReader | None:
    """Return what asks the Chroma server of a store; None when the store is embedded.

    Raises:
        ConfigError: the address is none.
        StoreAccessError: it is not to be asked.
    """
    address = remote_address(project, scope)
    if address is None:
        return None
    return RemoteReader(scope, STORE_NAMES[scope], address, remote_access(project, scope))


def searchable(project: Project, scope: Scope) -> StoreReader | RemoteReader:
    """Return what searches a store, where it lies.

    Raises:
        IndexNotBuiltError: nothing was ever stored there.
        StoreError: it cannot be read, or a server of that name is not to be asked.
    """
    folder = project.settings.store_path(scope)
    return remote_reader(project, scope) or open_reader(folder, scope, STORE_NAMES[scope])


def is_one_server(project: Project) -> bool:
    """Say whether both stores are on the same Chroma server."""
    shared, private = (_address(project, scope) for scope in Scope)
    return bool(shared and private and shared.shares_server_with(private))
