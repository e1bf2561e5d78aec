"""Facts: state, look up, retract, and verify a content id."""

from typing import Any, NoReturn

import numpy as np
from msgspec import Struct

from engramlog.api.answers.fact_record import FactRecord
from engramlog.api.answers.sanitizer_modes import warned_record
from engramlog.api.answers.wire_facts import Volatile, record_of_event
from engramlog.api.commands.assertions import assertion_of, check_source
from engramlog.api.commands.memory_cards import card_record
from engramlog.api.http.bodies import parse_json
from engramlog.api.http.call import Call, ignored
from engramlog.api.http.errors import ApiError, coded, existing, invalid, plain
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.attributes import AttributesPatch
from engramlog.api.schemas.facts import AssertRequest, MomentQuery, RetractRequest, WriteQuery
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import FactAsserted
from engramlog.projections.authorization import Authorization
from engramlog.projections.cid import parse_fact_hash
from engramlog.projections.graph.provenance import visible_of_cid
from engramlog.projections.image.contradicted_facts import are_contradicted
from engramlog.projections.image.reader import ErasedMeanwhile
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import is_known, live
from engramlog.projections.moment import Moment
from engramlog.projections.tables.facts.erasures import erasure_of
from engramlog.projections.tables.facts.fact_rows import FactRow
from engramlog.projections.writing.commands import Done, RetractFact, SetAttributes

routes = Routes("facts")

CID_PREFIX = "sha256:"


class CidCheck(Struct):
    """Whether the stored content hashes to the stored content id."""

    cid_valid: bool
    computed_cid: str
    stored_cid: str | None
    mismatch_reason: str | None


class Retracted(Struct):
    """The fact keeps its record, with confidence 0."""

    id: str
    retracted: bool
    position: int | None
    fact: FactRecord


@routes.add(
    "PUT /v1/facts",
    "POST /v1/facts",
    permission="write",
    status=201,
    errors=(404,),
    headers=("Stigmem-Session", "Idempotency-Key"),
    delegable=True,
)
async def assert_fact(call: Call, query: WriteQuery, request: AssertRequest) -> FactRecord:
    """State a fact; the answer is its record, or that of the equal live fact."""
    assertion = assertion_of(call, request)
    done = await call.do(assertion.command, idempotency=call.idempotency())
    record = written_record(call, done, assertion.warnings + ignored(query, request))
    if query.wait is not None:
        record.embedded = await call.embedded(call.view().position)
    return record


def written_record(call: Call, done: Done, warnings: list[str]) -> FactRecord:
    """The record of the fact that answers a write, new or not. Raises ApiError 404 if it no longer
    exists."""
    event = asserted_event(done)
    if event is not None:
        now = now_of(call, event, done)
        warnings = warnings + (rivals_of(call, event, done) if now.contradicted else [])
        record = record_of_event(event, now, warnings)
        return warned_record(record, event, call.service.settings.sanitizer_mode)
    view = call.view()
    slot = existing(answering_slot(view, done), "fact_not_found")
    record = call.record(view, slot, call.moment(view), whole=True)
    return as_written(record, warnings)


def answering_slot(view: View, done: Done) -> int | None:
    """The fact that answers a write which recorded none; None if it repeats a request that was
    refused."""
    return None if done.fact_id is None else view.slot_of(done.fact_id)


def asserted_event(done: Done) -> Recorded | None:
    """The event of the fact that answers a write, if the write recorded one."""
    for event in done.events:
        if isinstance(event.payload, FactAsserted):
            return event
    return None


def now_of(call: Call, event: Recorded, done: Done) -> Volatile:
    """The state of a fact just written; only reads compute trust."""
    fact = event.payload
    assert isinstance(fact, FactAsserted)
    garden = call.node.reader.gardens.find(fact.garden_id) if fact.garden_id else None
    waits = garden is not None and garden.quarantine and fact.confidence > 0.0
    contradicted = done.contradicted
    if contradicted:  # perhaps by a fact that the caller may not know of
        view = call.view()
        slot = answering_slot(view, done)
        rights = call.authorization.reading()
        contradicted = slot is not None and bool(
            are_contradicted(view, np.int32(slot), call.moment(view), rights)
        )
    return Volatile(fact.confidence, contradicted, quarantine="pending" if waits else None)


def rivals_of(call: Call, event: Recorded, done: Done) -> list[str]:
    """A warning with the same source's contradicting facts that the caller may read, and the
    possible remedies."""
    fact = event.payload
    assert isinstance(fact, FactAsserted)
    view = call.view()
    slot = answering_slot(view, done)
    if slot is None:
        return []
    rights, moment = call.authorization.reading(), call.moment(view)
    siblings = live(view, rights, moment, np.sort(view.key_slots(int(view.key[slot]))))
    siblings = siblings[view.source[siblings] == view.source[slot]]
    siblings = siblings[view.value[siblings] != view.value[slot]]
    if not len(siblings):
        return []
    try:
        rival = call.record(view, int(siblings[-1]), moment)
    except ErasedMeanwhile:
        return []
    return [
        f"{fact.source} also says {rival.value.v!r} (fact {rival.id}): both are live, and "
        f"contradict each other. Retract that one if it no longer holds; if {fact.relation} may "
        "have several values, add it to the list of PUT /v1/relations/set-valued"
    ]


def as_written(record: FactRecord, warnings: list[str]) -> FactRecord:
    """Give a stored record the form of a write's answer; returns it."""
    record.source_trust = record.effective_confidence = None
    record.warnings = warnings
    return record


@routes.add("PATCH /v1/facts/{fact_id}", permission="write", errors=(400, 405, 413, 422))
async def patch_fact(call: Call) -> NoReturn:
    """Facts never change: 422 if the request names ``derived_from``, else 405."""
    data = await call.raw()
    body: Any = parse_json(data) if data.strip() else None
    if isinstance(body, dict) and "derived_from" in body:
        raise coded("derived_from_immutable", "derived_from of a fact cannot change")
    raise ApiError(405, "Method Not Allowed", headers={"Allow": "GET,HEAD"})


@routes.add(
    "GET /v1/facts/{fact_id}",
    permission="read",
    errors=(409, 410),
    headers=("Stigmem-Session",),
    delegable=True,
)
async def get_fact(call: Call, query: MomentQuery) -> FactRecord:
    """One fact by id, or the newest visible one by ``sha256:`` content id."""
    view, moment = call.at(query)
    name = call.segment("fact_id")
    try:
        slot = find(call, view, moment, name, call.authorization.alone())
    except ApiError:
        if call.node.reader.slot_of(name) is None:
            card = card_record(call, view, moment, name)
            if card is not None:
                call.note_read((card.scope,))
                return card
            check_erased(call, name)
        raise
    row = call.node.reader.row(view, slot)
    _check_cid(row)
    record = call.record(view, slot, moment, row=row)
    call.note_read((row.scope,))
    return record


def check_erased(call: Call, name: str) -> None:
    """Raises ApiError 410 ``fact_erased`` for an erased fact, to callers who may know of it. For
    all others it never existed."""
    if not call.authorization.may("admin") or call.node.reader.slot_of(name) is not None:
        return
    erasure = call.node.reader.ask(erasure_of, name)
    if erasure is not None:
        raise coded("fact_erased", "this fact is erased", erasure_id=erasure)


def find(
    call: Call,
    view: View,
    moment: Moment,
    name: str,
    authorization: Authorization | None = None,
) -> int:
    """The slot behind an id or content id, if visible to the caller (or to ``authorization``, the
    caller's, narrowed). Raises ApiError 400 ``cid_malformed``; 404, the same for absent and
    unreadable."""
    rights = authorization or call.authorization
    reader = call.node.reader
    if name.startswith(CID_PREFIX):
        try:
            parse_fact_hash(name)
        except ValueError as fault:
            raise coded(
                "cid_malformed", "CID must be 'sha256:' followed by 64 hex chars"
            ) from fault
        visible = visible_of_cid(reader, view, name, rights, moment)
    else:
        slot = view.slot_of(name)
        visible = [] if slot is None or not is_known(view, rights, moment, slot) else [slot]
    if not visible:
        raise plain("fact_not_found")
    if len(visible) == 1:
        return visible[0]
    return max(visible, key=lambda slot: (int(view.hlc[slot]), int(view.from_position[slot])))


def _check_cid(row: FactRow) -> None:
    if not row.cid:
        return
    computed = row.computed_cid()
    if computed != row.cid:
        raise coded(
            "cid_mismatch",
            "the stored content does not match its content id",
            fact_id=row.id,
            computed_cid=computed,
            stored_cid=row.cid,
        )


@routes.add("POST /v1/facts/{fact_id}/verify-cid", permission="read", errors=(400,), delegable=True)
async def verify_cid(call: Call) -> CidCheck:
    """Whether a stored fact still hashes to its content id."""
    view = call.view()
    slot = find(call, view, call.moment(view), call.segment("fact_id"), call.authorization.alone())
    row = call.node.reader.row(view, slot)
    computed = row.computed_cid()
    reason = None
    if not row.cid:
        reason = "no_stored_cid"
    elif computed != row.cid:
        reason = "content_mismatch"
    return CidCheck(reason is None, computed, row.cid or None, reason)


@routes.add(
    "POST /v1/facts/{fact_id}/retract",
    permission="write",
    body_required=False,
    headers=("Idempotency-Key",),
    delegable=True,
)
async def retract_fact(call: Call, request: RetractRequest) -> Retracted:
    """End one fact by id. Its record stays readable."""
    fact_id = call.segment("fact_id")
    command = RetractFact(fact_id=fact_id, reason=request.reason, rights=call.authorization.alone())
    done = await call.do(command, idempotency=call.idempotency())
    view, moment = call.at()
    slot = find(call, view, moment, fact_id, call.authorization.alone())
    record = call.record(view, slot, moment)
    return Retracted(fact_id, True, done.position, record)


class AttributesTaken(Struct):
    """``position`` is null if nothing changed."""

    id: str
    position: int | None
    fact: FactRecord


@routes.add(
    "PATCH /v1/facts/{fact_id}/attributes",
    permission="write",
    headers=("Idempotency-Key",),
)
async def set_attributes(call: Call, patch: AttributesPatch) -> AttributesTaken:
    """Set attributes of a fact: the caller's own, or any for admins. Answers the fact's record.

    Raises:
        ApiError: 404 if the fact is not visible to the caller; 403 if the caller may not change it,
            or not to these values.
    """
    changes = patch.changes()
    if not changes and not patch.relevance_change:
        raise invalid("missing", ["body"], "name at least one attribute")
    rights = call.authorization.alone()
    fact_id = call.segment("fact_id")
    call.check_served(fact_id)
    view = call.view()
    slot = find(call, view, call.moment(view), fact_id, rights)
    if not rights.may("admin"):
        check_source(call, view.sources.text(int(view.source[slot])))
    row = call.node.reader.row(view, slot)
    command = SetAttributes(
        fact_id=row.id,
        changes=changes,
        relevance_change=patch.relevance_change,
        rights=rights,
    )
    done = await call.do(command, idempotency=call.idempotency())
    view = call.view()
    record = call.record(view, slot, call.moment(view))
    return AttributesTaken(row.id, done.position, record)
