"""Answers a repeated request from the record under its idempotency key.

Nothing is decided again. The outcomes are those kept in ``request_answered``, or the recorded
events matched to the request's commands in order. A command that recorded nothing gets the equal
fact that answered it then. A request that wrote nothing and has no answer was refused: it is
decided again.
"""

from collections.abc import Sequence
from typing import Any

import apsw
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import (
    ConflictResolved,
    FactAsserted,
    FactAttributesSet,
    FactRetracted,
    KeyIssued,
    KeyRevoked,
    MemoriesMerged,
    Outcome,
    PolicySet,
    RequestAnswered,
)
from engramlog.projections.tables.database import query_value
from engramlog.projections.tables.facts.facts import fact_id
from engramlog.projections.writing.commands import (
    AssertFact,
    Command,
    Done,
    Refused,
    RefusedItem,
    ResolveConflict,
    RetractFact,
    RetractMatching,
    SetAttributes,
)
from engramlog.projections.writing.memory_commands import MergeMemories, StoreMemory

_EQUAL = """
SELECT id FROM fact_rows
WHERE entity=? AND relation=? AND scope=? AND garden_id IS ? AND source=? AND cid=?
  AND valid_from IS ? AND valid_until IS ?
ORDER BY received_from IS NOT NULL, hlc DESC LIMIT 1
"""
NOT_KEPT = Refused("outcome_not_kept", "refused when first asked; the reason was not kept")
"""For an item of a batch that was refused before the writer, and of one that an earlier version
answered."""
_WRITING = (
    AssertFact,
    RetractFact,
    RetractMatching,
    ResolveConflict,
    KeyIssued,
    KeyRevoked,
    PolicySet,
    MergeMemories,
    RefusedItem,
)
"""Commands that always record something, are refused, or get an equal fact as answer."""


def kept_outcomes(outcomes: Sequence[Done | Refused]) -> RequestAnswered | None:
    """The outcomes to keep; None if the request's events suffice."""
    if len(outcomes) == 1 or all(isinstance(each, Done) and each.events for each in outcomes):
        return None
    return RequestAnswered(outcomes=[_kept(each) for each in outcomes])


def _kept(outcome: Done | Refused) -> Outcome:
    if isinstance(outcome, Refused):
        code, where = outcome.code, outcome.field
        return Outcome(refused=code, message=outcome.message, where=where)
    return Outcome(
        events=len(outcome.events), fact_id=outcome.fact_id, retracted=list(outcome.retracted)
    )


class _Unmatched(Struct):
    """Recorded events not yet matched to a command, in order."""

    events: list[Recorded]

    def take(self, command: Command) -> list[Recorded]:
        """The first events that ``command`` can have caused."""
        if isinstance(command, RefusedItem):
            return []
        if isinstance(command, StoreMemory | MergeMemories):  # commands with their own rules
            taken, self.events = self.events, []
            return taken
        for index, event in enumerate(self.events):
            if _came_of(command, event):
                end = index + 1
                while end < len(self.events) and _follows(event, self.events[end]):
                    end += 1
                taken = self.events[index:end]
                del self.events[index:end]
                return taken
        return []


def replayed_outcomes(
    commands: Sequence[Command], events: Sequence[Recorded], db: apsw.Connection
) -> list[Done | Refused] | None:
    """One outcome per command, as the first request was answered; ``created`` is False. None if the
    request was refused and wrote nothing."""
    if events and isinstance(kept := events[-1].payload, RequestAnswered):
        if len(kept.outcomes) == len(commands):
            return _as_kept(kept, events)
        events = events[:-1]  # of an earlier version, without the items refused before the writer
    left = _Unmatched(list(events))
    outcomes = [_outcome(command, left.take(command), db) for command in commands]
    refused = not events and any(isinstance(each, Refused) for each in outcomes)
    return None if refused else outcomes


def _as_kept(answered: RequestAnswered, events: Sequence[Recorded]) -> list[Done | Refused]:
    outcomes: list[Done | Refused] = []
    start = 0
    for each in answered.outcomes:
        if each.refused is not None:
            outcomes.append(Refused(each.refused, each.message, each.where))
            continue
        own = list(events[start : start + each.events])
        start += each.events
        retracted = tuple(each.retracted)
        detail: dict[str, Any] = {"replayed": True}
        outcomes.append(
            Done(own, fact_id=each.fact_id, created=False, retracted=retracted, detail=detail)
        )
    return outcomes


def _came_of(command: Command, event: Recorded) -> bool:
    """Whether a command can have caused this event."""
    payload = event.payload
    if isinstance(command, AssertFact):
        stated = command.fact
        return (
            isinstance(payload, FactAsserted)
            and payload.entity == stated.entity
            and payload.relation == stated.relation
            and payload.cid == stated.cid
            and payload.valid_from == stated.valid_from
            and payload.valid_until == stated.valid_until
            and payload.garden_id == stated.garden_id
        )
    if isinstance(command, RetractFact):
        return isinstance(payload, FactRetracted) and payload.fact_ids == [command.fact_id]
    if isinstance(command, RetractMatching):
        return isinstance(payload, FactRetracted)
    return True


def _follows(first: Recorded, event: Recorded) -> bool:
    """Whether an event is of the same command: its first event or an effect caused by it."""
    return event.header.causation_id is not None and (
        event.header.causation_id == first.event_id or isinstance(event.payload, ConflictResolved)
    )


def _outcome(command: Command, events: list[Recorded], db: apsw.Connection) -> Done | Refused:
    """The outcome that a command had, from the events that it caused; ``NOT_KEPT`` if a write
    caused none."""
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
    if fact is None and isinstance(command, SetAttributes):
        fact = command.fact_id
    if fact is None and isinstance(command, AssertFact):
        fact = _equal_fact(command.fact, db)
    if fact is None and isinstance(command, StoreMemory):
        fact = _equal_fact(command.assertion.fact, db)
    if not events and fact is None and isinstance(command, _WRITING):
        return NOT_KEPT
    return Done(events, fact_id=fact, created=False, retracted=retracted, detail=detail)


def _equal_fact(fact: FactAsserted, db: apsw.Connection) -> str | None:
    key = (fact.entity, fact.relation, fact.scope, fact.garden_id)
    said = (fact.source, fact.cid, fact.valid_from, fact.valid_until)
    return query_value(db, _EQUAL, (*key, *said))
