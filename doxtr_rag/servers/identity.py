"""How a server proves that it is the one that wrote the token, before it is told the token."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from doxtr_rag.core.contract import contract

TOKEN_BYTES = 32
NONCE = re.compile(r"[0-9a-f]{64}")


def make_token() -> str:
    """Return a secret for one run of a server, as 64 hexadecimal digits."""
    return secrets.token_hex(TOKEN_BYTES)


def make_nonce() -> str:
    """Return what a client asks a server to sign."""
    return secrets.token_hex(TOKEN_BYTES)


def proof(token: str, kb_id: str, port: int, nonce: str) -> str:
    """Return the HMAC-SHA256 that only a holder of the token can make for a port and a nonce."""
    message: str = contract("metadata")["identity"]["message"]
    signed = message.format(kb_id=kb_id, port=port, nonce=nonce)
    return hmac.new(token.encode(), signed.encode(), hashlib.sha256).hexdigest()


def same(left: str, right: str) -> bool:
    """Compare two secrets in a time that does not depend on where they differ."""
    return hmac.compare_digest(left.encode("utf-8", "replace"), right.encode("utf-8", "replace"))
