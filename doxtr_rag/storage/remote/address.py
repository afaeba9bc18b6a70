"""Where a Chroma server is, and with which headers it is asked."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

from doxtr_rag.core.errors import ConfigError

DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """One collection on one Chroma server."""

    host: str
    port: int
    ssl: bool
    tenant: str
    database: str
    collection: str

    @classmethod
    def of_uri(cls, uri: str, *, tenant: str, database: str, collection: str) -> RemoteAddress:
        """Return the address of a collection on the server that a URI names.

        Raises:
            ConfigError: the URI is more or less than scheme, host and port.
        """
        try:
            parts = urlsplit(uri)
            port = parts.port
        except ValueError as error:
            raise ConfigError(f"{uri}: not an address of a Chroma server ({error})") from error
        is_bare = not (parts.query or parts.fragment or "@" in parts.netloc)
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname or not is_bare:
            raise ConfigError("a Chroma server is named as http://host:port or https://host:port")
        if parts.path not in ("", "/"):
            raise ConfigError(
                f"{parts.hostname}: a Chroma server below a path ({parts.path}) cannot be asked: "
                "give it a host name or a port of its own"
            )
        return cls(
            host=parts.hostname,
            port=port or DEFAULT_PORTS[parts.scheme],
            ssl=parts.scheme == "https",
            tenant=tenant,
            database=database,
            collection=collection,
        )

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.ssl else 'http'}://{host}:{self.port}"

    @property
    def tenant_path(self) -> str:
        """The path of the tenant in the REST interface."""
        return f"/api/v2/tenants/{quote(self.tenant, safe='')}"

    @property
    def database_path(self) -> str:
        """The path of the database in the REST interface."""
        return f"{self.tenant_path}/databases/{quote(self.database, safe='')}"

    @property
    def is_loopback(self) -> bool:
        """Say whether the server is on this machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    def shares_server_with(self, other: RemoteAddress) -> bool:
        """Say whether one server answers at both addresses, so that nothing isolates them there."""
        return (self.host.lower(), self.port) == (other.host.lower(), other.port)

    def __str__(self) -> str:
        return f"{self.origin} ({self.tenant}/{self.database}/{self.collection})"


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """What a server wants to see: headers, whose values are secret, and whom TLS trusts.

    `variable` is the name of the environment variable that the headers came from. Without a
    `ca_bundle` the certificates of the system count.
    """

    variable: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_bundle: Path | None = None

    def require_private_transport(self, address: RemoteAddress) -> None:
        """Refuse to send secrets where everybody on the way can read them.

        Raises:
            ConfigError: there are headers, and neither TLS nor loopback.
        """
        if self.headers and not (address.ssl or address.is_loopback):
            raise ConfigError(
                f"{address.origin}: the headers of {self.variable} are not sent without TLS: use "
                "an https address for the store"
            )
