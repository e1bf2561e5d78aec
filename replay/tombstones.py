"""Signed tombstones and revocations, as the protocol carries them (wire 5.5).

A record is signed over its canonical JSON (sorted keys, no spaces, UTF-8) without
``signature`` and ``reason``: a reason may be struck out later, and the record still holds.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

from eventlog.identity import Identity, signed_by
from projections.capabilities.token import from_url_text, to_url_text
from replay.federation.declaration import fingerprint, stored_key, wire_key

_UNSIGNED = frozenset({"signature", "reason"})


def new_tombstone_id() -> str:
    return f"tomb_{uuid4()}"


def new_revocation_id() -> str:
    return f"rev_{uuid4()}"


def key_id_of(identity: Identity) -> str:
    """What names a node's signing key in its records."""
    return fingerprint(wire_key(identity.public_key_b64))


def signed_bytes(record: dict[str, Any]) -> bytes:
    """What a record's signature is made over."""
    body = {name: value for name, value in record.items() if name not in _UNSIGNED}
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def signature_of(identity: Identity, record: dict[str, Any]) -> str:
    """The node's signature of a record: base64url without padding."""
    return to_url_text(identity.sign(signed_bytes(record)))


def holds(public_key: str, record: dict[str, Any]) -> bool:
    """Whether the key (base64url, as peers declare it) signed the record."""
    try:
        signature = from_url_text(str(record.get("signature", "")))
        return signed_by(stored_key(public_key), signature, signed_bytes(record))
    except ValueError:
        return False
