"""Tombstones over HTTP: for admins only (wire 5.5)."""

from aiohttp import web
from msgspec import Struct
from msgspec.structs import asdict

from engramlog.api.answers.erasure_records import (
    ListedTombstone,
    RevocationRecord,
    TombstoneMade,
    TombstoneRecord,
    revocation_record,
    tombstone_record,
)
from engramlog.api.commands import tombstones as commands
from engramlog.api.commands.tombstones import entity_meant
from engramlog.api.http.bodies import answer
from engramlog.api.http.call import Call, warned
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.erasures import RevokeRequest, TombstoneRequest, TombstonesQuery
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


@routes.add(
    "POST /v1/tombstones",
    permission="admin",
    summary="Hide an entity from every answer",
    body=TombstoneRequest,
    answers={201: TombstoneMade},
    errors=(409, 423, 503, 507),
)
async def set_tombstone(call: Call) -> web.Response:
    """Hide an entity from every answer, also about the past."""
    request = await call.body(TombstoneRequest)
    return answer(warned(await commands.set_tombstone(call, request), request), 201)


@routes.add(
    "GET /v1/tombstones/{entity_uri:.+}",
    permission="admin",
    summary="An entity's tombstones",
    answers={200: TombstoneStatus},
    errors=(400,),
)
async def tombstone_status(call: Call) -> web.Response:
    """Whether an entity is hidden, with all its tombstones and revocations."""
    entity = entity_meant(call, call.segment("entity_uri"))
    rows, revocations = call.node.reader.tombstones_of(entity)
    return answer(
        TombstoneStatus(
            tombstoned=any(row.in_force for row in rows),
            tombstones=[tombstone_record(row) for row in rows],
            revocations=[revocation_record(row) for row in revocations],
        )
    )


@routes.add(
    "POST /v1/tombstones/{tombstone_id}/revoke",
    permission="admin",
    summary="Let a tombstone hide nothing any more",
    body=RevokeRequest,
    answers={200: RevocationRecord},
    errors=(409, 503, 507),
)
async def revoke_tombstone(call: Call) -> web.Response:
    """Show the entity again, unless another tombstone hides it."""
    request = await call.body(RevokeRequest)
    tombstone_id = call.segment("tombstone_id")
    body = await commands.revoke_tombstone(call, tombstone_id, request.reason)
    return answer(warned(body, request))


@routes.add(
    "GET /v1/tombstones",
    permission="admin",
    summary="Tombstones, newest first",
    query=TombstonesQuery,
    answers={200: TombstonePage},
)
async def list_tombstones(call: Call) -> web.Response:
    """Tombstones, newest first, including revoked ones."""
    query = call.query(TombstonesQuery)
    before = call.view().position + 1 if query.before is None else query.before
    rows = call.node.reader.ask(tombstones_before, before, query.limit + 1)
    shown = rows[: query.limit]
    records = [
        ListedTombstone(
            **asdict(tombstone_record(row)),
            stands=row.in_force,
            node_id=row.node_id,
            position=row.from_position,
        )
        for row in shown
    ]
    more = shown[-1].from_position if len(rows) > len(shown) else None
    return answer(TombstonePage(records, more))
