"""A node's declaration that it asks to be a peer, signed with its federation key (wire 3.1)."""

import base64
import hashlib
import json
from datetime import UTC, datetime
from urllib.parse import urlsplit

from msgspec import Struct

from engramlog.eventlog.identity import Identity, signed_by
from engramlog.projections.normalization import SCOPES

SHARED_SCOPES = ("company", "public")
"""Scopes that may leave a node by default."""


class Declaration(Struct, frozen=True):
    """Keys as on the wire; keys and signatures are base64url without padding."""

    node_id: str
    node_url: str
    federation_pubkey: str
    allowed_scopes: list[str]
    signed_at: str
    declaration_sig: str


def signed_text(declaration: Declaration) -> bytes:
    """The signed text: canonical JSON of everything except the signature, scopes sorted."""
    return json.dumps(
        {
            "allowed_scopes": sorted(declaration.allowed_scopes),
            "federation_pubkey": declaration.federation_pubkey,
            "node_id": declaration.node_id,
            "node_url": declaration.node_url,
            "signed_at": declaration.signed_at,
        },
        sort_keys=True,
        separators=(",", ":"),
    ).encode()


def declare(identity: Identity, node_url: str, scopes: list[str], now_us: int) -> Declaration:
    """This node's declaration."""
    signed_at = datetime.fromtimestamp(now_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    unsigned = Declaration(
        identity.node_id, node_url, wire_key(identity.public_key_b64), sorted(scopes), signed_at, ""
    )
    signature = base64.urlsafe_b64encode(identity.sign(signed_text(unsigned))).rstrip(b"=").decode()
    return Declaration(
        unsigned.node_id,
        unsigned.node_url,
        unsigned.federation_pubkey,
        unsigned.allowed_scopes,
        signed_at,
        signature,
    )


def declaration_fault(declaration: Declaration, *, insecure: bool = False) -> str | None:
    """Why a declaration is refused; None if it is accepted.

    Args:
        insecure: whether plain ``http`` and private addresses are allowed.
    """
    address = _address_fault(declaration.node_url, insecure=insecure)
    if address is not None:
        return address
    unknown = sorted(set(declaration.allowed_scopes) - set(SCOPES))
    if unknown or not declaration.allowed_scopes:
        return f"allowed_scopes must be some of {sorted(SCOPES)}"
    try:
        signature = unpadded(declaration.declaration_sig)
        key = stored_key(declaration.federation_pubkey)
        if not signed_by(key, signature, signed_text(declaration)):
            return "declaration_sig does not verify"
    except ValueError:
        return "federation_pubkey or declaration_sig is not base64url"
    return None


def _address_fault(url: str, *, insecure: bool) -> str | None:
    """Why a URL is not a node's address, which has a scheme, a host and perhaps a port."""
    try:
        parts = urlsplit(url)
        _, host = parts.port, parts.hostname
    except ValueError:
        return "node_url is no URL"
    if parts.scheme not in (("https", "http") if insecure else ("https",)):
        return "node_url must be https" if not insecure else "node_url must be http or https"
    plain = f"{parts.scheme}://{parts.netloc}"
    if not host or "@" in parts.netloc or not url.isprintable() or url.rstrip("/") != plain:
        return "node_url must be a scheme, a host and perhaps a port"
    return None


def fingerprint(federation_pubkey: str) -> str:
    """``sha256:`` and the hex digest of the key's text, for an operator to compare."""
    return "sha256:" + hashlib.sha256(federation_pubkey.encode()).hexdigest()


def wire_key(public_key_b64: str) -> str:
    """Our key text (base64) as the protocol writes it (base64url without padding)."""
    return base64.urlsafe_b64encode(base64.b64decode(public_key_b64)).rstrip(b"=").decode()


def stored_key(federation_pubkey: str) -> str:
    """The protocol's key text as ours. Raises ValueError."""
    return base64.b64encode(unpadded(federation_pubkey)).decode()


def unpadded(text: str) -> bytes:
    """Bytes of base64url without padding. Raises ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
