"""Tombstones over HTTP: for admins only (wire 5.5)."""

from msgspec import Struct

from engramlog.api.answers.erasure_records import (
    ListedTombstone,
    RevocationRecord,
    TombstoneMade,
    TombstoneRecord,
    revocation_record,
    tombstone_record,
)
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands import tombstones as commands
from engramlog.api.commands.tombstones import entity_meant
from engramlog.api.http.call import Call
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.erasures import BeforeQuery, RevokeRequest, TombstoneRequest
from engramlog.projections.tables.facts.tombstones import list_tombstones as tombstones_before

routes = Routes("erasure")


class TombstoneStatus(Struct):
    """``tombstoned``: whether one of the tombstones is in force."""

    tombstoned: bool
    tombstones: list[TombstoneRecord]
    revocations: list[RevocationRecord]


class TombstonePage(Struct):
    """``before``: requests the next page; null on the last one."""

    tombstones: list[ListedTombstone]
    before: int | None


@routes.add("POST /v1/tombstones", permission="admin", status=201, errors=(423,))
async def set_tombstone(call: Call, request: TombstoneRequest) -> TombstoneMade:
    """Hide an entity from every answer, also about the past."""
    return await commands.set_tombstone(call, request)


@routes.add("GET /v1/tombstones/{entity_uri:.+}", permission="admin", errors=(400,))
async def tombstone_status(call: Call) -> TombstoneStatus:
    """Whether an entity is hidden, with all its tombstones and revocations."""
    entity = entity_meant(call, call.segment("entity_uri"))
    rows, revocations = call.node.reader.tombstones_of(entity)
    return TombstoneStatus(
        tombstoned=any(row.in_force for row in rows),
        tombstones=[tombstone_record(row) for row in rows],
        revocations=[revocation_record(row) for row in revocations],
    )


@routes.add("POST /v1/tombstones/{tombstone_id}/revoke", permission="admin")
async def revoke_tombstone(call: Call, request: RevokeRequest) -> RevocationRecord:
    """Show the entity again, unless another tombstone hides it."""
    tombstone_id = call.segment("tombstone_id")
    return await commands.revoke_tombstone(call, tombstone_id, request.reason)


@routes.add("GET /v1/tombstones", permission="admin")
async def list_tombstones(call: Call, query: BeforeQuery) -> TombstonePage:
    """Tombstones, newest first, including revoked ones."""
    before = call.view().position + 1 if query.before is None else query.before
    rows = call.node.reader.ask(tombstones_before, before, query.limit + 1)
    shown = rows[: query.limit]
    records = [
        shaped(
            row,
            ListedTombstone,
            id=row.tombstone_id,
            stands=row.in_force,
            position=row.from_position,
        )
        for row in shown
    ]
    more = shown[-1].from_position if len(rows) > len(shown) else None
    return TombstonePage(records, more)
