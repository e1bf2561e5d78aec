"""Tombstones for peers, and from them (wire 2.2, 5.5)."""

from typing import Any, Literal, cast

from msgspec import Struct

from engramlog.api.http.bodies import parse_json
from engramlog.api.http.call import Call
from engramlog.api.http.error_codes import PLAIN_TEXT
from engramlog.api.http.errors import ApiError, coded, plain
from engramlog.api.http.routing import Routes
from engramlog.api.node.tasks import tombstone_sharing as sharing
from engramlog.api.schemas.erasures import SharedQuery, SharedRecord
from engramlog.projections.tables.peers.peers import PeerRow
from engramlog.replay.stigmem.tombstones import NotTaken

routes = Routes("federation")

RECORD_BYTES_MAX = 16_384


class Taken(Struct):
    """The outcome of a record."""

    id: str
    status: Literal["accepted"] = "accepted"


@routes.add("GET /v1/federation/tombstones", permission="peer", query=SharedQuery)
def shared(call: Call) -> sharing.SharedTombstones:
    """This node's tombstones in the agreed scopes, for peers."""
    peer, scopes = _peer(call)
    if not scopes or not peer.served:
        raise ApiError(403, "no permitted scopes")
    query = call.query(SharedQuery)
    after = int(query.cursor or 0)
    return sharing.shared_page(call.node, scopes, after, query.limit)


@routes.add(
    "POST /v1/federation/tombstones/ingest",
    permission="peer",
    body=SharedRecord,
    status=201,
    errors=(404,),
)
async def ingest(call: Call) -> Taken:
    """Take one record of a peer."""
    data = await call.raw(RECORD_BYTES_MAX)  # first: a peer may be revoked while it arrives
    peer, scopes = _peer(call)
    record: Any = parse_json(data)
    if not isinstance(record, dict):
        raise coded("tombstone_malformed", "a record is a JSON object")
    bounds = sharing.bounds_of(call.node, peer, scopes)
    try:
        taken = await sharing.take(call.node, cast("dict[str, Any]", record), bounds)
    except NotTaken as fault:
        known = fault.code in PLAIN_TEXT
        raise (plain(fault.code) if known else coded(fault.code, str(fault))) from fault
    return Taken(taken)


def _peer(call: Call) -> tuple[PeerRow, frozenset[str]]:
    """The calling peer, and the scopes shared with it now. Raises ApiError 401."""
    peer, claims = call.peer()
    return peer, call.service.federation.shared_scopes(peer.scopes & frozenset(claims.scopes))
