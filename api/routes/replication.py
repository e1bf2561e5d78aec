"""The log as replicas copy it, and a replica's promotion."""

from __future__ import annotations

import asyncio

from aiohttp import web

from api.bodies import answer
from api.call import Call
from api.errors import coded
from api.schemas.replication import EventsQuery
from replay.replication.page import Diverged, encode_page, read_page

PAGE_TYPE = "application/vnd.engramlog.replication"


async def events(call: Call) -> web.Response:
    """The events behind a position, of every stream, as they are stored; waits for the first.

    Only for keys with ``replicate``: a page holds what is private too.
    """
    query = call.query(EventsQuery)
    node = call.node
    await call.service.commits.wait(lambda: node.log.head().position > query.after, query.wait_s)

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


async def status(call: Call) -> web.Response:
    """Whether the node is a primary or a replica, and how a replica stands."""
    node = call.node
    told = node.status()
    replica = told.get("replica")
    return answer(
        {
            "role": "primary" if replica is None else "replica",
            "node_id": node.node_id,
            "position": told["position"],
            "replica": replica,
        }
    )


async def promote(call: Call) -> web.Response:
    """Stop following and take writes, under the replica's own identity."""
    node = call.node
    state = node.replica
    if state is None:
        raise coded("not_a_replica", "this node is a replica of nobody: it takes writes already")
    await asyncio.to_thread(node.promote)
    return answer(
        {
            "node_id": node.node_id,
            "was_replica_of": state.node_id,
            "position": node.log.head().position,
        }
    )
