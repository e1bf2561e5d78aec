"""Signed tombstones and revocations in the protocol's form (wire 5.5).

The signature covers a record's canonical JSON (sorted keys, no spaces, UTF-8) without ``signature``
and ``reason``: a reason may be deleted later, and the record stays valid.
"""

import json
from typing import Annotated, Any
from uuid import uuid4

import msgspec
from msgspec import Meta, Struct

from engramlog.eventlog.identity import Identity
from engramlog.eventlog.kinds import TombstoneRevoked, TombstoneSet
from engramlog.projections.moment import format_instant, parse_instant
from engramlog.projections.normalization import URI_LENGTH_MAX, normalize_uri
from engramlog.projections.rights.capability_token import signs, to_url_text
from engramlog.projections.tables.facts.tombstones import TOMBSTONE_SCOPES, hidden_scopes
from engramlog.replay.federation.declaration import fingerprint, wire_key

_UNSIGNED = frozenset({"signature", "reason"})


class WireTombstone(Struct, frozen=True):
    """A tombstone as peers exchange it (wire 5.5)."""

    id: Annotated[str, Meta(min_length=1, max_length=200)]
    entity_uri: Annotated[str, Meta(min_length=1, max_length=URI_LENGTH_MAX)]
    scope: str
    signed_by: Annotated[str, Meta(max_length=URI_LENGTH_MAX)]
    signature: Annotated[str, Meta(min_length=1, max_length=200)]
    created_at: Annotated[str, Meta(max_length=64)]
    key_id: Annotated[str, Meta(max_length=200)] = ""
    legal_hold: bool = False
    reason: Annotated[str, Meta(max_length=2048)] | None = None


class WireRevocation(Struct, frozen=True):
    """A revocation as peers exchange it."""

    id: Annotated[str, Meta(min_length=1, max_length=200)]
    tombstone_id: Annotated[str, Meta(min_length=1, max_length=200)]
    signed_by: Annotated[str, Meta(max_length=URI_LENGTH_MAX)]
    signature: Annotated[str, Meta(min_length=1, max_length=200)]
    created_at: Annotated[str, Meta(max_length=64)]
    reason: Annotated[str, Meta(max_length=2048)] = ""
    key_id: Annotated[str, Meta(max_length=200)] = ""


class NotTaken(Exception):
    """A peer's record has no effect here; ``code`` gives the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class TombstoneBounds(Struct, frozen=True):
    """The allowed effect of a peer's records here: its node id and key (base64url), the scopes
    shared with it, and whether it may hide facts of others."""

    node_id: str
    public_key: str
    scopes: frozenset[str]
    granted: bool


def command_of(record: dict[str, Any], bounds: TombstoneBounds) -> TombstoneSet | TombstoneRevoked:
    """The command for a peer's record, limited to its grants. Raises NotTaken
    ``tombstone_malformed``, ``tombstone_signature_invalid``, ``tombstone_not_granted`` or
    ``tombstone_invalid_scope``."""
    shape = WireRevocation if "tombstone_id" in record else WireTombstone
    try:
        signed = msgspec.convert(record, shape)
        parse_instant(signed.created_at)
    except (msgspec.ValidationError, ValueError) as fault:
        raise NotTaken("tombstone_malformed", str(fault)) from fault
    if not holds(bounds.public_key, record):
        raise NotTaken("tombstone_signature_invalid", "the peer's key did not sign this record")
    if not bounds.granted:
        message = "erase_foreign is not granted: a tombstone hides what others said as well"
        raise NotTaken("tombstone_not_granted", message)
    fields = msgspec.structs.asdict(signed)
    name = fields.pop("id")
    if isinstance(signed, WireTombstone):
        place = _place(signed, bounds)
        return TombstoneSet(tombstone_id=name, node_id=bounds.node_id, **place, **fields)
    return TombstoneRevoked(revocation_id=name, node_id=bounds.node_id, **fields)


def _place(signed: WireTombstone, bounds: TombstoneBounds) -> dict[str, Any]:
    """The entity in stored form, and the scopes that the tombstone may hide. Raises NotTaken."""
    meant = hidden_scopes(signed.scope) if signed.scope in TOMBSTONE_SCOPES else frozenset[str]()
    scopes = meant & bounds.scopes
    if not scopes:
        raise NotTaken("tombstone_invalid_scope", "it hides in no scope that is shared here")
    try:
        entity = normalize_uri(signed.entity_uri)
    except ValueError as fault:
        raise NotTaken("tombstone_malformed", str(fault)) from fault
    return {"entity": entity, "scopes": sorted(scopes)}


def own_tombstone(
    identity: Identity,
    now_us: int,
    *,
    entity: str,
    scope: str,
    signer: str,
    legal_hold: bool,
    reason: str | None,
) -> TombstoneSet:
    """A tombstone of this node, signed."""
    body: dict[str, Any] = {
        "entity_uri": entity,
        "scope": scope,
        "legal_hold": legal_hold,
        **_signing(identity, now_us, signer),
    }
    name = f"tomb_{uuid4()}"
    return TombstoneSet(
        tombstone_id=name,
        entity=entity,
        scopes=sorted(hidden_scopes(scope)),
        signature=signature_of(identity, {**body, "id": name}),
        reason=reason,
        **body,
    )


def own_revocation(
    identity: Identity, now_us: int, *, tombstone_id: str, signer: str, reason: str
) -> TombstoneRevoked:
    """A revocation by this node, signed."""
    body = {"tombstone_id": tombstone_id, **_signing(identity, now_us, signer)}
    name = f"rev_{uuid4()}"
    signature = signature_of(identity, {**body, "id": name})
    return TombstoneRevoked(revocation_id=name, reason=reason, signature=signature, **body)


def _signing(identity: Identity, now_us: int, signer: str) -> dict[str, str]:
    return {
        "signed_by": signer,
        "key_id": key_id_of(identity),
        "created_at": format_instant(now_us),
    }


def key_id_of(identity: Identity) -> str:
    """The name of a node's signing key in its records."""
    return fingerprint(wire_key(identity.public_key_b64))


def signed_bytes(record: dict[str, Any]) -> bytes:
    body = {name: value for name, value in record.items() if name not in _UNSIGNED}
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def signature_of(identity: Identity, record: dict[str, Any]) -> str:
    """The node's signature of a record: base64url without padding."""
    return to_url_text(identity.sign(signed_bytes(record)))


def holds(public_key: str, record: dict[str, Any]) -> bool:
    """Whether the key (base64url, as peers declare it) signed the record."""
    return signs(public_key, str(record.get("signature", "")), signed_bytes(record))
