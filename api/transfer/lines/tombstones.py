"""Lines of an import file about tombstones, and their commands. A node signs its own tombstones, so
a line has the decision and not the record."""

from engramlog.api.node.node import Node
from engramlog.api.transfer.lines.base import IMPORT_ACTOR, Line, LineError, line_uri
from engramlog.eventlog.kinds import TombstoneRevoked, TombstoneSet
from engramlog.projections.moment import format_instant
from engramlog.projections.tables.facts.tombstones import TOMBSTONE_SCOPES, hidden_scopes
from engramlog.replay.stigmem.tombstones import (
    key_id_of,
    new_revocation_id,
    new_tombstone_id,
    signature_of,
)


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
    body: dict[str, object] = {
        "signed_by": signer,
        "key_id": key_id_of(node.identity),
        "created_at": format_instant(node.clock.now_us()),
    }
    if line.revoke:
        return _revocation(line, entity, node, body)
    body |= {
        "id": new_tombstone_id(),
        "entity_uri": entity,
        "scope": line.scope,
        "legal_hold": line.legal_hold,
    }
    return TombstoneSet(
        tombstone_id=str(body["id"]),
        entity=entity,
        entity_uri=entity,
        scope=line.scope,
        scopes=sorted(hidden_scopes(line.scope)),
        created_at=str(body["created_at"]),
        signed_by=signer,
        key_id=str(body["key_id"]),
        signature=signature_of(node.identity, body),
        legal_hold=line.legal_hold,
        reason=line.reason,
    )


def _revocation(
    line: TombstoneLine, entity: str, node: Node, body: dict[str, object]
) -> TombstoneRevoked:
    scopes = hidden_scopes(line.scope)
    rows, _ = node.reader.tombstones_of(entity)
    active = [row for row in rows if row.in_force and row.scopes == scopes and row.node_id is None]
    if not active:
        raise LineError("no tombstone of this scope is in force", "entity")
    body |= {"id": new_revocation_id(), "tombstone_id": active[0].tombstone_id}
    return TombstoneRevoked(
        revocation_id=str(body["id"]),
        tombstone_id=active[0].tombstone_id,
        reason=line.reason or "imported",
        created_at=str(body["created_at"]),
        signed_by=str(body["signed_by"]),
        key_id=str(body["key_id"]),
        signature=signature_of(node.identity, body),
    )
