"""The neighbours of an entity over HTTP, page by page."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from api.bodies import answer
from api.call import Call, warned
from api.commands.naming import entity_named
from api.cursors import Cursor, filters_digest
from api.errors import ApiError, coded
from api.schemas.recall import NeighborsQuery
from projections.graph import (
    DEPTH_MAX,
    GraphError,
    Mark,
    Neighbor,
    NeighborPage,
    NeighborQuery,
    neighbors,
)
from projections.moment import parse_instant
from projections.normalization import SCOPES

_KIND = "neighbors"
_UNBOUND = frozenset({"cursor", "page_size"})


async def list_neighbors(call: Call) -> web.Response:
    """Entities within a few hops, by shortest path, nearest first."""
    query = call.query(NeighborsQuery)
    if query.depth > DEPTH_MAX:
        raise coded("graph_depth_exceeded", f"depth must be ≤ {DEPTH_MAX}")
    if query.scope not in SCOPES:
        raise ApiError(400, f"scope must be one of {sorted(SCOPES)}")
    call.session()
    page, entity, cursor = await call.in_pool(lambda: _page(call, query))
    if page.neighbors:
        call.note_read((query.scope,))
    body = {
        "entity": entity,
        "depth": query.depth,
        "neighbors": [_wire(neighbor) for neighbor in page.neighbors],
        "next_cursor": cursor,
        "total_hint": page.total,
    }
    return answer(warned(body, query))


def _page(call: Call, query: NeighborsQuery) -> tuple[NeighborPage, str, str | None]:
    view = call.view()
    walk = _walk(call, query)
    valid_at_us = None if query.valid_at is None else parse_instant(query.valid_at)
    after = Mark(int(walk.place[0]), str(walk.place[1])) if walk.place else None
    question = NeighborQuery(
        entity=entity_named(call, query.entity, walk.position),
        scope=query.scope,
        depth=query.depth,
        relation_filter=query.relation_filter,
        min_confidence=query.min_confidence,
        min_trust=query.min_trust,
        page_size=query.page_size,
        after=after,
    )
    try:
        page = neighbors(view, question, call.model_authorization, walk.moment(valid_at_us))
    except GraphError as fault:
        raise coded(fault.code, str(fault)) from fault
    return page, question.entity, _next(call, walk, page)


def _walk(call: Call, query: NeighborsQuery) -> Cursor:
    """The cursor's walk, or a new one at the moment asked about."""
    digest = filters_digest(
        {name: getattr(query, name) for name in NeighborsQuery.model_fields if name not in _UNBOUND}
    )
    now = call.moment(call.view(), query)
    if query.cursor is None:
        return Cursor(_KIND, digest, now.position, now.instant_us, 0)
    return call.service.cursors.open(
        query.cursor, kind=_KIND, digest=digest, now_us=call.node.clock.now_us()
    )


def _next(call: Call, walk: Cursor, page: NeighborPage) -> str | None:
    if page.next is None:
        return None
    cursors = call.service.cursors
    expires = cursors.expiry(call.node.clock.now_us())
    place = (page.next.hops, page.next.entity)
    return cursors.seal(
        Cursor(walk.kind, walk.digest, walk.position, walk.instant_us, expires, place)
    )


def _wire(neighbor: Neighbor) -> dict[str, Any]:
    return {
        "entity": neighbor.entity,
        "relation": neighbor.relation,
        "hops": neighbor.hops,
        "confidence": neighbor.confidence,
        "source_trust": neighbor.source_trust,
        "path": list(neighbor.path),
    }
