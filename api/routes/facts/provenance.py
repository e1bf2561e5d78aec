"""Provenance over HTTP: the facts that a fact derives from, hop by hop."""

from msgspec import UNSET, Struct, UnsetType, field

from engramlog.api.answers.fact_record import Warned, wire_hash
from engramlog.api.answers.same_fields import shaped
from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded
from engramlog.api.http.routing import Routes
from engramlog.api.routes.facts.facts import find
from engramlog.api.schemas.facts import ProvenanceQuery
from engramlog.api.schemas.values import ScopeText
from engramlog.eventlog.kinds import Parent
from engramlog.projections.graph.provenance import DEPTH_MAX, Ancestor, parents, walk
from engramlog.projections.tables.facts.fact_rows import FactRow

routes = Routes("facts")


class ProvenanceParent(Struct):
    """For an absent or invisible parent, ``exists`` is false and the rest is null."""

    hash: str
    fact_id: str | None
    entity: str | None
    exists: bool


class ProvenanceNode(Struct):
    """The root, or an ancestor. If absent or invisible, only its hash."""

    hash: str
    exists: bool
    depth: int | UnsetType = UNSET
    fact_id: str | UnsetType = UNSET
    entity: str | UnsetType = UNSET
    relation: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    scope: ScopeText | UnsetType = UNSET


class ProvenanceEdge(Struct):
    """``from`` derives from ``to``."""

    child: str = field(name="from")
    parent: str = field(name="to")


class Provenance(Warned):
    """The ancestors of a fact. ``truncated``: the walk has over 5,000 nodes."""

    fact_id: str
    cid: str | None
    derived_from: list[ProvenanceParent]
    depth: int
    nodes: list[ProvenanceNode]
    edges: list[ProvenanceEdge]
    truncated: bool


@routes.add(
    "GET /v1/facts/{fact_id}/provenance",
    permission="read",
    headers=("Stigmem-Session",),
    delegable=True,
)
def provenance(call: Call, query: ProvenanceQuery) -> Provenance:
    """The ancestors of a fact; invisible ones look absent."""
    if query.depth > DEPTH_MAX:
        raise coded("graph_depth_exceeded", f"depth must be ≤ {DEPTH_MAX}")
    view, moment = call.at(query)
    rights = call.narrowed(query.scope)
    reader = call.node.reader
    slot = find(call, view, moment, call.segment("fact_id"), rights.alone())
    root = reader.row(view, slot)
    found = walk(reader, view, root, rights, moment, depth=query.depth)
    rows = [each.row for each in found.ancestors if each.row is not None]
    call.note_read(frozenset(row.scope for row in (root, *rows)))
    return Provenance(
        fact_id=root.id,
        cid=root.cid or None,
        derived_from=[
            _parent(parent, row) for parent, row in parents(reader, view, root, rights, moment)
        ],
        depth=query.depth,
        nodes=[_node(each) for each in found.ancestors],
        edges=[
            ProvenanceEdge(wire_hash(each.child), wire_hash(each.parent)) for each in found.links
        ],
        truncated=found.truncated,
    )


def _parent(parent: Parent, row: FactRow | None) -> ProvenanceParent:
    if row is None:
        return ProvenanceParent(wire_hash(parent.hash), None, None, exists=False)
    return ProvenanceParent(wire_hash(parent.hash), row.id, row.entity, exists=True)


def _node(each: Ancestor) -> ProvenanceNode:
    if each.row is None:
        return ProvenanceNode(wire_hash(each.hash), exists=False)
    return shaped(
        each.row,
        ProvenanceNode,
        hash=wire_hash(each.hash),
        exists=True,
        depth=each.depth,
        fact_id=each.row.id,
    )
