"""The addresses of a knowledge base: published by whoever serves it, and by builds meanwhile."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from doxtr_rag.bootstrap.project import STORE_NAMES, Project
from doxtr_rag.bootstrap.remotes import remote_access, remote_address
from doxtr_rag.core.errors import DoxtrRagError
from doxtr_rag.core.scope import Scope
from doxtr_rag.servers.endpoints import (
    FILE_NAME,
    LOOPBACK,
    TOKEN_NAME,
    Endpoints,
    StoreTarget,
    is_published,
    publish,
    read_endpoints,
)
from doxtr_rag.storage import StoreLock, lock_holder, summary

LOCK_FILE = "server.lock"


def endpoints_of(project: Project, last: Endpoints | None) -> Endpoints:
    """Return the addresses of a knowledge base while no server runs, on the ports it last had.

    Raises:
        IndexNotBuiltError: no build has filled it.
    """
    settings, profile = project.settings, project.profile
    return Endpoints(
        kb_id=kb_id_of(project),
        project=settings.project,
        model=profile.name,
        dimension=profile.dimension,
        fingerprint=profile.fingerprint,
        stores={name: _target(project, scope, last) for scope, name in STORE_NAMES.items()},
    )


def _target(project: Project, scope: Scope, last: Endpoints | None) -> StoreTarget:
    settings, remote = project.settings, remote_address(project, scope)
    if remote is not None:
        headers = tuple(remote_access(project, scope).headers)
        place = (remote.host, remote.port, remote.ssl)
        return StoreTarget(
            "http", *place, remote.tenant, remote.database, remote.collection, headers
        )
    before = last.stores[STORE_NAMES[scope]] if last else None
    return StoreTarget(
        mode="embedded",
        host=LOOPBACK,
        port=before.port if before and before.is_embedded else settings.port(scope),
        ssl=False,
        tenant=settings.store_tenant,
        database=settings.database(scope),
        collection=project.profile.collection,
    )


def published(project: Project) -> Endpoints | None:
    """Return what was published last, unless it is unusable."""
    try:
        return read_endpoints(project.settings.state_dir)
    except DoxtrRagError:
        return None


def kb_id_of(project: Project) -> str:
    """Return what tells this knowledge base from every other, a copy of its folder included.

    Raises:
        IndexNotBuiltError: no build has filled it.
        StoreError: it cannot be read.
    """
    store_id = summary(project.settings.store_path(Scope.LOCAL_PRIVATE)).store_id
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{store_id} {project.settings.root.resolve()}"))


def publish_endpoints(project: Project) -> None:
    """Write where the knowledge base is asked, when no server is there to do it.

    Raises:
        IndexNotBuiltError: no build has filled it.
        StoreUnavailableError: the folder cannot be written.
    """
    state_dir = project.settings.state_dir
    is_served = lock_holder(state_dir, LOCK_FILE) is not None
    if not is_served and not is_published(state_dir, endpoints_of(project, None)):
        publish(state_dir, endpoints_of(project, published(project)), None)


@dataclass(eq=False)
class Publication:
    """What a running server published, put back when somebody removed or changed it.

    `lock` is the server's, held: only its holder may publish.
    """

    state_dir: Path
    endpoints: Endpoints
    token: str
    lock: StoreLock
    _seen: object = None

    def put(self) -> None:
        """Publish.

        Raises:
            StoreUnavailableError: the folder cannot be written.
        """
        publish(self.state_dir, self.endpoints, self.token)
        self._seen = self._stamp()

    def keep(self) -> bool:
        """Put back what was changed; False once the folder is gone, or another server's.

        Where it cannot be written, the next call tries again.
        """
        if not self.lock.is_in_place():
            return False
        if self._seen != self._stamp():
            with suppress(DoxtrRagError):
                self.put()
        return True

    def withdraw(self) -> None:
        """Say that no server runs, unless another one may."""
        if self.lock.is_in_place():
            with suppress(DoxtrRagError):  # the folder may be full
                publish(self.state_dir, self.endpoints.stopped(), None)

    def _stamp(self) -> object:
        return tuple(map(_stamp_of, (self.state_dir / FILE_NAME, self.state_dir / TOKEN_NAME)))


def _stamp_of(path: Path) -> object:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size
