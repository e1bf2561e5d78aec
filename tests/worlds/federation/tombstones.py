"""Tombstones in a network of nodes without sockets: set, revoked, requested, and lied about."""

import random
from typing import Any

import msgspec

from engramlog.api.node.tasks.tombstone_sharing import shared_page
from engramlog.eventlog.kinds import TombstoneRevoked, TombstoneSet
from engramlog.projections.moment import format_instant
from engramlog.projections.tables.facts.tombstones import hidden_scopes, tombstones_in_force
from engramlog.replay.federation.declaration import wire_key
from engramlog.replay.stigmem.tombstones import (
    NotTaken,
    TombstoneBounds,
    command_of,
    key_id_of,
    signature_of,
)
from tests.worlds.federation.network import SCOPES, Member

PAGE = 200
LIES = ("altered", "signed by itself", "as its own", "backwards", "twice", "cut off")


def bury(chance: random.Random, who: Member, entities: tuple[str, ...]) -> None:
    """Hide one of the entities, in every scope or in one."""
    entity, scope = chance.choice(entities), chance.choice(("all", "company", "public"))
    body = _signed(who, {"id": f"tomb-{chance.getrandbits(64):x}", "entity_uri": entity,
                         "scope": scope, "legal_hold": False})  # fmt: skip
    fields = {name: body[name] for name in ("entity_uri", "scope", *_SIGNED, "legal_hold")}
    who.node.write(
        TombstoneSet(
            tombstone_id=body["id"], entity=entity, scopes=sorted(hidden_scopes(scope)), **fields
        )
    )


def revoke(chance: random.Random, who: Member) -> None:
    """Revoke one of its own tombstones."""
    own = [each for each in who.node.reader.ask(tombstones_in_force) if each.node_id is None]
    if not own:
        return
    tombstone_id = chance.choice(own).tombstone_id
    body = _signed(who, {"id": f"rev-{chance.getrandbits(64):x}", "tombstone_id": tombstone_id})
    fields = {name: body[name] for name in ("tombstone_id", *_SIGNED)}
    who.node.write(TombstoneRevoked(revocation_id=body["id"], reason="", **fields))


_SIGNED = ("created_at", "signed_by", "key_id", "signature")


def _signed(who: Member, record: dict[str, Any]) -> dict[str, Any]:
    identity = who.node.identity
    record |= {
        "signed_by": f"agent:{who.name}",
        "key_id": key_id_of(identity),
        "created_at": format_instant(who.clock.now_us()),
    }
    return record | {"signature": signature_of(identity, record)}


def ask(who: Member, other: Member, liar: random.Random | None = None) -> int:
    """Take another node's tombstones, as the task that asks peers does; returns how many were new.
    ``liar``: draws a lie of the other node."""
    grants = other.peer(who).grants
    shared = frozenset(grants.scopes if grants is not None else ()) & frozenset(SCOPES)
    page = msgspec.to_builtins(shared_page(other.node, shared, 0, 1_000_000))
    records = [*page["tombstones"], *page["revocations"]]
    if liar is not None:
        records = _lied(records, other, liar)
    granted = who.peer(other).grants
    assert granted is not None
    bounds = TombstoneBounds(
        other.id,
        wire_key(other.node.identity.public_key_b64),
        frozenset(granted.scopes) & frozenset(SCOPES),
        granted.erase_foreign,
    )
    before = who.node.log.head().position
    for record in records:
        try:
            who.node.write(command_of(record, bounds))
        except NotTaken:
            continue
    return who.node.log.head().position - before


def _lied(
    records: list[dict[str, Any]], other: Member, chance: random.Random
) -> list[dict[str, Any]]:
    lie = chance.choice(LIES)
    if lie == "backwards":
        return records[::-1]
    if lie == "twice":
        return [*records, *records]
    if lie == "cut off":
        return records[: len(records) // 2]
    name = "tombstone_id" if records and "tombstone_id" in records[-1] else "entity_uri"
    if lie == "altered":
        return [{**each, name: "user:c"} for each in records]
    if lie == "signed by itself":  # another's record in its own name
        theirs = [each for each in other.node.reader.ask(tombstones_in_force) if each.node_id]
        return [
            _signed(other, {"id": f"rev-of-{each.tombstone_id}", "tombstone_id": each.tombstone_id})
            for each in theirs
        ]
    return [
        {"id": each.tombstone_id, "entity_uri": each.entity_uri, "scope": each.scope,
         "legal_hold": each.legal_hold, **{field: getattr(each, field) for field in _SIGNED}}
        for each in other.node.reader.ask(tombstones_in_force) if each.node_id
    ]  # fmt: skip
