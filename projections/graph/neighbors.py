"""The graph of ref facts: one hop, and the neighbours of an entity page by page.

An edge is a ref fact that the caller may read at the Moment, and that no resolution has set aside
by then; walks follow it in both directions. Edges from peers are for callers with the ``federate``
permission. A hub costs only a few comparisons per edge.
"""

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import F64, I32, Bool
from engramlog.projections.authorization import Authorization
from engramlog.projections.graph.smallest_names import first_names
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import live
from engramlog.projections.moment import Moment
from engramlog.projections.normalization import EVERY_SCOPE, SCOPES, matches_label
from engramlog.projections.rights.trust_formula import RECEIVED

DEPTH_MAX = 3
PAGE_SIZE_MAX = 200
LOOKUPS_MAX = 512
"""Up to this many entities are expanded through their slots; more, by one scan."""
SPARSE_TIMES = 64
"""If entities outnumber edges by this factor, edges are sorted; otherwise they are counted in an
array over all entities."""
BOOKKEEPING_PREFIX = "stigmem:"
"""The protocol's own relations (conflicts, cards): they are never shown."""
CROSS_FEDERATION = "federate"
"""The permission to see edges that came from peers (seed §20.1.7)."""
_NOT_A_LABEL = frozenset("?[](){}|^$+\\")


class GraphError(ValueError):
    """A graph question without an answer; ``code`` is the protocol's name for the reason."""

    code = "invalid_graph_query"


class DepthExceeded(GraphError):
    """Depth outside 1 to 3."""

    code = "graph_depth_exceeded"


class InvalidRelationFilter(GraphError):
    """A relation filter with anything but labels and suffix-``*`` globs."""

    code = "invalid_relation_filter"


class Mark(Struct, frozen=True):
    """The end of a page: its last neighbour."""

    hops: int
    entity: str


class NeighborQuery(Struct, frozen=True, kw_only=True):
    """The entity, the distance, and the edges to follow. ``entity`` is in stored form. Edges under
    ``min_confidence`` or ``min_trust`` are not followed at all. ``after`` continues a page; use the
    Moment of the first page."""

    entity: str
    scope: str
    depth: int = 1
    relation_filter: str | None = None
    min_confidence: float = 0.1
    min_trust: float = 0.0
    page_size: int = 20
    after: Mark | None = None


class Neighbor(Struct, frozen=True):
    """A reached entity. ``relation``, ``confidence`` and ``source_trust`` are those of the
    edge that reached it."""

    entity: str
    relation: str
    hops: int
    confidence: float
    source_trust: float
    path: tuple[str, ...]


class NeighborSlice(Struct, frozen=True):
    """One page in order of (hops, entity); ``next`` is None on the last, ``total`` counts all."""

    neighbors: list[Neighbor]
    next: Mark | None
    total: int


def neighbors(
    view: View, query: NeighborQuery, authorization: Authorization, moment: Moment
) -> NeighborSlice:
    """One page of the entities within ``query.depth`` hops, by shortest path.

    If several edges reach an entity in equally few hops, the most confident one is reported, and of
    equals the oldest. Raises DepthExceeded: depth outside 1 to 3. InvalidRelationFilter: see
    ``parse_relation_filter``. GraphError: page size outside 1 to 200.
    """
    if not 1 <= query.depth <= DEPTH_MAX:
        raise DepthExceeded(f"depth is {query.depth}, must be 1 to {DEPTH_MAX}")
    if not 1 <= query.page_size <= PAGE_SIZE_MAX:
        raise GraphError(f"page_size is {query.page_size}, must be 1 to {PAGE_SIZE_MAX}")
    scopes = frozenset(SCOPES if query.scope in EVERY_SCOPE else (query.scope,))
    walkable = _walkable(view, query, authorization.narrowed(scopes), moment)
    start = view.entities.number(query.entity)
    if start is None:
        return NeighborSlice([], None, 0)
    reached = Reached(len(view.entities), np.array([start], dtype=np.int32))
    for _ in range(query.depth):
        slots, targets = expand(view, reached.frontier, walkable)
        confidence = view.confidence(slots, moment)
        found, edges, _ = best_edges(view, slots, targets, confidence, reached.seen)
        reached.add(found, edges)
    return _page(view, query, reached, moment)


def parse_relation_filter(text: str) -> tuple[str, ...]:
    """The labels and suffix-``*`` globs of a comma-separated filter. Raises InvalidRelationFilter:
    an empty label, a ``*`` that is not last, or regex characters."""
    patterns = tuple(part.strip() for part in text.split(","))
    for pattern in patterns:
        if not pattern:
            raise InvalidRelationFilter("relation_filter has an empty label")
        if "*" in pattern[:-1] or _NOT_A_LABEL.intersection(pattern):
            raise InvalidRelationFilter(
                f"relation_filter {pattern!r} must be a label, or a prefix followed by one '*'"
            )
    return patterns


def surfacing(view: View, slots: I32) -> I32:
    """Those of ``slots`` that are not the protocol's records, by relation or entity, in the given
    order. A resolution, for one, repeats the winner's value."""
    reserved = view.reserved_slots()
    if len(reserved):
        slots = slots[~np.isin(slots, reserved)]
    hidden = hidden_relations(view)
    return slots[~hidden[view.relation[slots]]] if hidden.any() else slots


def hidden_relations(view: View) -> Bool:
    """By relation number: whether it is one of the protocol's own."""
    prefix = BOOKKEEPING_PREFIX
    return relations_matching(view, prefix, lambda label: label.startswith(prefix))


def relations_matching(view: View, name: object, test: Callable[[str], bool]) -> Bool:
    """By relation number: whether ``test`` accepts the label. ``name`` identifies the test: its
    result for each label is cached under it (``Interner.chosen``)."""
    matching = np.zeros(len(view.relations), dtype=np.bool_)
    chosen = view.relations.chosen(name, test)
    matching[chosen[chosen < len(matching)]] = True  # others came in the meantime
    return matching


class Reached:
    """The result of a walk so far: by entity number, its hops and the last edge to it."""

    def __init__(self, entity_count: int, start: I32) -> None:
        self.hops = np.full(entity_count, -1, dtype=np.int32)
        self.hops[start] = 0
        self.edge = np.full(entity_count, -1, dtype=np.int32)
        self.frontier = start
        self.rings: list[I32] = [start]
        """Entities by hops, ascending by number."""

    @property
    def depth(self) -> int:
        return len(self.rings) - 1

    @property
    def seen(self) -> Bool:
        return self.hops >= 0

    def add(self, targets: I32, edges: I32) -> None:
        """Add one hop: ``targets`` are new entities, ``edges`` their edges."""
        self.rings.append(targets)
        self.hops[targets] = self.depth
        self.edge[targets] = edges
        self.frontier = targets

    def at(self, hops: int) -> I32:
        """Entities at exactly that many hops."""
        return self.rings[hops]

    def before(self, view: View, entity: int) -> int:
        """The entity before this one on its path."""
        edge = self.edge[entity]
        subject, target = int(view.entity[edge]), int(view.object[edge])
        return subject if target == entity else target

    def path(self, view: View, entity: int) -> tuple[str, ...]:
        """The entities from the start to the one before ``entity``."""
        path: list[str] = []
        while self.hops[entity] > 0:
            entity = self.before(view, entity)
            path.append(view.entities.text(entity))
        return tuple(reversed(path))


def expand(view: View, frontier: I32, walkable: Callable[[I32], I32]) -> tuple[I32, I32]:
    """The walkable edges at ``frontier``, with the entity at their far end. ``walkable``: keeps the
    slots that the walk may follow; called on edges only."""
    if len(frontier) <= LOOKUPS_MAX:
        leaving, _ = view.entity_lists(frontier)
        leaving = leaving[view.object[leaving] >= 0]
        arriving, _ = view.object_lists(frontier)
    else:
        edges = np.flatnonzero(view.object >= 0).astype(np.int32)
        inside = np.zeros(len(view.entities), dtype=np.bool_)
        inside[frontier] = True
        leaving, arriving = edges[inside[view.entity[edges]]], edges[inside[view.object[edges]]]
    leaving, arriving = walkable(leaving), walkable(arriving)
    slots = np.concatenate((leaving, arriving))
    return slots, np.concatenate((view.object[leaving], view.entity[arriving]))


def best_edges(
    view: View, slots: I32, targets: I32, scores: F64, seen: Bool
) -> tuple[I32, I32, F64]:
    """For each target not ``seen``: the edge with the highest score, the oldest among equals.

    Returns:
        Targets in ascending number, and for each the slot of its edge and the score.
    """
    fresh = ~seen[targets]
    slots, targets, scores = slots[fresh], targets[fresh], scores[fresh]
    if len(slots) * SPARSE_TIMES < len(seen):
        order = np.lexsort((*view.ages(slots), -scores, targets))
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = targets[order[1:]] != targets[order[:-1]]
        chosen = order[first]
        return targets[chosen], slots[chosen], scores[chosen]
    highest = np.full(len(seen), -np.inf)
    np.maximum.at(highest, targets, scores)
    best = scores == highest[targets]
    slots, targets = slots[best], targets[best]
    edge = np.zeros(len(seen), dtype=np.int32)
    edge[targets] = slots
    several = np.bincount(targets, minlength=1)[targets] > 1
    if several.any():
        slots, targets = slots[several], targets[several]
        order = np.lexsort((*view.ages(slots), targets))
        slots, targets = slots[order], targets[order]
        first = np.flatnonzero(np.diff(targets, prepend=-1))
        edge[targets[first]] = slots[first]
    found = np.flatnonzero(highest > -np.inf).astype(np.int32)
    return found, edge[found], highest[found]


def _walkable(
    view: View, query: NeighborQuery, authorization: Authorization, moment: Moment
) -> Callable[[I32], I32]:
    """A filter for the edges that exist for this query, applied before expansion."""
    named: Bool | None = None
    if query.relation_filter is not None:
        patterns = parse_relation_filter(query.relation_filter)
        named = relations_matching(
            view, patterns, lambda label: any(matches_label(pattern, label) for pattern in patterns)
        )

    def walkable(slots: I32) -> I32:
        if not authorization.may(CROSS_FEDERATION):
            slots = slots[view.warrant[slots] < RECEIVED]
        slots = surfacing(view, live(view, authorization, moment, slots))
        slots = slots[view.set_aside[slots] > moment.position]
        if named is not None:
            slots = slots[named[view.relation[slots]]]
        slots = slots[view.confidence(slots, moment) >= query.min_confidence]
        if query.min_trust > 0.0:
            slots = slots[view.trust(slots, moment) >= query.min_trust]
        return slots

    return walkable


def _page(view: View, query: NeighborQuery, reached: Reached, moment: Moment) -> NeighborSlice:
    after = query.after or Mark(1, "")
    wanted = query.page_size + 1
    page: list[str] = []
    for hops in range(after.hops, reached.depth + 1):
        behind = after.entity if hops == after.hops else ""
        page += first_names(view.entities, reached.at(hops), behind, wanted - len(page))
        if len(page) == wanted:
            break
    found = _neighbors(view, reached, moment, page[: query.page_size])
    return NeighborSlice(
        neighbors=found,
        next=Mark(found[-1].hops, found[-1].entity) if len(page) == wanted else None,
        total=sum(len(ring) for ring in reached.rings[1:]),
    )


def _neighbors(view: View, reached: Reached, moment: Moment, entities: list[str]) -> list[Neighbor]:
    numbers = [view.entities.numbered(entity) for entity in entities]
    edges: I32 = reached.edge[numbers]
    confidence, trust = view.confidence(edges, moment), view.trust(edges, moment)
    return [
        Neighbor(
            entity=entity,
            relation=view.relations.text(int(view.relation[edges[n]])),
            hops=int(reached.hops[numbers[n]]),
            confidence=float(confidence[n]),
            source_trust=float(trust[n]),
            path=reached.path(view, numbers[n]),
        )
        for n, entity in enumerate(entities)
    ]
