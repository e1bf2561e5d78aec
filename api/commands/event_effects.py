"""What an event of the log did: the rows it changed, and what an erasure removed."""

from typing import Literal

import msgspec
from msgspec import Struct

from engramlog.api.answers.erasure_records import ErasureRecord, SignedReceipt
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.request_context import RequestContext
from engramlog.api.node.node_status import status_of_node
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import event_ids_of, id_text
from engramlog.eventlog.kinds import FactErased
from engramlog.projections.audit.effects import ChangedRow, effects, readers
from engramlog.projections.audit.journal import Journal, JournalEntry
from engramlog.projections.moment import format_instant
from engramlog.projections.tables.facts.erasures import (
    ErasureRow,
    erasure_of,
    find_erasure,
    find_erasure_receipt,
)


def erasure_record(context: RequestContext, row: ErasureRow) -> ErasureRecord:
    """An erasure in the form of answers."""
    receipt = context.node.reader.ask(find_erasure_receipt, row.erasure_id)
    cleaning = context.service.cleaning
    signed = None
    if receipt is not None:
        document = msgspec.json.decode(receipt.document)
        signed = SignedReceipt(document, receipt.document, receipt.signature)
    return shaped(
        row,
        ErasureRecord,
        status="cleaning" if receipt is None else "clean",
        requested_at=format_instant(row.erased_at),
        step=cleaning.step if receipt is None else None,
        error=cleaning.error if receipt is None else None,
        receipt=signed,
    )


REMOVED_SHOWN_MAX = 50
"""Removed facts and events that are named; all are counted."""


class ReadBy(Struct):
    """A projection that reads events of this kind. ``applied``: whether it has read this one.
    ``changed`` counts the rows of today's tables that this event changed, of those that the
    caller may know of; ``rows`` are the first of them. ``words``: what no row tells."""

    projection: str
    tables: list[str]
    applied: bool
    changed: int
    rows: list[ChangedRow]
    words: str | None


class RemovedEvent(Struct):
    """An event whose payload is gone; its header and hash remain."""

    position: int
    kind: str


class EventErasure(Struct):
    """The erasure that an event is, or that took the event. ``waiting``: a peer's, not applied
    here. ``facts`` and ``events`` count what the whole erasure removed; ``fact_ids`` and
    ``removed`` name the first of what this event did, never what they said."""

    erasure_id: str
    status: Literal["waiting", "cleaning", "clean"]
    reason: str
    actor: str
    position: int
    facts: int
    events: int
    fact_ids: list[str]
    removed: list[RemovedEvent]


def read_by(context: RequestContext, journal: Journal, entry: JournalEntry) -> list[ReadBy]:
    """What each projection made of an event."""
    found = context.node.reader.ask(effects, entry, journal.readable)
    status = status_of_node(context.node)["projections"]
    return [
        shaped(
            found[each.name],
            ReadBy,
            projection=each.name,
            tables=list(each.tables),
            applied=status[each.name]["position"] >= entry.event.position,
        )
        for each in readers(entry.event)
    ]


def erasure_of_event(context: RequestContext, event: Recorded) -> EventErasure | None:
    """The erasure that an event is or that took it; for admins."""
    reader = context.node.reader
    payload = event.payload
    if isinstance(payload, FactErased):
        row = reader.ask(find_erasure, payload.erasure_id)
        known = None if row is None else erasure_record(context, row)
        return EventErasure(
            erasure_id=payload.erasure_id,
            status="waiting" if known is None else known.status,
            reason=payload.reason,
            actor=event.header.actor,
            position=event.position,
            facts=len(payload.fact_ids) if known is None else known.facts,
            events=len(payload.events) if known is None else known.events,
            fact_ids=payload.fact_ids[:REMOVED_SHOWN_MAX],
            removed=_removed(context, payload),
        )
    named = reader.ask(erasure_of, id_text(event.event_id)) if payload is None else None
    row = None if named is None else reader.ask(find_erasure, named)
    if row is None or not context.authorization.may("admin"):
        return None
    known = erasure_record(context, row)
    return shaped(known, EventErasure, fact_ids=[], removed=[])


def _removed(context: RequestContext, payload: FactErased) -> list[RemovedEvent]:
    log = context.node.log
    positions = sorted(log.positions_of(event_ids_of(payload.events[:REMOVED_SHOWN_MAX])).values())
    found = [event for at in positions for event in log.read(at - 1, 1)]
    return [RemovedEvent(event.position, event.kind) for event in found]
