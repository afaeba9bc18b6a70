"""Where a resolved reference leads: to a document of the same build, or outside."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from urllib.parse import unquote, urljoin, urlsplit


class InternalLinks:
    """Maps the URIs that one page refers to back to `document#anchor`.

    `target_uris` holds the URI of every document, relative to the root of the site, as a builder
    names them (`a/b.html`, `a/b/`).
    """

    def __init__(self, target_uris: Mapping[str, str], docname: str) -> None:
        self._documents = {_path(uri): name for name, uri in sorted(target_uris.items())}
        self._uris = target_uris
        self._turn_to(docname)

    def of(self, docname: str) -> InternalLinks:
        """Return the same for another page of the site."""
        other = copy(self)
        other._turn_to(docname)
        return other

    def _turn_to(self, docname: str) -> None:
        self._page = "/" + self._uris.get(docname, "")
        self._docname = docname

    def __call__(self, refuri: str) -> str | None:
        """Return `document#anchor`; None for a URI that is no document of this build."""
        try:
            parts = urlsplit(refuri)
        except ValueError:
            return None
        if parts.scheme or parts.netloc or parts.path.startswith("/"):
            return None
        document: str | None = self._docname
        if parts.path:
            document = self._documents.get(_path(urljoin(self._page, parts.path)))
        return None if document is None else f"{document}#{unquote(parts.fragment)}"


def _path(uri: str) -> str:
    return unquote(uri).lstrip("/")
