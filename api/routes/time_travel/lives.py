"""The lives of facts and entities: every event that touched them."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from aiohttp import web
from msgspec import to_builtins

from engramlog.api.answers.compact_facts import statement
from engramlog.api.answers.fact_record import ShortFact, wire_moment
from engramlog.api.answers.same_fields import shaped
from engramlog.api.answers.time_travel import (
    BeliefPoint,
    EntityLife,
    ErasedFact,
    FactLife,
    TouchRecord,
)
from engramlog.api.commands.entity_names import entity_named
from engramlog.api.http.bodies import answer
from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded, plain
from engramlog.api.http.routing import Routes
from engramlog.api.http.table_files import records_as
from engramlog.api.routes.time_travel.log import chains_of, journal_of
from engramlog.api.schemas.facts import MomentQuery
from engramlog.api.schemas.time_travel import LifeQuery
from engramlog.eventlog.identifiers import id_bytes
from engramlog.projections.arrays import I32
from engramlog.projections.audit.changes import belief_curve
from engramlog.projections.audit.lives import RECALLS, Touch, touches
from engramlog.projections.audit.log_pages import Chains
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import known, may_know_settlement, readable_of
from engramlog.projections.moment import Moment, format_instant
from engramlog.projections.tables.facts.erasures import erasure_of

routes = Routes("time travel")


@routes.add(
    "GET /v1/time-travel/facts/{fact_id}",
    permission="read",
    answers={200: FactLife},
    errors=(400, 501),
    long=True,
    headers=("Stigmem-Session",),
    delegable=True,
)
def life_of_fact(call: Call, query: LifeQuery) -> web.Response:
    """Every event that touched a fact, with actor, cause and the confidence after it."""
    body = _life(call, query)
    call.note_facts([] if body.fact is None else [body.fact])
    return _answer(body, query)


def _life(call: Call, query: LifeQuery) -> FactLife:
    view, moment = call.at(MomentQuery(as_of=query.as_of))
    slot = view.slot_of(call.segment("fact_id"))
    named: I32 = np.array([] if slot is None else [slot], dtype=np.int32)
    if slot is None or not len(known(view, call.authorization.alone(), moment, named)):
        return _erased_life(call, query, view, moment)
    record = call.record(view, slot, moment)
    first = int(view.from_position[slot])
    found = _touches(call, query, first, moment, [record.id], partial(_may_see, call, view))
    sweeps = view.sweep_positions()
    return FactLife(
        fact=record,
        events=_events(call, view, found[: query.limit]),
        belief=[
            shaped(point, BeliefPoint, at=format_instant(call.node.log.received_at(point.position)))
            for point in belief_curve(view, slot, moment.position, sweeps)
        ],
        truncated=len(found) > query.limit,
        moment=wire_moment(moment),
    )


def _touches(
    call: Call,
    query: LifeQuery,
    first: int,
    moment: Moment,
    facts: Sequence[str] | Callable[[str], bool],
    seen: Callable[[Touch], bool],
    last: int | None = None,
) -> list[Touch]:
    """The events that the query asks for, from position ``first`` at the earliest, to ``last`` or
    the moment, and one more."""
    first = max(first, query.after + 1)
    last = moment.position if last is None else last
    with call.service.archive.reading(moment.position) as sources:
        return touches(sources, first, last, facts, query.limit + 1, seen, query.only)


def _erased_life(call: Call, query: LifeQuery, view: View, moment: Moment) -> FactLife:
    """The remains of an erased fact, for callers who may know of it: the events that name it, if
    the caller may read another of their facts. Raises ApiError 404 for all others, as for a fact
    that never existed."""
    fact = call.segment("fact_id")
    erasure = call.node.reader.ask(erasure_of, fact) if call.authorization.may("admin") else None
    if erasure is None or call.node.reader.slot_of(fact) is not None:
        raise plain("fact_not_found")
    found = _touches(call, query, 1, moment, [fact], partial(_may_see_remains, call, view))
    return FactLife(
        fact=None,
        events=_events(call, view, found[: query.limit]),
        belief=[],
        truncated=len(found) > query.limit,
        moment=wire_moment(moment),
        erased=ErasedFact(fact, erasure),
    )


@routes.add(
    "GET /v1/time-travel/entities/{entity_uri:.+}",
    permission="read",
    answers={200: EntityLife},
    errors=(400, 501),
    long=True,
    headers=("Stigmem-Session",),
    delegable=True,
)
def life_of_entity(call: Call, query: LifeQuery) -> web.Response:
    """Every event that touched a fact about an entity, oldest first, and what these facts state."""
    view, moment = call.at(MomentQuery(as_of=query.as_of))
    entity = entity_named(call, call.segment("entity_uri"), moment.position)
    slots = view.slots_about(entity)
    slots = slots[view.from_position[slots] <= moment.position]
    slots = slots[call.authorization.mask(view, slots)]
    if not len(slots):
        raise coded("entity_not_found", f"no facts about {entity} are known")
    own = set(slots.tolist())
    found = _touches_of_entity(call, query, view, moment, slots, own)
    events = _events(call, view, found[: query.limit])
    named = {view.slot_of(fact) for event in events for fact in event.fact_ids}
    at: I32 = np.array(sorted(own.intersection(named)), dtype=np.int32)
    records = call.records(view, at, moment)
    call.note_facts(records)
    body = EntityLife(
        entity=entity,
        facts=len(slots),
        events=events,
        stated=[ShortFact(*statement(each)) for each in records],
        truncated=len(found) > query.limit,
        moment=wire_moment(moment),
    )
    return _answer(body, query)


def _touches_of_entity(
    call: Call, query: LifeQuery, view: View, moment: Moment, slots: I32, own: set[int]
) -> list[Touch]:
    """``_touches`` of an entity's facts (``slots``, ascending, and as ``own``). A page reads no
    further than the statements that fill it, and compares what is nearer with the facts, or all
    facts with what is farther (it may name facts that are stated later): whichever are fewer."""
    asserted = view.from_position[slots]
    first, last = int(asserted[0]), moment.position
    later = asserted[asserted > query.after]
    if query.only != "recalls" and len(later) > query.limit:
        last = int(later[query.limit])
    if last - max(first, query.after) < len(asserted):
        facts = partial(_is_of, view, own)
    else:
        facts = [row.id for row in call.node.reader.rows(asserted.tolist())]
    return _touches(call, query, first, moment, facts, partial(_may_see, call, view), last)


def _is_of(view: View, own: set[int], fact: str) -> bool:
    slot = view.slot_of(fact)
    return slot is not None and slot in own


def _answer(body: FactLife | EntityLife, query: LifeQuery) -> web.Response:
    if query.format == "json":
        return answer(body)
    return records_as(query.format, "life", "position", to_builtins(body.events))


def _may_see(call: Call, view: View, touch: Touch) -> bool:
    """Receipts are visible to their callers and auditors; settlements and denials to callers who
    may read both sides."""
    rights = call.authorization
    if touch.kind == "fact_denied":
        marker, *denied = touch.fact_ids
        return may_know_settlement(view, rights, marker, denied)
    if touch.winner_id is not None:
        return may_know_settlement(view, rights, touch.winner_id, touch.loser_ids or ())
    return (
        touch.kind not in RECALLS
        or touch.actor == rights.principal
        or rights.may("audit.read")
        or rights.may("admin")
    )


def _may_see_remains(call: Call, view: View, touch: Touch) -> bool:
    """The machine's owner sees every event of an erased fact."""
    rights = call.authorization
    if rights.every_garden or touch.kind == "fact_erased":
        return True
    return _may_see(call, view, touch) and bool(readable_of(view, rights, touch.fact_ids))


def _events(call: Call, view: View, found: Sequence[Touch]) -> list[TouchRecord]:
    chains = chains_of(call, journal_of(call, view))
    return [_event(call, view, touch, chains) for touch in found]


def _event(call: Call, view: View, touch: Touch, chains: Chains) -> TouchRecord:
    """An event, redacted to the facts that the caller may read."""
    shown = list(readable_of(view, call.authorization, touch.fact_ids))
    cause = touch.causation_id
    if cause is not None and chains.known(id_bytes(cause)) is None:
        cause = None
    return shaped(
        touch,
        TouchRecord,
        causation_id=cause,
        fact_ids=shown,
        winner_id=touch.winner_id if touch.winner_id in shown else None,
    )
