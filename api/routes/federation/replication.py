"""The log as replicas copy it, and a replica's promotion."""

import asyncio

from aiohttp import web
from msgspec import Struct
from pydantic import Field

from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded
from engramlog.api.http.routing import Media, Routes
from engramlog.api.schemas.values import Model, Position
from engramlog.replay.replication.page import PAGE_EVENTS_MAX, Diverged, encode_page, read_page

routes = Routes("replication")

WAIT_SECONDS_MAX = 30.0


class ReplicatedEventsQuery(Model, extra="forbid"):
    """``after``: the last position the replica has; ``hash``: the hash of the event there, in hex;
    ``wait_s``: how long to wait for the first event after it."""

    after: Position = 0
    hash: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    limit: int = Field(default=PAGE_EVENTS_MAX, ge=1, le=PAGE_EVENTS_MAX)
    wait_s: float = Field(default=0.0, ge=0.0, le=WAIT_SECONDS_MAX)


class Promoted(Struct):
    """The new origin."""

    node_id: str
    was_replica_of: str
    position: int


PAGE_TYPE = "application/vnd.engramlog.replication"


@routes.add(
    "GET /v1/replication/events",
    permission="replicate",
    answers={200: Media(PAGE_TYPE, "a page of events, zlib over MessagePack")},
    errors=(409,),
)
async def events(call: Call, query: ReplicatedEventsQuery) -> web.Response:
    """The stored events after a position, for replicas. Waits for the first.

    Needs ``replicate``, because pages contain private data too.
    """
    node = call.node
    await call.service.commits.wait(lambda: node.log.head().position > query.after, query.wait_s)

    call.check_rights()

    def page() -> bytes:
        return encode_page(
            read_page(
                node.log,
                after=query.after,
                after_hash=bytes.fromhex(query.hash),
                limit=query.limit,
                node_id=node.node_id,
                public_key=node.public_key,
                now_us=node.clock.now_us(),
            )
        )

    try:
        body = await call.in_pool(page)
    except Diverged as fault:
        raise coded("replication_diverged", str(fault)) from fault
    return web.Response(body=body, content_type=PAGE_TYPE)


@routes.add("POST /v1/replication/promote", permission="admin")
async def promote(call: Call) -> Promoted:
    """Stop following and take writes, under the replica's own identity."""
    node = call.node
    state = node.replica
    if state is None:
        raise coded("not_a_replica", "this node is not a replica: it takes writes already")
    await asyncio.to_thread(node.promote)
    return Promoted(node.node_id, state.node_id, node.log.head().position)
