"""Restates the parts of another log beyond plain facts: deltas and summaries with their facts, runs
of rules, rejections, reads of episodes, reviews.

Nothing is derived again: changed rules, or other decisions that this node would make, do not alter
what happened. Parts already applied here are skipped.
"""

from collections.abc import Iterable

import msgspec

from engramlog.eventlog.event import Draft, fact_partition
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import AppliedDelta, DeltaApplied, FactRetracted, SummaryRecorded
from engramlog.projections.memories.attribute_rules import misplaced
from engramlog.projections.moment import LIVE
from engramlog.projections.summaries.reading import current_paragraphs
from engramlog.projections.tables.database import json_list, query
from engramlog.projections.writing.commands import CommandRefused, Refused
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decide.declared.gardens import check_writing
from engramlog.projections.writing.decide.facts.asserting import MISPLACED
from engramlog.projections.writing.memory_commands import RestateBatch, RestatedFact

_KNOWN = """
SELECT d.delta_id, f.source, d.fact_id FROM deltas d
LEFT JOIN fact_rows f ON f.id=d.fact_id AND f.received_from IS NULL
WHERE d.delta_id IN (SELECT value FROM json_each(?)) AND d.peer IS NULL
"""
_THERE = "SELECT id, to_position FROM fact_rows WHERE id IN (SELECT value FROM json_each(?))"


def restate_batch(command: RestateBatch, context: Context) -> Decision:
    """The event, then the facts that it ended and stated, in the given order. Refuses:
    ``fact_not_found`` if a fact is neither here nor among the new ones, and the refusals of
    ``check_writing``."""
    payload = command.payload
    check_writing(context, None, payload.garden_id, payload.scope)
    ids, payload = _without_known(command, context)
    if payload is None:
        return Decision([], created=False, detail={"facts": ids})
    restating = _Restating(payload, context, ids)
    for index, item in enumerate(command.then):
        restating.take(item, f"then.{index}")
    restating.check()
    return Decision(restating.drafts(), detail={"facts": ids})


class _Restating:
    """The drafts of one batch; ``ids`` grows by the facts it states."""

    def __init__(
        self, payload: DeltaApplied | SummaryRecorded, context: Context, ids: dict[str, str]
    ) -> None:
        self._payload = payload
        self._context = context
        self._ids = ids
        self._partition = fact_partition(payload.scope, payload.garden_id)
        self._event_id = context.identifiers.next(context.now_us)
        self._drafts: list[Draft] = []
        self._fresh: set[str] = set()
        self._ended: list[str] = []
        self._reason = ""

    def take(self, item: RestatedFact, place: str) -> None:
        """State a fact, or end one. Raises CommandRefused."""
        if item.fact is None:
            self._end(self._ids.get(item.ends, item.ends), item.reason)
            return
        if item.key in self._ids:
            return  # of a delta that was applied before
        if misplaced(item.fact.attributes, item.fact.scope, item.fact.garden_id):
            refused = msgspec.structs.replace(MISPLACED, field=f"{place}.attributes")
            raise CommandRefused(refused)
        self._close()
        draft = self._context.draft(item.fact, self._partition, self._event_id)
        self._ids[item.key] = id_text(draft.event_id)
        self._fresh.add(self._ids[item.key])
        self._drafts.append(draft)
        fact = item.fact
        key = (fact.entity, fact.relation, fact.scope, fact.garden_id)
        self._context.undecided.touched.add(key)

    def check(self) -> None:
        """Raises CommandRefused if the batch names a fact that is not here."""
        named = set(_named(self._payload, self._ids)) - self._fresh
        missing = sorted(named - _there(named, self._context).keys())
        if missing:
            message = f"there is no fact {missing[0]!r}"
            raise CommandRefused(Refused("fact_not_found", message, "deltas"))

    def drafts(self) -> list[Draft]:
        """The event itself, and everything that it caused."""
        self._close()
        payload = _with_ids(self._payload, self._ids)
        actor = self._context.actor
        return [Draft(payload, self._partition, self._event_id, actor), *self._drafts]

    def _end(self, fact: str, reason: str) -> None:
        if reason != self._reason:
            self._close()
        if fact in self._fresh or _there([fact], self._context).get(fact) == LIVE:
            self._reason = reason
            self._ended.append(fact)

    def _close(self) -> None:
        """Draft the retraction of the collected facts."""
        if self._ended:
            ended = FactRetracted(fact_ids=list(dict.fromkeys(self._ended)), reason=self._reason)
            self._drafts.append(self._context.draft(ended, self._partition, self._event_id))
        self._ended = []


def _without_known(
    command: RestateBatch, context: Context
) -> tuple[dict[str, str], DeltaApplied | SummaryRecorded | None]:
    """Existing facts by key, and what remains to state, if anything."""
    payload = command.payload
    if isinstance(payload, SummaryRecorded):
        same = _same_summary(command, payload, context)
        return (same, None) if same is not None else ({}, payload)
    asked = json_list(delta.delta_id for delta in payload.deltas)
    known: dict[str, dict[str | None, str | None]] = {}
    for name, source, fact in query(context.db, _KNOWN, (asked,)):
        known.setdefault(name, {})[source] = fact
    sources = {item.key: item.fact.source for item in command.then if item.fact is not None}
    ids: dict[str, str] = {}
    left: list[AppliedDelta] = []
    for delta in payload.deltas:
        of_source = known.get(delta.delta_id, {})
        source = sources.get(delta.fact_id or "")
        if source is not None:  # several sources may state the same delta; None: its fact is erased
            of_source = {each: of_source[each] for each in (source, None) if each in of_source}
        if not of_source:
            left.append(delta)
        elif delta.fact_id is not None and (fact := next(iter(of_source.values()))) is not None:
            ids[delta.fact_id] = fact
    return ids, msgspec.structs.replace(payload, deltas=left) if left else None


def _same_summary(
    command: RestateBatch, summary: SummaryRecorded, context: Context
) -> dict[str, str] | None:
    """The current paragraphs by key, if the summary already has exactly this text."""
    partition = fact_partition(summary.scope, summary.garden_id)
    standing = current_paragraphs(context.db, partition, summary.owner, summary.name)
    if standing is None or summary.removed:
        return None
    texts = {item.key: item.fact.value.v for item in command.then if item.fact is not None}
    by_id = {each.fact_id: each.text for each in standing}
    wanted = [texts.get(fact, by_id.get(fact)) for fact in summary.fact_ids]
    if [each.text for each in standing] != wanted:
        return None
    return {
        fact: each.fact_id
        for fact, each in zip(summary.fact_ids, standing, strict=True)
        if fact in texts
    }


def _named(payload: DeltaApplied | SummaryRecorded, ids: dict[str, str]) -> list[str]:
    """Every fact that must exist here, by id."""
    if isinstance(payload, SummaryRecorded):
        named = [*payload.fact_ids, *payload.retracted]
    else:
        named = [each for delta in payload.deltas for each in delta.retracted]
        named += [delta.fact_id for delta in payload.deltas if delta.fact_id is not None]
    return [ids.get(name, name) for name in named]


def _with_ids(
    payload: DeltaApplied | SummaryRecorded, ids: dict[str, str]
) -> DeltaApplied | SummaryRecorded:
    """The payload with fact ids in place of keys."""
    if isinstance(payload, SummaryRecorded):
        return msgspec.structs.replace(
            payload,
            fact_ids=[ids.get(fact, fact) for fact in payload.fact_ids],
            retracted=[ids.get(fact, fact) for fact in payload.retracted],
        )
    return msgspec.structs.replace(
        payload, deltas=[_delta_with_ids(delta, ids) for delta in payload.deltas]
    )


def _delta_with_ids(delta: AppliedDelta, ids: dict[str, str]) -> AppliedDelta:
    return msgspec.structs.replace(
        delta,
        fact_id=None if delta.fact_id is None else ids.get(delta.fact_id, delta.fact_id),
        retracted=[ids.get(fact, fact) for fact in delta.retracted],
        replaces=[ids.get(fact, fact) for fact in delta.replaces],
    )


def _there(facts: Iterable[str], context: Context) -> dict[str, int]:
    """The position at which each of these facts ends; existing facts only."""
    return dict(query(context.db, _THERE, (json_list(facts),)))
