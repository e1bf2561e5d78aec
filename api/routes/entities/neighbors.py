"""The neighbours of an entity over HTTP, page by page."""

from engramlog.api.answers.fact_record import Warned
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.entity_names import entity_named
from engramlog.api.http.call import Call
from engramlog.api.http.errors import ApiError, coded
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.recall import NeighborsQuery
from engramlog.projections.graph.neighbors import (
    DEPTH_MAX,
    GraphError,
    Mark,
    Neighbor,
    NeighborQuery,
    neighbors,
)
from engramlog.projections.moment import parse_instant
from engramlog.projections.normalization import EVERY_SCOPE, SCOPES

routes = Routes("recall")

_KIND = "neighbors"
_UNBOUND = frozenset({"cursor", "page_size"})


class NeighborPage(Warned):
    """Neighbours in order of (hops, entity)."""

    entity: str
    depth: int
    neighbors: list[Neighbor]
    next_cursor: str | None
    total_hint: int


@routes.add(
    "GET /v1/graph/neighbors",
    permission="read",
    headers=("Stigmem-Session",),
    delegable=True,
)
def list_neighbors(call: Call, query: NeighborsQuery) -> NeighborPage:
    """Entities within a few hops, by shortest path, nearest first."""
    if query.depth > DEPTH_MAX:
        raise coded("graph_depth_exceeded", f"depth must be ≤ {DEPTH_MAX}")
    scopes = tuple(SCOPES) if query.scope in EVERY_SCOPE else (query.scope,)
    if scopes[0] not in SCOPES:
        raise ApiError(400, f"scope must be one of {sorted(SCOPES)}")
    view = call.view()
    walk = call.walk(_KIND, query, call.moment(view, query), unbound=_UNBOUND)
    valid_at_us = None if query.valid_at is None else parse_instant(query.valid_at)
    after = Mark(int(walk.place[0]), str(walk.place[1])) if walk.place else None
    question = shaped(
        query, NeighborQuery, entity=entity_named(call, query.entity, walk.position), after=after
    )
    try:
        page = neighbors(view, question, call.model_authorization, walk.moment(valid_at_us))
    except GraphError as fault:
        raise coded(fault.code, str(fault)) from fault
    cursor = None
    if page.next is not None:
        cursor = call.cursor_after(walk, (page.next.hops, page.next.entity))
    if page.neighbors:
        call.note_read(scopes)
    return NeighborPage(question.entity, query.depth, page.neighbors, cursor, page.total)
