"""Tombstones: set and revoked (wire 5.5)."""

from __future__ import annotations

import msgspec

from eventlog.kinds import TombstoneRevoked, TombstoneSet
from projections.deciding.context import Context, Decision
from projections.intents import Refused, RevokeTombstone, SetTombstone
from projections.tombstones import find_tombstone, tombstones_of

_EXISTS = Refused("tombstone_already_exists", "tombstone_already_exists")
_ABSENT = Refused("tombstone_not_found", "tombstone_not_found")
_REVOKED = Refused("tombstone_already_revoked", "tombstone_already_revoked")


def set_tombstone(intent: SetTombstone, context: Context) -> Decision | Refused:
    """The entity is hidden in the scopes from here on."""
    context.flush()
    of_entity = tombstones_of(context.db, intent.entity)
    for each in of_entity:
        signer, scopes = each.node_id, each.scopes
        if each.stands and signer == intent.node_id and scopes == frozenset(intent.scopes):
            return _EXISTS
    if find_tombstone(context.db, intent.tombstone_id) is not None:
        return _EXISTS
    fields = msgspec.structs.asdict(intent) | {"scopes": list(intent.scopes)}
    return Decision([context.draft(TombstoneSet(**fields))])


def revoke_tombstone(intent: RevokeTombstone, context: Context) -> Decision | Refused:
    """The entity is there again, as far as no other tombstone hides it."""
    context.flush()
    standing = find_tombstone(context.db, intent.tombstone_id)
    if standing is None or (intent.node_id is not None and standing.node_id != intent.node_id):
        return _ABSENT
    if not standing.stands:
        return _REVOKED
    return Decision([context.draft(TombstoneRevoked(**msgspec.structs.asdict(intent)))])
