"""Answering a repeated request from what its idempotency key recorded the first time.

Nothing is decided anew: the recorded events are matched to the request's intents in order.
An intent that recorded nothing then is answered by the equal fact that stood already, or
refused again.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw
from msgspec import Struct

from eventlog.event import Recorded
from eventlog.kinds import (
    ConflictResolved,
    FactAsserted,
    FactAttributesSet,
    FactRetracted,
    KeyIssued,
    MemoriesMerged,
)
from projections.database import query_one
from projections.deciding.gardens import touch_refusal, write_refusal
from projections.facts import fact_id
from projections.intents import (
    AssertFact,
    Done,
    Intent,
    IssueKey,
    MergeMemories,
    Refused,
    ResolveConflict,
    RetractFact,
    RetractMatching,
    RevokeKey,
    SetAttributes,
    SetPolicy,
    StoreMemory,
)

_EQUAL = """
SELECT id FROM facts
WHERE entity=? AND relation=? AND scope=? AND garden_id IS ? AND source=? AND cid=?
  AND valid_from IS ? AND valid_until IS ?
ORDER BY hlc DESC LIMIT 1
"""
_PLACE = "SELECT scope, garden_id FROM facts WHERE id=?"
_REFUSALS: dict[type[Intent], Refused] = {
    AssertFact: Refused("provenance_cycle_detected", "refused when first asked", "derived_from"),
    RetractFact: Refused("fact_not_found", "fact not found", "id"),
    RetractMatching: Refused("fact_not_found", "no live fact matched", "match"),
    ResolveConflict: Refused("conflict_not_found", "conflict not found"),
    IssueKey: Refused("key_exists", "raw_key already exists; choose another", "raw_key"),
    RevokeKey: Refused("key_not_found", "key not found", "key_id"),
    SetPolicy: Refused("policy_not_found", "decay policy not found", "id"),
    MergeMemories: Refused("fact_not_found", "fact not found", "ids"),
}
"""Why intents that always record something had been refused, if they recorded nothing."""


class _Unmatched(Struct):
    """Recorded events that no intent has claimed yet, in order."""

    events: list[Recorded]

    def take(self, intent: Intent) -> list[Recorded]:
        """The first events that ``intent`` can have led to."""
        if isinstance(intent, StoreMemory | MergeMemories):  # commands of their own
            taken, self.events = self.events, []
            return taken
        for index, event in enumerate(self.events):
            if _came_of(intent, event):
                end = index + 1
                while end < len(self.events) and _follows(event, self.events[end]):
                    end += 1
                taken = self.events[index:end]
                del self.events[index:end]
                return taken
        return []


def replayed_outcomes(
    intents: Sequence[Intent], events: Sequence[Recorded], db: apsw.Connection
) -> list[Done | Refused]:
    """One outcome an intent, as the first request was answered; ``created`` is False."""
    left = _Unmatched(list(events))
    return [_outcome(intent, left.take(intent), db) for intent in intents]


def _came_of(intent: Intent, event: Recorded) -> bool:
    payload = event.payload
    if isinstance(intent, AssertFact):
        return (
            isinstance(payload, FactAsserted)
            and payload.entity == intent.entity
            and payload.relation == intent.relation
            and payload.cid == intent.cid
            and payload.valid_from == intent.valid_from
            and payload.valid_until == intent.valid_until
            and payload.garden_id == intent.garden_id
        )
    if isinstance(intent, RetractFact):
        return isinstance(payload, FactRetracted) and payload.fact_ids == [intent.fact_id]
    if isinstance(intent, RetractMatching):
        return isinstance(payload, FactRetracted)
    return True


def _follows(first: Recorded, event: Recorded) -> bool:
    """Whether an event belongs to the same intent: caused by its first, or by its effects."""
    return event.header.causation_id is not None and (
        event.header.causation_id == first.event_id or isinstance(event.payload, ConflictResolved)
    )


def _outcome(intent: Intent, events: list[Recorded], db: apsw.Connection) -> Done | Refused:
    detail: dict[str, str | bool] = {"replayed": True}
    retracted: tuple[str, ...] = ()
    fact: str | None = None
    for event in events:
        payload = event.payload
        if isinstance(payload, FactAsserted):
            fact = fact or fact_id(event)
        elif isinstance(payload, FactRetracted):
            retracted = tuple(payload.fact_ids)
            fact = fact or retracted[0]
        elif isinstance(payload, ConflictResolved):
            fact = payload.winner_id
            detail["resolution_fact_id"] = payload.resolution_fact_id
            detail["conflict_status"] = "resolved"
        elif isinstance(payload, FactAttributesSet):
            fact = fact or payload.fact_id
        elif isinstance(payload, MemoriesMerged):
            fact = payload.kept_id
        elif isinstance(payload, KeyIssued):
            detail["key_id"] = payload.key_id
    if fact is None and isinstance(intent, SetAttributes):
        fact = intent.fact_id
    if fact is None and isinstance(intent, AssertFact):
        fact = _equal_fact(intent, db)
    if fact is None and isinstance(intent, StoreMemory):
        fact = _equal_fact(intent.fact, db)
    if not events and fact is None and type(intent) in _REFUSALS:
        return _refusal(intent, db)
    return Done(events, fact_id=fact, created=False, retracted=retracted, detail=detail)


def _refusal(intent: Intent, db: apsw.Connection) -> Refused:
    if isinstance(intent, AssertFact) and intent.garden_id is not None:
        refusal = write_refusal(db, intent.garden_id, intent.scope, intent.member)
        if refusal is not None:
            return refusal
    if isinstance(intent, RetractFact):
        absent = _REFUSALS[RetractFact]
        row = query_one(db, _PLACE, (intent.fact_id,))
        if row is not None and row[0] in intent.scopes:
            refusal = touch_refusal(db, row[1], intent.member, absent)
            return refusal or Refused("fact_already_retracted", "the fact no longer holds", "id")
    return _REFUSALS[type(intent)]


def _equal_fact(intent: AssertFact, db: apsw.Connection) -> str | None:
    row = query_one(
        db,
        _EQUAL,
        (
            intent.entity,
            intent.relation,
            intent.scope,
            intent.garden_id,
            intent.source,
            intent.cid,
            intent.valid_from,
            intent.valid_until,
        ),
    )
    return None if row is None else row[0]
