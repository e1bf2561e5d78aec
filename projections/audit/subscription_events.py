"""The notices a subscriber receives of an event, filtered by the subscriber's present rights.

A notice is a function of the event, the subscription and the readable facts: hidden facts leave no
notice, no gap and no count.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias, get_args
from uuid import UUID, uuid5

import numpy as np
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import (
    ConflictResolved,
    DecaySwept,
    FactAsserted,
    FactDenied,
    FactRetracted,
)
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.contradicted_facts import are_contradicted
from engramlog.projections.image.open_denials import OpenDenials
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.view import View, everything
from engramlog.projections.image.visible_facts import may_know_settlement, readable_of
from engramlog.projections.moment import Moment
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.declared.subscriptions import SubscriptionRow
from engramlog.projections.tables.facts.cards import CardKey
from engramlog.projections.tables.facts.facts import fact_id

EventType = Literal[
    "fact_asserted", "fact_retracted", "contradiction_detected", "contradiction_resolved",
    "facts_decayed", "card_refreshed",
]  # fmt: skip
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)
Change: TypeAlias = tuple[EventType, int, dict[str, str]]
"""Its type, the slot of a fact, and details."""
_NAMESPACE = UUID("0d8d7f3e-6f7c-5a49-8d38-1f6f9f0e4b52")


class Notice(Struct, frozen=True):
    """One report. ``slot``: the fact it is about. ``id``: the same in every repetition. ``at_us``:
    when the node learned of it."""

    id: str
    type: EventType
    entity: str
    slot: int
    fact_id: str | None
    at_us: int
    detail: dict[str, str] = {}


def notices_of(
    event: Recorded,
    subscription: SubscriptionRow,
    reader: Reader,
    view: View,
    rights: Authorization,
) -> list[Notice]:
    """All notices of one event for a subscriber, in a fixed order."""
    wanted = subscription.event_types
    notices: list[Notice] = []
    for event_type, slot, detail in _changes_in(event, view, rights):
        if event_type not in wanted or not _is_subscribed(view, slot, subscription):
            continue
        row = reader.row(view, slot)
        # Not by number: if an earlier fact of the event is no longer readable, later ones keep
        # their names.
        about = row.entity if event_type == "facts_decayed" else row.id
        name = f"{subscription.id} {event.event_id.hex()} {event_type} {about}"
        notice_id = str(uuid5(_NAMESPACE, name))
        fact = None if event_type in ("facts_decayed", "card_refreshed") else row.id
        notices.append(
            Notice(notice_id, event_type, row.entity, slot, fact, event.received_at, detail)
        )
    return notices


def facts_touched(event: Recorded) -> Sequence[str] | None:
    """The ids of all facts that an event's notices may be about, for any reader; None: any fact."""
    payload = event.payload
    if isinstance(payload, FactAsserted):
        return (fact_id(event),)
    if isinstance(payload, FactRetracted | FactDenied):
        return payload.fact_ids
    if isinstance(payload, ConflictResolved):
        return (payload.winner_id,)
    return None if isinstance(payload, DecaySwept) else ()


def _is_subscribed(view: View, slot: int, subscription: SubscriptionRow) -> bool:
    if subscription.target_kind == "scope":
        return SCOPES[int(view.scope[slot])] == subscription.target
    return view.entities.text(int(view.entity[slot])) == subscription.target


def _changes_in(event: Recorded, view: View, rights: Authorization) -> Iterator[Change]:
    """Each change to a readable fact, one of ``facts_touched``."""
    payload = event.payload
    if isinstance(payload, FactAsserted):
        for slot in readable_of(view, rights, [fact_id(event)]).values():
            if payload.confidence == 0.0:
                continue  # a retraction's marker: the retractions follow
            yield "fact_asserted", slot, {}
            at = Moment(event.position, event.received_at)
            if bool(are_contradicted(view, np.array([slot], dtype=np.int32), at, rights)[0]):
                yield "contradiction_detected", slot, {}
            yield "card_refreshed", slot, _card(view, slot)
    elif isinstance(payload, FactRetracted):
        for slot in readable_of(view, rights, payload.fact_ids).values():
            if int(view.to_position[slot]) == event.position:
                yield "fact_retracted", slot, {"reason": payload.reason}
                yield "card_refreshed", slot, _card(view, slot)
    elif isinstance(payload, FactDenied):
        yield from _denial_notices(event, payload, view, rights)
    elif isinstance(payload, ConflictResolved):
        both_sides = may_know_settlement(view, rights, payload.winner_id, payload.loser_ids)
        winner = [payload.winner_id] if both_sides else []
        for slot in readable_of(view, rights, winner).values():
            yield "contradiction_resolved", slot, {"conflict_id": payload.conflict_id}
    elif isinstance(payload, DecaySwept):
        yield from _decay_notices(event, payload, view, rights)


def _denial_notices(
    event: Recorded, denial: FactDenied, view: View, rights: Authorization
) -> Iterator[Change]:
    """One notice per denied fact, for readers of the denying record."""
    at = Moment(event.position, event.received_at)
    slots = np.array(list(readable_of(view, rights, denial.fact_ids).values()), dtype=np.int32)
    for slot in slots[OpenDenials(view, at, rights).name(slots)].tolist():
        yield "contradiction_detected", slot, {}
        yield "card_refreshed", slot, _card(view, slot)


def _decay_notices(
    event: Recorded, sweep: DecaySwept, view: View, rights: Authorization
) -> Iterator[Change]:
    """One notice per entity whose facts lost confidence, about the first of them."""
    slots = everything(view)
    slots = slots[view.from_position[slots] < event.position]
    slots = slots[rights.mask(view, slots)]
    before = view.confidence(slots, Moment(event.position - 1, event.received_at))
    after = view.confidence(slots, Moment(event.position, event.received_at))
    ended = view.to_position[slots] == event.position
    changed = slots[(before != after) | ended]
    _, first = np.unique(view.entity[changed], return_index=True)
    for slot in np.sort(changed[first]).tolist():
        yield "facts_decayed", slot, {"scope": sweep.scope}


def _card(view: View, slot: int) -> dict[str, str]:
    number = int(view.garden[slot])
    garden = None if number < 0 else view.gardens.text(number)
    scope = SCOPES[int(view.scope[slot])]
    key = CardKey(view.entities.text(int(view.entity[slot])), scope, garden)
    return {"card_id": key.card_id, "scope": scope}
