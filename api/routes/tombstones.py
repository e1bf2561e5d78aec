"""Tombstones over HTTP: for admins alone (wire 5.5)."""

from __future__ import annotations

from aiohttp import web

from api.bodies import answer
from api.call import Call, warned
from api.commands import tombstoning
from api.commands.tombstoning import entity_meant
from api.schemas.tombstones import RevokeRequest, TombstoneRequest, TombstonesQuery
from api.tombstone_records import revocation_record, tombstone_record


async def set_tombstone(call: Call) -> web.Response:
    """Hide an entity from every answer, about the past as well."""
    request = await call.body(TombstoneRequest)
    return answer(warned(await tombstoning.set_tombstone(call, request), request), 201)


async def tombstone_status(call: Call) -> web.Response:
    """Whether an entity is hidden, and every tombstone and revocation it ever had."""
    entity = entity_meant(call, call.segment("entity_uri"))
    rows, revocations = call.node.reader.tombstones_of(entity)
    return answer(
        {
            "tombstoned": any(row.stands for row in rows),
            "tombstones": [tombstone_record(row) for row in rows],
            "revocations": [revocation_record(row) for row in revocations],
        }
    )


async def revoke_tombstone(call: Call) -> web.Response:
    """Let the entity be seen again, as far as no other tombstone hides it."""
    request = await call.body(RevokeRequest)
    tombstone_id = call.segment("tombstone_id")
    body = await tombstoning.revoke_tombstone(call, tombstone_id, request.reason)
    return answer(warned(body, request))


async def list_tombstones(call: Call) -> web.Response:
    """Tombstones, newest first, revoked ones too."""
    query = call.query(TombstonesQuery)
    before = call.view().position + 1 if query.before is None else query.before
    rows = call.node.reader.tombstones(before, query.limit + 1)
    shown = rows[: query.limit]
    told = [
        tombstone_record(row)
        | {"stands": row.stands, "node_id": row.node_id, "position": row.from_position}
        for row in shown
    ]
    more = shown[-1].from_position if len(rows) > len(shown) else None
    return answer({"tombstones": told, "before": more})
