"""Provenance over HTTP: what a fact was derived from, hop by hop."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from engramlog.api.answers.records import Record
from engramlog.api.http.bodies import answer
from engramlog.api.http.call import Call, warned
from engramlog.api.http.errors import coded
from engramlog.api.http.routing import Routes
from engramlog.api.routes.facts.facts import find
from engramlog.api.schemas.answers import Provenance
from engramlog.api.schemas.facts import ProvenanceQuery
from engramlog.eventlog.kinds import Parent
from engramlog.projections.graph.provenance import DEPTH_MAX, Ancestor, Walk, parents, walk
from engramlog.projections.tables.facts.fact_rows import FactRow

routes = Routes("facts")


@routes.add(
    "GET",
    "/v1/facts/{fact_id}/provenance",
    permission="read",
    summary="What a fact was derived from, hop by hop",
    query=ProvenanceQuery,
    answers={200: Provenance},
    errors=(400, 404, 501),
    headers=("Stigmem-Session",),
    delegable=True,
)
async def provenance(call: Call) -> web.Response:
    """The ancestors of a fact; those the caller may not see look absent."""
    query = call.query(ProvenanceQuery)
    if query.depth > DEPTH_MAX:
        raise coded("graph_depth_exceeded", f"depth must be ≤ {DEPTH_MAX}")
    call.session()
    root, entries, found = await call.in_pool(lambda: _provenance(call, query))
    call.note_read(_scopes(root, found))
    body: dict[str, Any] = {
        "fact_id": root.id,
        "cid": root.cid or None,
        "derived_from": [_parent(parent, row) for parent, row in entries],
        "depth": query.depth,
        "nodes": [_node(each) for each in found.ancestors],
        "edges": [
            {"from": _wire_hash(link.child), "to": _wire_hash(link.parent)} for link in found.links
        ],
        "truncated": found.truncated,
    }
    return answer(warned(body, query))


def _provenance(
    call: Call, query: ProvenanceQuery
) -> tuple[FactRow, list[tuple[Parent, FactRow | None]], Walk]:
    view = call.view()
    moment = call.moment(view, query)
    authorization = call.narrowed(query.scope)
    reader = call.node.reader
    slot = find(call, view, moment, call.segment("fact_id"), authorization)
    root = reader.rows([int(view.from_position[slot])])[0]
    return (
        root,
        parents(reader, view, root, authorization, moment),
        walk(reader, view, root, authorization, moment, depth=query.depth),
    )


def _scopes(root: FactRow, found: Walk) -> frozenset[str]:
    rows = [each.row for each in found.ancestors if each.row is not None]
    return frozenset(row.scope for row in (root, *rows))


def _parent(parent: Parent, row: FactRow | None) -> Record:
    return {
        "hash": _wire_hash(parent.hash),
        "fact_id": None if row is None else row.id,
        "entity": None if row is None else row.entity,
        "exists": row is not None,
    }


def _node(each: Ancestor) -> Record:
    if each.row is None:
        return {"hash": _wire_hash(each.hash), "exists": False}
    return {
        "hash": _wire_hash(each.hash),
        "exists": True,
        "depth": each.depth,
        "fact_id": each.row.id,
        "entity": each.row.entity,
        "relation": each.row.relation,
        "source": each.row.source,
        "scope": each.row.scope,
    }


def _wire_hash(digits: str) -> str:
    return f"sha256:{digits}"
