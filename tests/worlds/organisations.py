"""Organisations with signed manifests."""

from __future__ import annotations

import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from engramlog.projections.moment import format_instant
from engramlog.projections.rights.capability_token import to_url_text

ORG = "stigmem://acme.example/org"

ANN = "stigmem://acme.example/agent/ann"

NOW_US = 1_767_225_600_000_000

DAY_US = 86_400_000_000


class Org:
    """An organisation with a key; it signs its documents by hand here."""

    def __init__(self, key_id: str = "key-1") -> None:
        self.key_id = key_id
        self.secret = Ed25519PrivateKey.generate()
        raw = self.secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public_key = to_url_text(raw)

    def sign(self, document: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return {**document, "signature": to_url_text(self.secret.sign(text.encode()))}

    def manifest(self, **change: Any) -> dict[str, Any]:
        document = {
            "entity_uri": ORG,
            "key_id": self.key_id,
            "public_key": self.public_key,
            "issued_at": format_instant(NOW_US),
            "expires_at": format_instant(NOW_US + 30 * DAY_US),
            "entities": [ANN, "stigmem://acme.example/agent/jürgen"],
            "rotation_events": [],
            **change,
        }
        return self.sign({name: value for name, value in document.items() if value is not None})

    def retired_for(self, other: Org, **change: Any) -> dict[str, Any]:
        event = {
            "previous_key_id": self.key_id,
            "new_key_id": other.key_id,
            "new_public_key": other.public_key,
            "rotated_at": format_instant(NOW_US),
            **change,
        }
        return self.sign(event)
