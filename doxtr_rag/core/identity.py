"""Names that stay the same from build to build: of projects, documents and chunks."""

from __future__ import annotations

import re
import unicodedata

UNNAMED_PROJECT = "project"
NOT_WORD = re.compile(r"[\W_]+")


def slug(name: str) -> str:
    """Return a name as lower-case words joined by hyphens; "" when it has no letter or digit."""
    normal = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return NOT_WORD.sub("-", normal).strip("-")


def project_slug(name: str, language: str | None = None) -> str:
    """Return the namespace of a project in every store; one for each language.

    A slug holds no dot, so that `guide.de` is never the slug of another project's name.
    """
    project = slug(name) or UNNAMED_PROJECT
    suffix = slug(language or "")
    return f"{project}.{suffix}" if suffix else project


def mount_document(mount: str, relative_path: str) -> str:
    """Return the document id of a file in a mount: the mount's name and the path below it."""
    return f"{slug(mount)}/{relative_path.replace(chr(92), '/').lstrip('/')}"


def chunk_id(project: str, document: str, anchor: str, part: int = 1) -> str:
    """Return `<project>/<document>#<anchor>[~n]`; different inputs never give one id."""
    suffix = "" if part == 1 else f"~{part}"
    return f"{project}/{_reserve('#', document)}#{_reserve('~', anchor)}{suffix}"


def _reserve(separator: str, name: str) -> str:
    """Percent-encode a separator, and only as much else as keeps names apart."""
    code = f"{ord(separator):02X}"
    escaped = re.sub(f"%(?=(?:25)*{code})", "%25", name)
    return escaped.replace(separator, f"%{code}")
