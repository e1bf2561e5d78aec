"""Short paths between entities along ref facts, newest edges first (abmind's S8)."""

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from engramlog.projections.arrays import I32
from engramlog.projections.ascending import ranges
from engramlog.projections.image.view import View
from engramlog.projections.normalization import entity_display

JOINED_EDGES_MAX = 2_048
"""Edges at each end of two-hop paths, the newest: a hub has more than anyone reads."""

Walkable = Callable[[I32], I32]
"""Keeps the slots of edges that the walk may follow; called on edges only."""


class Path(Struct, frozen=True):
    """Edges, by slot, that lead one after the other from one entity to another."""

    edges: tuple[int, ...]

    @property
    def hops(self) -> int:
        return len(self.edges)

    def text(self, view: View) -> str:
        """The path in words: ``alice —[works-at]→ acme —[located-in]→ budapest``."""
        words = [_display(view, int(view.entity[self.edges[0]]))]
        for slot in self.edges:
            relation = view.relations.text(int(view.relation[slot]))
            words.append(f"—[{relation}]→ {_display(view, int(view.object[slot]))}")
        return " ".join(words)


def edges_of(view: View, entities: I32, walkable: Walkable) -> I32:
    """Walkable edges from or to any of the entities, newest first."""
    both = np.concatenate((_edges_from(view, entities), _edges_to(view, entities)))
    return _newest(view, walkable(np.unique(both)))


def paths_between(
    view: View, starts: I32, ends: I32, walkable: Walkable, *, one_hop: int, two_hops: int
) -> list[Path]:
    """Paths between two groups of entities: at most ``one_hop`` edges in either direction, then at
    most ``two_hops`` paths over one entity in between. Two-hop paths from the ends to the starts
    count only if none leads from the starts to the ends."""
    direct = np.concatenate(
        (_direct(view, starts, ends, walkable), _direct(view, ends, starts, walkable))
    )
    found = [Path((slot,)) for slot in _newest(view, np.unique(direct))[:one_hop].tolist()]
    if two_hops:
        over = _two_hop_paths(view, starts, ends, walkable) or _two_hop_paths(
            view, ends, starts, walkable
        )
        found += over[:two_hops]
    return found


def _direct(view: View, starts: I32, ends: I32, walkable: Walkable) -> I32:
    leaving = _edges_from(view, starts)
    return walkable(leaving[np.isin(view.object[leaving], ends)])


def _two_hop_paths(view: View, starts: I32, ends: I32, walkable: Walkable) -> list[Path]:
    """Paths of two edges; those whose older edge is newest come first."""
    first, second = _edges_from(view, starts), _edges_to(view, ends)
    outside = np.concatenate((starts, ends))
    first = first[~np.isin(view.object[first], outside)]
    first = first[np.isin(view.object[first], view.entity[second])]
    second = second[np.isin(view.entity[second], view.object[first])]
    first, second = walkable(first), walkable(second)
    # Again, now of walkable ones alone: edges that hidden facts continue take no place.
    first = first[np.isin(view.object[first], view.entity[second])]
    second = second[np.isin(view.entity[second], view.object[first])]
    first, second = (_newest(view, each)[:JOINED_EDGES_MAX] for each in (first, second))
    second = second[np.argsort(view.entity[second], kind="stable")]
    middles = view.entity[second]
    low = middles.searchsorted(view.object[first], side="left")
    high = middles.searchsorted(view.object[first], side="right")
    left, right = np.repeat(first, high - low), second[ranges(low, high)]
    edges = np.unique(np.concatenate((left, right)))
    rank = np.empty(len(edges), dtype=np.int64)
    rank[edges.searchsorted(view.by_age(edges))] = np.arange(len(edges))
    one, other = rank[edges.searchsorted(left)], rank[edges.searchsorted(right)]
    order = np.lexsort((-one, -np.maximum(one, other), -np.minimum(one, other)))
    return [Path((int(left[n]), int(right[n]))) for n in order]


def _newest(view: View, slots: I32) -> I32:
    return view.by_age(slots)[::-1]


def _edges_from(view: View, entities: I32) -> I32:
    slots, _ = view.entity_lists(entities)
    return slots[view.object[slots] >= 0]


def _edges_to(view: View, entities: I32) -> I32:
    return view.object_lists(entities)[0]


def _display(view: View, entity: int) -> str:
    text = view.entities.text(entity)
    return entity_display(text) or text
