"""Tombstones: set and revoked (wire 5.5)."""

from __future__ import annotations

from engramlog.eventlog.kinds import TombstoneRevoked, TombstoneSet
from engramlog.projections.tables.facts.tombstones import (
    TombstoneRow,
    find_tombstone,
    tombstones_of,
)
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.context import Context, Decision

_EXISTS = Refused("tombstone_already_exists", "tombstone_already_exists")
_ABSENT = Refused("tombstone_not_found", "tombstone_not_found")
_REVOKED = Refused("tombstone_already_revoked", "tombstone_already_revoked")


def set_tombstone(command: TombstoneSet, context: Context) -> Decision | Refused:
    """The entity is hidden in the scopes from here on."""
    context.flush()
    of_entity = tombstones_of(context.db, command.entity)
    for each in of_entity:
        signer, scopes = each.node_id, each.scopes
        if each.stands and signer == command.node_id and scopes == frozenset(command.scopes):
            return _EXISTS
    known = find_tombstone(context.db, command.tombstone_id)
    if known is not None and not _reaches_further(command, known):
        return _EXISTS
    return Decision([context.draft(command)])


def _reaches_further(command: TombstoneSet, known: TombstoneRow) -> bool:
    """Whether a peer's tombstone that stands here counts in more scopes than it did: grants that
    come late let it."""
    same = (known.node_id, known.signature) == (command.node_id, command.signature)
    wider = known.scopes < frozenset(command.scopes)
    return same and wider and known.stands and command.node_id is not None


def revoke_tombstone(command: TombstoneRevoked, context: Context) -> Decision | Refused:
    """The entity is there again, as far as no other tombstone hides it."""
    context.flush()
    standing = find_tombstone(context.db, command.tombstone_id)
    if standing is None or (command.node_id is not None and standing.node_id != command.node_id):
        return _ABSENT
    if not standing.stands:
        return _REVOKED
    return Decision([context.draft(command)])
