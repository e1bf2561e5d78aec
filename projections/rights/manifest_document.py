"""A manifest's document: reading, signing and checking it. Pure.

The signed bytes are canonical JSON (keys sorted, no spaces, UTF-8 unescaped) of the protocol's
fields as sent, without ``signature``. A rotation event is signed likewise, by the key that it
retires.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from engramlog.projections.moment import DAY_US, parse_instant
from engramlog.projections.rights.capability_token import from_url_text, signs

FIELDS = (
    "entity_uri", "key_id", "public_key", "issued_at", "expires_at", "entities",
    "rotation_events", "signature",
)  # fmt: skip
ROTATION_FIELDS = (
    "previous_key_id", "new_key_id", "new_public_key", "previous_public_key", "rotated_at",
    "signature",
)  # fmt: skip
LIFETIME_US_MAX = 730 * DAY_US
AHEAD_US_MAX = 300_000_000
ROTATIONS_MAX = 100
KEY_BYTES = 32


class OrgManifest(Struct, frozen=True):
    """A manifest after reading. Times in microseconds; ``document`` as sent."""

    entity_uri: str
    key_id: str
    public_key: str
    issued_at_us: int
    expires_at_us: int
    entities: tuple[str, ...]
    rotations: tuple[dict[str, Any], ...]
    document: dict[str, Any]


def canonical(document: Mapping[str, Any]) -> bytes:
    """The signed bytes of a document."""
    unsigned = {name: value for name, value in document.items() if name != "signature"}
    text = json.dumps(unsigned, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def read_manifest(body: Mapping[str, Any]) -> OrgManifest:
    """The manifest in a request's body with checked types; other fields are left out. Raises
    ValueError: an impossible value; the message begins with the field's name."""
    document = {name: body[name] for name in FIELDS if body.get(name) is not None}
    rotations = tuple(
        {name: event[name] for name in ROTATION_FIELDS if event.get(name) is not None}
        for event in body.get("rotation_events") or ()
    )
    if len(rotations) > ROTATIONS_MAX:
        raise ValueError(f"rotation_events: at most {ROTATIONS_MAX}")
    if "rotation_events" in document:
        document["rotation_events"] = list(rotations)
    _key("public_key", document["public_key"])
    for event in rotations:
        _key("rotation_events", str(event["new_public_key"]))
    return OrgManifest(
        document["entity_uri"],
        document["key_id"],
        document["public_key"],
        _instant("issued_at", document["issued_at"]),
        _instant("expires_at", document["expires_at"]),
        tuple(document.get("entities", ())),
        rotations,
        document,
    )


def manifest_fault(manifest: OrgManifest, now_us: int) -> str | None:
    """Why a manifest is refused now, beginning with the field's name; None if it is accepted."""
    if manifest.issued_at_us > now_us + AHEAD_US_MAX:
        return "issued_at: in the future"
    if manifest.expires_at_us <= manifest.issued_at_us:
        return "expires_at: must lie behind issued_at"
    if manifest.expires_at_us - manifest.issued_at_us > LIFETIME_US_MAX:
        return "expires_at: a manifest holds for at most 730 days"
    if manifest.expires_at_us <= now_us:
        return "expires_at: the manifest has expired"
    if not signed(manifest.public_key, manifest.document):
        return "signature: does not hold under public_key"
    return None


def rotation_fault(
    key_id: str, public_key: str, wanted: tuple[str, str], rotations: Sequence[Mapping[str, Any]]
) -> str | None:
    """Why ``rotations`` do not lead from one key to another; None if they do. ``wanted``: id and
    key at the end."""
    by_previous = {str(event["previous_key_id"]): event for event in rotations}
    if len(by_previous) != len(rotations):
        return "the rotation events retire one key twice"
    here, key = key_id, public_key
    for _ in range(len(rotations)):
        if (here, key) == wanted:
            return None
        event = by_previous.get(here)
        if event is None:
            return f"no rotation event retires the key {here!r}"
        if event.get("previous_public_key", key) != key:
            return f"a rotation event retires another key under the id {here!r}"
        if not signed(key, event):
            return f"the rotation event of {here!r} is not signed by the key it retires"
        here, key = str(event["new_key_id"]), str(event["new_public_key"])
    return None if (here, key) == wanted else f"the rotation events lead to {here!r}, not here"


def signed(public_key: str, document: Mapping[str, Any]) -> bool:
    """Whether the key (base64url) signed the document."""
    return signs(public_key, str(document.get("signature", "")), canonical(document))


def _key(name: str, text: str) -> None:
    try:
        size = len(from_url_text(text))
    except ValueError:
        size = -1
    if size != KEY_BYTES:
        raise ValueError(f"{name}: must be an Ed25519 key, {KEY_BYTES} bytes in base64url")


def _instant(name: str, text: str) -> int:
    try:
        return parse_instant(text)
    except ValueError as fault:
        raise ValueError(f"{name}: {fault}") from fault
