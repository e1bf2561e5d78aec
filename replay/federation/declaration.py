"""A node's declaration that it asks to be a peer, signed with its federation key (wire 3.1)."""

import base64
import hashlib
import json
from datetime import UTC, datetime
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import asdict, replace

from engramlog.eventlog.identity import Identity, signed_by
from engramlog.projections.normalization import SCOPES
from engramlog.projections.rights.capability_token import from_url_text, to_url_text

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
    signed = asdict(replace(declaration, allowed_scopes=sorted(declaration.allowed_scopes)))
    del signed["declaration_sig"]
    return json.dumps(signed, sort_keys=True, separators=(",", ":")).encode()


def declare(identity: Identity, node_url: str, scopes: list[str], now_us: int) -> Declaration:
    signed_at = datetime.fromtimestamp(now_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    unsigned = Declaration(
        identity.node_id, node_url, wire_key(identity.public_key_b64), sorted(scopes), signed_at, ""
    )
    signature = to_url_text(identity.sign(signed_text(unsigned)))
    return replace(unsigned, declaration_sig=signature)


def declaration_fault(declaration: Declaration, *, insecure: bool = False) -> str | None:
    """Why a declaration is refused; None if it is accepted. ``insecure``: whether plain ``http``
    and private addresses are allowed."""
    address = _address_fault(declaration.node_url, insecure=insecure)
    if address is not None:
        return address
    unknown = sorted(set(declaration.allowed_scopes) - set(SCOPES))
    if unknown or not declaration.allowed_scopes:
        return f"allowed_scopes must be some of {sorted(SCOPES)}"
    try:
        signature = from_url_text(declaration.declaration_sig)
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
    return to_url_text(base64.b64decode(public_key_b64))


def stored_key(federation_pubkey: str) -> str:
    """The protocol's key text as ours. Raises ValueError."""
    return base64.b64encode(from_url_text(federation_pubkey)).decode()
