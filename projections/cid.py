"""Content identifiers: what a fact says, hashed (the protocol's CID v1).

The body is canonical JSON over seven keys; a number's text is ``repr(float(v))``, so the
integer and float forms of one number share a CID and survive a round trip.
"""

from __future__ import annotations

import hashlib
import json
import re

from eventlog.kinds import Value

_ENCODE = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
).encode
_HASH = re.compile(r"^(?:sha256:)?([0-9a-f]{64})$")


def compute_cid(
    *, entity: str, relation: str, value: Value, source: str, confidence: float, scope: str
) -> str:
    """``sha256:<64 hex>`` of a fact's body; entity and source in stored form."""
    body = {
        "confidence": float(confidence),
        "entity": entity,
        "relation": relation,
        "scope": scope,
        "source": source,
        "value_type": value.type,
        "value_v": value.v,
    }
    return "sha256:" + hashlib.sha256(_ENCODE(body).encode()).hexdigest()


def parse_fact_hash(text: str) -> str:
    """The 64 hex digits of a FactHash, with or without ``sha256:``. Raises ValueError."""
    match = _HASH.match(text)
    if match is None:
        raise ValueError("a fact hash is 64 lower-case hex digits, with or without 'sha256:'")
    return match[1]
