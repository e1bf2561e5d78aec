"""Tombstones: set and revoked (wire 5.5), and the effect of grants on those of peers."""

import msgspec

from engramlog.eventlog.event import Draft
from engramlog.eventlog.kinds import PeerGrants, TombstoneRevoked, TombstoneSet
from engramlog.projections.tables.facts.tombstones import (
    TombstoneRow,
    find_tombstone,
    hidden_scopes,
    tombstones_in_force,
    tombstones_named,
    tombstones_of,
)
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.context import Context, Decision

_EXISTS = Refused("tombstone_already_exists", "tombstone_already_exists")
_ABSENT = Refused("tombstone_not_found", "tombstone_not_found")
_REVOKED = Refused("tombstone_already_revoked", "tombstone_already_revoked")


def set_tombstone(command: TombstoneSet, context: Context) -> Decision | Refused:
    """Hide the entity in the scopes from now on."""
    if command.node_id is None:  # a peer may have several with the same effect here
        of_entity = tombstones_of(context.db, command.entity)
        same = (each for each in of_entity if each.scopes == frozenset(command.scopes))
        if any(each.in_force and each.node_id is None for each in same):
            return _EXISTS
    known = find_tombstone(context.db, command.tombstone_id, command.node_id)
    if known is not None and not _reaches_further(command, known):
        return _EXISTS
    return Decision([context.draft(command)])


def _reaches_further(command: TombstoneSet, known: TombstoneRow) -> bool:
    """Whether a peer's existing tombstone now hides more scopes, because a grant came later."""
    wider = known.scopes < frozenset(command.scopes)
    same = known.signature == command.signature
    return same and wider and known.in_force


def revoke_tombstone(command: TombstoneRevoked, context: Context) -> Decision | Refused:
    """Show the entity again, where no other tombstone hides it. A peer revokes only its own
    tombstone; this node revokes all with the id."""
    named = tombstones_named(context.db, command.tombstone_id)
    meant = [row for row in named if command.node_id in (None, row.node_id)]
    if not meant:
        return _ABSENT
    if not any(row.in_force for row in meant):
        return _REVOKED
    return Decision([context.draft(command)])


def regranted(node_id: str, grants: PeerGrants, context: Context) -> list[Draft]:
    """A peer's tombstones again, where the new grants let them hide more or less than before."""
    drafts: list[Draft] = []
    for stone in tombstones_in_force(context.db):
        if stone.node_id != node_id:
            continue
        scopes = _granted(stone, grants)
        if scopes != stone.scopes:
            told = msgspec.convert(stone, TombstoneSet, from_attributes=True)
            drafts.append(context.draft(msgspec.structs.replace(told, scopes=sorted(scopes))))
    return drafts


def _granted(stone: TombstoneRow, grants: PeerGrants) -> frozenset[str]:
    """The scopes that a peer's tombstone may hide. Settings decide whether ``team`` is shared:
    after a change, ask the peer again."""
    if not grants.erase_foreign:
        return frozenset()
    closed = {"local", "team"} - stone.scopes
    return hidden_scopes(stone.scope) & frozenset(grants.scopes) - closed
