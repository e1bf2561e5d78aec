"""Lines of an import file about tombstones, and their commands. A node signs its own tombstones, so
a line has the decision and not the record."""

from engramlog.api.node.node import Node
from engramlog.api.transfer.lines.base import IMPORT_ACTOR, Line, LineError, line_uri
from engramlog.eventlog.kinds import TombstoneRevoked, TombstoneSet
from engramlog.projections.tables.facts.tombstones import TOMBSTONE_SCOPES, hidden_scopes
from engramlog.replay.stigmem.tombstones import own_revocation, own_tombstone


class TombstoneLine(Line, frozen=True, kw_only=True, tag="tombstone"):
    """Hides an entity from every answer or, with ``revoke``, shows it again."""

    entity: str
    scope: str = "all"
    reason: str | None = None
    legal_hold: bool = False
    signed_by: str | None = None
    revoke: bool = False


def tombstone_command(line: TombstoneLine, node: Node) -> TombstoneSet | TombstoneRevoked:
    """Set or revoke one of this node's tombstones. Raises LineError."""
    entity = line_uri(line.entity, "entity")
    if line.scope not in TOMBSTONE_SCOPES:
        raise LineError(f"must be one of {', '.join(TOMBSTONE_SCOPES)}", "scope")
    signer = line_uri(line.signed_by or IMPORT_ACTOR, "signed_by")
    identity, now_us = node.identity, node.clock.now_us()
    if not line.revoke:
        return own_tombstone(
            identity,
            now_us,
            entity=entity,
            scope=line.scope,
            signer=signer,
            legal_hold=line.legal_hold,
            reason=line.reason,
        )
    scopes = hidden_scopes(line.scope)
    rows, _ = node.reader.tombstones_of(entity)
    active = [row for row in rows if row.in_force and row.scopes == scopes and row.node_id is None]
    if not active:
        raise LineError("no tombstone of this scope is in force", "entity")
    reason = line.reason or "imported"
    name = active[0].tombstone_id
    return own_revocation(identity, now_us, tombstone_id=name, signer=signer, reason=reason)
