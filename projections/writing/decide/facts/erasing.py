"""Erasing facts, and the holds that forbid it.

Besides a fact's own event, an erasure removes the payloads of events about erased facts alone:
retractions and reviews with their reasons, resolutions whose losers are all erased. An event that
still affects a remaining fact stays, with its note (docs/erasure.md).
"""

from collections.abc import Callable, Collection, Iterable

from engramlog.eventlog.event import NODE_STREAM, Draft, Recorded
from engramlog.eventlog.identifiers import id_bytes, id_text
from engramlog.eventlog.kinds import (
    ConflictResolved,
    DeltaApplied,
    DeltaRejected,
    EpisodeRecorded,
    ErasureCertified,
    ErasureReason,
    FactAsserted,
    FactAttributesSet,
    FactErased,
    FactRetracted,
    LegalHoldSet,
)
from engramlog.projections.moment import LIVE
from engramlog.projections.normalization import normalize_ref
from engramlog.projections.tables.database import json_list, query_column, query_one
from engramlog.projections.tables.erasing import events_at
from engramlog.projections.tables.facts.attributes import attributed
from engramlog.projections.tables.facts.erasures import find_erasure, find_erasure_receipt, held
from engramlog.projections.tables.facts.facts import fact_id
from engramlog.projections.tables.peers.protocol_facts import (
    copies_after_erasure,
    copies_of,
    unwrapped,
)
from engramlog.projections.tables.peers.remote_retractions import erasures_taking_effect
from engramlog.projections.writing.commands import EraseEvents, EraseFacts, Refused
from engramlog.projections.writing.decide.authority import covers_scope
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decide.facts.erased_set import (
    ERASED_FACTS_MAX,
    Doomed,
    facts_about,
    facts_named,
    named_elsewhere,
    source_episodes,
    with_copies,
)

GOES_WITH = frozenset(
    {
        "quarantine_reviewed",
        "content_reviewed",
        "legal_hold_set",
        "episode_recorded",
        "delta_rejected",
        "alias_set",
    }
)
"""Kinds about a single thing: they are erased with it."""
EVENTS_NAMED_MAX = 500
"""The most events that one ``fact_erased`` names; larger erasures write several."""

_ABSENT = Refused("fact_not_found", "fact not found", "id")
_SPEAKING = """
SELECT position FROM fact_retractions WHERE fact_id IN (SELECT value FROM json_each(?1))
UNION SELECT resolved_position FROM conflicts WHERE resolved_position IS NOT NULL
  AND (winner_id IN (SELECT value FROM json_each(?1))
    OR fact_id IN (SELECT value FROM json_each(?1))
    OR opened_by IN (SELECT value FROM json_each(?1)))
UNION SELECT position FROM quarantine WHERE fact_id IN (SELECT value FROM json_each(?1))
UNION SELECT from_position FROM content_reviews
  WHERE fact_id IN (SELECT value FROM json_each(?1))
UNION SELECT position FROM fact_attributes WHERE fact_id IN (SELECT value FROM json_each(?1))
UNION SELECT from_position FROM legal_holds WHERE target IN (SELECT value FROM json_each(?2))
UNION SELECT to_position FROM legal_holds WHERE target IN (SELECT value FROM json_each(?2))
"""
"""Positions of events about facts (?1) or hold targets (?2)."""
_DERIVED = """
SELECT DISTINCT facts.id FROM derivations JOIN fact_rows AS facts USING (from_position)
WHERE parent_hash IN (SELECT value FROM json_each(?))
"""


def erase_facts(command: EraseFacts, context: Context) -> Decision | Refused:
    """Erase facts and every copy of them; all or nothing. Refuses: ``fact_not_found``,
    ``scope_forbidden``, ``legal_hold`` and ``too_many_targets``."""
    db = context.db
    if command.entity is not None:
        chosen = facts_about(db, command.entity, mentions=command.mentions)
    else:
        chosen = facts_named(db, command.fact_ids)
        if len(chosen) < len(set(command.fact_ids)):
            return _ABSENT
    doomed = with_copies(db, chosen, derived=command.derived)
    if len(doomed) > ERASED_FACTS_MAX:
        return Refused(
            "too_many_targets", f"over {ERASED_FACTS_MAX} facts would go; erase fewer at a time"
        )
    events = _events(command, doomed, context)
    told = {
        event.payload.scope
        for event in events.values()
        if isinstance(event.payload, EpisodeRecorded | DeltaRejected)
    }
    if not any(covers_scope(command.rights, each) for each in told | {f.scope for f in chosen}):
        return _ABSENT
    scopes = told | {fact.scope for fact in doomed.values()}
    if not all(covers_scope(command.rights, each) for each in scopes):
        return Refused("scope_forbidden", "a copy is in a scope that this key does not cover")
    entities = {fact.entity for fact in doomed.values()}
    entities |= {normalize_ref(fact.value_v) for fact in doomed.values() if fact.is_ref}
    if command.entity is not None:
        entities.add(command.entity)
    if held(db, doomed, entities):
        return Refused("legal_hold", "a legal hold forbids erasing this; nothing was erased")
    drafts = _drafts(command.erasure_id, command.reason, events, context)
    remaining = events_at(context.log, source_episodes(db, doomed))
    detail = {
        "erasure_id": command.erasure_id,
        "fact_ids": sorted(doomed),
        "events": len(events),
        "derived_fact_ids": _derived(doomed, context),
        "episode_ids": sorted(
            {id_text(e.event_id) for e in remaining}
            - {id_text(e.event_id) for e in events.values()}
        ),
    }
    return Decision(drafts, detail=detail)


def foreign_erasures(context: Context) -> list[Draft]:
    """Local events for erasures of other nodes that may take effect here, except on held facts.
    Erased events of this node's own streams are named in those streams, so a peer that replays only
    this node can explain missing payloads. The others are named in the node's own stream."""
    drafts: list[Draft] = []
    for event_id, facts in erasures_taking_effect(context.db).items():
        committed = context.log.positions_of([event_id]).values()
        claim = next(events_at(context.log, committed), None)
        if claim is None or not isinstance(claim.payload, FactErased):
            continue  # it takes effect once its page is committed
        doomed = facts_named(context.db, facts)
        entities = {fact.entity for fact in doomed}
        entities |= {normalize_ref(fact.value_v) for fact in doomed if fact.is_ref}
        if held(context.db, facts, entities):
            continue
        events = {fact.position: fact.id for fact in doomed}
        events |= dict.fromkeys(attributed(context.db, facts), "")
        events |= dict.fromkeys(copies_of(context.db, facts), "")
        named = context.log.positions_of([id_bytes(text) for text in claim.payload.events])
        found = [
            event
            for event in events_at(context.log, {*events, *named.values()})
            if (event.position in events or event.header.origin == claim.header.origin)
            and _goes(event, set(facts))
        ]
        stated = [fact_id(unwrapped(e)) for e in found if isinstance(e.payload, FactAsserted)]
        if set(stated) != set(facts):
            continue  # and so does one of a fact that arrived in this group
        drafts += _named_in_partitions(
            claim.payload.erasure_id,
            claim.payload.reason,
            found,
            context,
            lambda event: _partition(event) if event.peer is None else NODE_STREAM,
            event_id,
        )
    return drafts


def late_copies(context: Context) -> list[Draft]:
    """Local events that erase what peers brought of facts that were erased here before. They are an
    erasure of their own: the first one may have its receipt."""
    events = list(events_at(context.log, copies_after_erasure(context.db)))
    if not events:
        return []
    erasure_id = id_text(events[0].event_id)
    return _named_in_partitions(
        erasure_id, "unspecified", events, context, lambda _event: NODE_STREAM
    )


def erase_events(command: EraseEvents, context: Context) -> Decision | Refused:
    """Erase more local events under an erasure; skips those already erased."""
    if find_erasure(context.db, command.erasure_id) is None:
        return Refused("erasure_not_found", "there is no such erasure")
    events = _named_events(command.events, context)
    if not events:
        return Decision([], created=False)
    return Decision(_drafts(command.erasure_id, command.reason, events, context))


def name_erased(command: FactErased, context: Context) -> Decision:
    """Record, in the node's own stream, payloads that were already missing in a copied log."""
    return Decision([context.draft(command, NODE_STREAM)])


def certify_erasure(command: ErasureCertified, context: Context) -> Decision | Refused:
    """Record a receipt, once."""
    if find_erasure(context.db, command.erasure_id) is None:
        return Refused("erasure_not_found", "there is no such erasure")
    if find_erasure_receipt(context.db, command.erasure_id) is not None:
        return Decision([], created=False)
    return Decision([context.draft(command)])


def set_legal_hold(command: LegalHoldSet, context: Context) -> Decision | Refused:
    """Set or release a hold, or change its reason; repeating it changes nothing."""
    if command.target_kind == "fact" and not facts_named(context.db, [command.target]):
        return _ABSENT
    standing = query_one(
        context.db,
        "SELECT reason FROM legal_holds WHERE target_kind=? AND target=? AND to_position=?",
        (command.target_kind, command.target, LIVE),
    )
    if (standing is not None) == command.held and (
        standing is None or command.reason in ("", standing[0])
    ):
        return Decision([], created=False)
    return Decision([context.draft(command)])


def _events(
    command: EraseFacts, doomed: dict[str, Doomed], context: Context
) -> dict[int, Recorded]:
    """Every event whose payload is erased, by position."""
    positions = {fact.position for fact in doomed.values()}
    ends = {fact.to_position for fact in doomed.values()}
    ends |= {fact.set_aside for fact in doomed.values()}
    targets = {*doomed} if command.entity is None else {*doomed, command.entity}
    asked = (json_list(doomed), json_list(sorted(targets)))
    speaking = set(query_column(context.db, _SPEAKING, asked))
    speaking |= named_elsewhere(context.db, doomed, command)
    speaking |= set(copies_of(context.db, doomed))
    events = {
        event.position: event
        for event in events_at(context.log, (positions | speaking | ends) - {LIVE})
        if _goes(event, doomed)
    }
    return events | _named_events(command.events, context)


def _goes(event: Recorded, doomed: Collection[str]) -> bool:
    """Whether nothing of an event's effect remains without the facts."""
    payload = event.payload
    if isinstance(payload, FactAsserted):
        return fact_id(unwrapped(event)) in doomed
    if isinstance(payload, FactAttributesSet):
        return payload.fact_id in doomed
    if isinstance(payload, FactRetracted):
        return set(payload.fact_ids) <= set(doomed)
    if isinstance(payload, ConflictResolved):
        return set(payload.loser_ids) <= set(doomed)
    if isinstance(payload, DeltaApplied):
        made = {delta.fact_id for delta in payload.deltas if delta.fact_id is not None}
        return made <= set(doomed)
    return event.kind in GOES_WITH


def _named_events(ids: Iterable[str], context: Context) -> dict[int, Recorded]:
    """Events of the node's own stream by id, those with payload only."""
    found = context.log.positions_of([id_bytes(text) for text in ids])
    return {
        event.position: event
        for event in events_at(context.log, found.values())
        if event.kind in ERASABLE_RECORDS
    }


ERASABLE_RECORDS = frozenset({"recall_answered"})
"""Local kinds that repeat a question or an answer; they may be erased by event id."""


def _drafts(
    erasure_id: str, reason: ErasureReason, events: dict[int, Recorded], context: Context
) -> list[Draft]:
    """``fact_erased`` events, each in the partition of the events it names."""
    found = [event for _, event in sorted(events.items())]
    return _named_in_partitions(erasure_id, reason, found, context, _partition)


def _named_in_partitions(
    erasure_id: str,
    reason: ErasureReason,
    events: Iterable[Recorded],
    context: Context,
    partition_of: Callable[[Recorded], str],
    cause: bytes | None = None,
) -> list[Draft]:
    by_partition: dict[str, list[Recorded]] = {}
    for event in events:
        by_partition.setdefault(partition_of(event), []).append(event)
    drafts: list[Draft] = []
    told: set[str] = set()
    for partition, named in by_partition.items():
        for start in range(0, len(named), EVENTS_NAMED_MAX):
            some = named[start : start + EVENTS_NAMED_MAX]
            stated = [
                fact_id(unwrapped(each)) for each in some if isinstance(each.payload, FactAsserted)
            ]
            facts = [fact for fact in dict.fromkeys(stated) if fact not in told]
            told.update(facts)
            payload = FactErased(
                erasure_id=erasure_id,
                events=[id_text(each.event_id) for each in some],
                fact_ids=facts,
                reason=reason,
            )
            drafts.append(context.draft(payload, partition, cause))
    return drafts


def _partition(event: Recorded) -> str:
    """The partition of an event's stream, for any origin and epoch."""
    _, _, partition = event.header.stream.removeprefix(event.header.origin + "/").partition("/")
    return partition or NODE_STREAM


def _derived(doomed: dict[str, Doomed], context: Context) -> list[str]:
    """Remaining facts that were derived from erased ones: they may repeat the text."""
    hashes = [fact.cid.removeprefix("sha256:") for fact in doomed.values()]
    return sorted(set(query_column(context.db, _DERIVED, (json_list(hashes),))) - doomed.keys())
