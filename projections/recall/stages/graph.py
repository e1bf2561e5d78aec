"""Graph expansion (seed §20.3.3, stage 3): facts of entities near the query's.

An entity reached over edge x in h hops gives each of its facts ``(1 / (1 + h)) * x.confidence /
ln(1 + out_degree(x.subject))``: the best such edge, at the fewest hops. A seed that is a seed only
through its hit may be reached from another seed. Out-degrees count visible edges only. Seeds are
the request's entity, or the entities that the query names and those of the best earlier hits.
"""

from collections.abc import Callable, Mapping
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from engramlog.projections.arrays import F64, I32, I64
from engramlog.projections.ascending import distinct
from engramlog.projections.graph.neighbors import LOOKUPS_MAX, Reached, best_edges, expand
from engramlog.projections.normalization import normalize_uri
from engramlog.projections.recall.request_facts import Survey
from engramlog.projections.recall.stages.candidates import Candidates, StageDisabled

ENTITIES_PER_HOP_MAX = 256
"""Entities expanded and scored per hop, best edges first."""
FACTS_PER_ENTITY_MAX = 64
"""Facts of a reached entity that become candidates by the graph alone, newest first."""
NAMED_SEEDS_MAX = 16


class Parameters(Struct, frozen=True, forbid_unknown_fields=True):
    """The seeds of the walk, and additional scores.

    Attributes:
        seed_facts: this many of the best earlier hits give their entities as seeds.
        named_score: graph score of facts of an entity in the request (0 hops, no edge).
        edge_facts: whether the fact behind the edge also gets the edge's score.
    """

    seed_facts: Annotated[int, Meta(ge=0, le=100)] = 10
    named_score: Annotated[float, Meta(ge=0, le=1)] = 1.0
    edge_facts: bool = False


def run(survey: Survey, parameters: Parameters, earlier: Mapping[str, Candidates]) -> Candidates:
    """Facts of every entity within ``survey.depth`` hops of a seed. Raises StageDisabled: depth 0,
    or neighbours not wanted."""
    if survey.depth == 0:
        raise StageDisabled("depth is 0")
    if not survey.request.include_neighbors:
        raise StageDisabled("include_neighbors is false")
    view = survey.view
    named = named_entities(survey, earlier)
    entity_count = len(view.entities)
    best = np.zeros(entity_count)
    best[named] = parameters.named_score
    if survey.focus is None:
        mentioned = _entities_of_best_hits(survey, parameters.seed_facts, earlier)
        seeds = distinct(np.concatenate([named, mentioned]))
    else:
        seeds = named
    reached = Reached(entity_count, seeds)
    if len(seeds):
        _walk(survey, reached, best)
    return _facts(survey, parameters, reached, best, earlier)


def named_entities(survey: Survey, earlier: Mapping[str, Candidates]) -> I32:
    """Entities in the request: its own, or those whose URI or display name is in the query and that
    an earlier hit mentions."""
    if survey.focus is not None:
        return np.array([n for n in (survey.focus,) if n >= 0], dtype=np.int32)
    view, query = survey.view, survey.request.query
    found = {n for word in query.split() if (n := _number(survey, word)) is not None}
    found.update(view.spelled_out(query, _entities_mentioned(survey, earlier)))
    first = sorted(found, key=view.entities.text)[:NAMED_SEEDS_MAX]
    return np.array(sorted(first), dtype=np.int32)


def _number(survey: Survey, word: str) -> int | None:
    """The number of an entity written out in the query, if a visible fact names it."""
    view, visible = survey.view, survey.visible_mask
    try:
        number = view.entities.number(normalize_uri(word.strip("?!.,;\"'()")))
    except ValueError:
        return None
    if number is None:
        return None
    spoken_of = visible[view.entity_slots(number)].any() or visible[view.object_slots(number)].any()
    return number if spoken_of else None


def _entities_mentioned(survey: Survey, earlier: Mapping[str, Candidates]) -> I32:
    view = survey.view
    columns = (view.entity, view.object)
    both = [column[hits.slots] for hits in earlier.values() for column in columns]
    mentioned = distinct(np.concatenate(both)) if both else np.empty(0, dtype=np.int32)
    return mentioned[mentioned >= 0]


def _entities_of_best_hits(survey: Survey, count: int, earlier: Mapping[str, Candidates]) -> I32:
    """Entities of the ``count`` best facts of every earlier stage."""
    slots = [hits.best(count).slots for hits in earlier.values()]
    return survey.view.entity[np.concatenate(slots)] if slots else np.empty(0, dtype=np.int32)


def _walk(survey: Survey, reached: Reached, best: F64) -> None:
    view = survey.view
    for hop in range(1, survey.depth + 1):
        slots, targets = expand(view, reached.frontier, survey.walkable)
        between = view.entity[slots] != view.object[slots]  # an entity does not reach itself
        slots, targets = slots[between], targets[between]
        guard = np.log1p(_out_degree(survey, view.entity[slots]).astype(np.float64))
        scores = view.confidence(slots, survey.moment) / guard / (1 + hop)
        # A seed through a hit alone has no score: another seed may reach it.
        settled = reached.seen & ((best > 0) | (hop > 1))
        found, edge, score = best_edges(view, slots, targets, scores, settled)
        kept = np.lexsort((*view.ages(edge), -score))[:ENTITIES_PER_HOP_MAX]
        reached.add(found[kept], edge[kept])
        best[found[kept]] = score[kept]


def _out_degree(survey: Survey, subjects: I32) -> I64:
    """The number of visible edges of each subject."""
    view, visible = survey.view, survey.visible_mask
    distinct, of = np.unique(subjects, return_inverse=True)
    if len(distinct) <= LOOKUPS_MAX:
        slots, lengths = view.entity_lists(distinct)
        owner = np.repeat(np.arange(len(distinct)), lengths)
        owner = owner[visible[slots] & (view.object[slots] >= 0)]
        degree: I64 = np.bincount(owner, minlength=len(distinct))
        return degree[of]
    edges = (visible & (view.object >= 0)).nonzero()[0]
    degree = np.bincount(view.entity[edges], minlength=len(view.entities))
    return degree[subjects]


def _facts(
    survey: Survey,
    parameters: Parameters,
    reached: Reached,
    best: F64,
    earlier: Mapping[str, Candidates],
) -> Candidates:
    """Facts of the reached entities: all hits of earlier stages, and the newest others."""
    view, mask = survey.view, survey.survivor_mask
    targets = ((reached.edge >= 0) & parameters.edge_facts).nonzero()[0]
    walked = reached.edge[targets]
    parts = [hits.slots[best[view.entity[hits.slots]] > 0] for hits in earlier.values()]
    parts.append(walked[mask[walked]])
    focus = -1 if survey.focus is None else survey.focus
    reached_or_named = best.nonzero()[0].astype(np.int32)
    parts.append(newest_facts(survey, reached_or_named, view.entity_lists, focus))
    slots: I32 = distinct(np.concatenate(parts))
    scores = best[view.entity[slots]]
    surviving = mask[walked]
    np.maximum.at(scores, np.searchsorted(slots, walked[surviving]), best[targets[surviving]])
    hops = np.maximum(reached.hops[view.entity[slots]], 0)

    def why(chosen: I32) -> list[list[str]]:
        return [_why(survey, reached, slot) for slot in chosen.tolist()]

    return Candidates(slots, scores, hops, why, ages=view.ages)


def newest_facts(
    survey: Survey, entities: I32, lists: Callable[[I32], tuple[I32, I64]], whole: int = -1
) -> I32:
    """The newest facts of each entity's list that pass the gate, up to a bound; all in the list of
    ``whole``. ``lists``: the entities' lists, which share no slot, as one, and their lengths."""
    view, mask = survey.view, survey.survivor_mask
    slots, lengths = lists(entities)
    owner = np.repeat(entities, lengths)
    kept = mask[slots]
    slots, owner = slots[kept], owner[kept]
    if len(slots):
        # One call of the gate for all entities: it judges facts one by one.
        order = np.argsort(slots)  # every fact has one entity: no slot occurs twice
        passed = np.zeros(len(slots), dtype=np.bool_)
        passed[order[slots[order].searchsorted(survey.admits(slots))]] = True
        slots, owner = slots[passed], owner[passed]
    slots = view.by_age(slots, owner)
    ends = owner.searchsorted(owner, side="right")
    recent = ends - np.arange(len(owner)) <= FACTS_PER_ENTITY_MAX
    return slots[recent | (owner == whole)]


def _why(survey: Survey, reached: Reached, slot: int) -> list[str]:
    view = survey.view
    number = int(view.entity[slot])
    edge = int(reached.edge[number])
    if edge < 0:
        return [f"graph: about {view.entities.text(number)}"]
    start = view.entities.text(reached.before(view, number))
    relation = view.relations.text(int(view.relation[edge]))
    return [f"graph: {reached.hops[number]} hop from {start} by {relation}"]
