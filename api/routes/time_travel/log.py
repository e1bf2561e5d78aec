"""The log for people: its events over time, newest first, and one in full."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from pydantic import Field

from engramlog.api.answers.fact_record import FactRecord
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.entity_names import entity_named, stored_uri
from engramlog.api.commands.event_effects import EventErasure, ReadBy, erasure_of_event, read_by
from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.facts import MomentQuery
from engramlog.api.schemas.values import NAME_LENGTH_MAX, Model, Position
from engramlog.eventlog.clock import format_hlc
from engramlog.eventlog.event import Recorded, UnknownPayload
from engramlog.eventlog.identifiers import id_text
from engramlog.projections.arrays import I64
from engramlog.projections.ascending import distinct
from engramlog.projections.audit.event_subjects import OF_MANY_FACTS, about
from engramlog.projections.audit.journal import Journal, JournalEntry
from engramlog.projections.audit.log_pages import (
    Chains,
    Linked,
    LogFilter,
    linked,
    newest_first,
    placed,
    timeline,
)
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import known
from engramlog.projections.moment import LIVE, Moment, format_instant

routes = Routes("time travel")


class TimelineQuery(Model, extra="forbid"):
    """``buckets``: how many equal time steps."""

    buckets: int = Field(default=100, ge=1, le=500)


class Timeline(Struct):
    """Equally spaced instants from the first event to the last, and the log's last position at
    each. The difference of neighbours is the event density. Both lists are empty for an empty
    log."""

    instants: list[str]
    positions: list[int]
    head: int


class LogQuery(Model, extra="forbid"):
    """A filter of events, newest first. ``before``: lower positions only. ``stream``: a stream's
    name, or its end such as ``scope/public``. ``entity``: events that stated, ended or settled
    facts about the entity. With ``as_of`` the log ends at that moment."""

    as_of: str | None = None
    before: Position | None = Field(default=None, ge=1)
    kind: str | None = Field(default=None, min_length=1, max_length=100)
    stream: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    actor: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    peer: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    entity: str | None = Field(default=None, min_length=1, max_length=NAME_LENGTH_MAX)
    limit: int = Field(default=100, ge=1, le=500)


class LogEvent(Struct):
    """An event's place and header. ``fact_ids``: the first of the ``facts`` it touched that the
    caller may read; ``entity`` and ``relation``: of the first fact, if the event is about it.
    ``about``: the subject, if it is not one fact, such as a recall's question. ``stream_seq`` is
    null except for the operator (the machine's own command line; every caller if the node needs no
    keys): it counts events that others may not know of. ``causation_id``: the event that it follows
    from; null unless the caller may know of that one."""

    position: int
    event_id: str
    kind: str
    schema_version: int
    actor: str
    stream: str
    stream_seq: int | None
    origin: str
    peer: str | None
    recorded_at: str
    received_at: str
    causation_id: str | None
    fact_ids: list[str]
    facts: int
    entity: str | None
    relation: str | None
    about: str | None


class LogPage(Struct):
    """``next_before``: requests the next page; null at the beginning of the log. Short pages may
    still have a next one."""

    events: list[LogEvent]
    next_before: int | None
    head: int


class ChainLink(Struct):
    """The stored hashes, the neighbours in the stream, and whether hashes recomputed from the
    event's bytes match. ``fault`` names the mismatch."""

    hash: str
    prev_hash: str
    payload_hash: str
    previous: int | None
    next: int | None
    verified: bool
    fault: str | None


class LogEventAnswer(Struct):
    """``payload``: only if it is not a fact itself; redacted for the caller. ``causes``: the events
    that led to it, the earliest first; ``consequences``: those it caused. ``facts``: in their
    present state. ``correlation_id``: the first of the causes, or the event itself; ``related``:
    what else followed from that. ``chain`` is null if ``stream_seq`` is. ``erasure``: the one that
    the event is, or that removed its payload."""

    event: LogEvent
    hlc: str
    erased: bool
    payload: dict[str, Any] | None
    chain: ChainLink | None
    causes: list[LogEvent]
    consequences: list[LogEvent]
    correlation_id: str
    related: list[LogEvent]
    facts: list[FactRecord]
    read_by: list[ReadBy]
    erasure: EventErasure | None


FACTS_SHOWN_MAX = 50
FACTS_NAMED_MAX = 20
"""Facts of an event to name in a page or a path; a single event names all."""
_KINDS_WITHOUT_MORE = frozenset({"fact_retracted", "conflict_resolved", "fact_attributes_set"})
"""Kinds of fact events whose payload only names facts and reasons."""


@routes.add("GET /v1/time-travel/timeline", permission="read", long=True)
def show_timeline(call: Call, query: TimelineQuery) -> Timeline:
    """The log's events over time."""
    instants, positions = timeline(call.node.log, query.buckets)
    head = positions[-1] if positions else 0
    return Timeline([format_instant(instant) for instant in instants], positions, head)


@routes.add("GET /v1/log", permission="read", errors=(400,), long=True)
def list_events(call: Call, query: LogQuery) -> LogPage:
    """Events that the caller may see, newest first."""
    view, moment = call.at(MomentQuery(as_of=query.as_of))
    log_filter = LogFilter(
        kind=query.kind,
        stream=query.stream,
        actor=None if query.actor is None else stored_uri(query.actor),
        peer=query.peer,
        positions=None if query.entity is None else _positions_of(call, view, query.entity, moment),
    )
    end = moment.position + 1
    before = end if query.before is None else min(query.before, end)
    if log_filter.by_header and log_filter.positions is None:
        with call.service.archive.reading(moment.position) as sources:
            log_filter = placed(sources, log_filter, before)
    chains = chains_of(call, journal_of(call, view))
    page = newest_first(chains, log_filter, before, query.limit)
    events = [_event(call, view, entry, chains) for entry in page.entries]
    return LogPage(events, page.reached, moment.position)


def journal_of(call: Call, view: View) -> Journal:
    """The log as the caller may see it."""
    return Journal(call.node.log, view, call.authorization)


def chains_of(call: Call, journal: Journal) -> Chains:
    """What the caller may know of events' causes."""
    return Chains(journal, audits=call.authorization.may("audit.read"))


def _positions_of(call: Call, view: View, name: str, moment: Moment) -> I64:
    """Positions at which the entity's readable facts were stated and ended."""
    about = view.slots_about(entity_named(call, name, moment.position))
    slots = known(view, call.authorization, moment, about)
    ended = view.to_position[slots]
    settled = view.set_aside[slots]
    found = np.concatenate((view.from_position[slots], ended, settled))
    return distinct(found[(found > 0) & (found < LIVE) & (found <= moment.position)])


@routes.add("GET /v1/log/{position}", permission="read")
def show_event(call: Call) -> LogEventAnswer:
    """One event of the log. Its header, its redacted payload, its place in the chain, its causes,
    and the projections that read it."""
    text = call.segment("position")
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise _unknown(text)
    position, view = int(text), call.view()
    journal = journal_of(call, view)
    chains = chains_of(call, journal)
    link = linked(call.node.log, position) if 0 < position <= view.position else None
    entry = None if link is None else chains.entry(link.recorded)
    if link is None or entry is None:
        raise _unknown(text)

    def events_of(path: Sequence[JournalEntry]) -> list[LogEvent]:
        return [_event(call, view, each, chains) for each in path]

    causes = chains.causes(entry.event)
    consequences = chains.consequences(entry.event)
    beside = {each.event.event_id for each in (*causes, entry, *consequences)}
    first = causes[0].event if causes else entry.event
    related = chains.consequences(first) if causes else []
    slots = [slot for fact in entry.fact_ids if (slot := view.slot_of(fact)) is not None]
    return LogEventAnswer(
        event=_event(call, view, entry, chains, named=None),
        hlc=format_hlc(link.recorded.header.hlc),
        erased=link.stored.payload is None,
        payload=_payload(entry),
        chain=_chain(link) if call.sees_chains else None,
        causes=events_of(causes),
        consequences=events_of(consequences),
        correlation_id=id_text(first.event_id),
        related=events_of([each for each in related if each.event.event_id not in beside]),
        facts=call.records(view, slots[:FACTS_SHOWN_MAX], call.moment(view)),
        read_by=read_by(call, journal, entry),
        erasure=erasure_of_event(call, link.recorded),
    )


def _unknown(text: str) -> Exception:
    return coded("event_not_found", f"no event is at position {text[:20]!r}")


def _payload(entry: JournalEntry) -> dict[str, Any] | None:
    """The payload of an event that is no fact. Facts appear as records instead, under the sanitizer
    mode."""
    payload = entry.event.payload
    if entry.detail is not None or payload is None or isinstance(payload, UnknownPayload):
        return entry.detail
    if entry.event.kind not in _KINDS_WITHOUT_MORE:
        return None
    return _only_shown(msgspec.to_builtins(payload), frozenset(entry.fact_ids))


def _only_shown(payload: dict[str, Any], shown: frozenset[str]) -> dict[str, Any]:
    from engramlog.projections.archive.rows import touched, without

    named = frozenset(touched("", "", payload))
    return {name: each for name, each in without(payload, named - shown).items() if name != "kind"}


def _chain(link: Linked) -> ChainLink:
    header = link.recorded.header
    return ChainLink(
        hash=link.stored.hash.hex(),
        prev_hash=header.prev_hash.hex(),
        payload_hash=header.payload_hash.hex(),
        previous=link.previous,
        next=link.next,
        verified=link.fault is None,
        fault=link.fault,
    )


def _event(
    call: Call,
    view: View,
    entry: JournalEntry,
    chains: Chains,
    named: int | None = FACTS_NAMED_MAX,
) -> LogEvent:
    """An event in the form of answers; ``named``: most facts to list, None for all."""
    event: Recorded = entry.event
    header = event.header
    cause = chains.known(header.causation_id)
    of_many = event.kind in OF_MANY_FACTS
    entity, relation = _subject(view, [] if of_many else entry.fact_ids)
    return shaped(
        header,
        LogEvent,
        position=event.position,
        event_id=id_text(header.event_id),
        stream_seq=header.stream_seq if call.sees_chains else None,
        peer=event.peer,
        received_at=format_instant(event.received_at),
        causation_id=None if cause is None else id_text(cause.event.event_id),
        fact_ids=entry.fact_ids[:named],
        facts=len(entry.fact_ids),
        entity=entity,
        relation=relation,
        about="erased" if event.payload is None else about(event.kind, entry.detail or {}),
    )


def _subject(view: View, facts: Sequence[str]) -> tuple[str | None, str | None]:
    slot = view.slot_of(facts[0]) if facts else None
    if slot is None:
        return None, None
    entity, relation = int(view.entity[slot]), int(view.relation[slot])
    return view.entities.text(entity), view.relations.text(relation)
