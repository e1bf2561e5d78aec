"""Many writes in one request: an array or lines; answers each item in order."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from aiohttp import web
from msgspec import UNSET, Struct, UnsetType

from engramlog.api.answers.fact_record import FactRecord
from engramlog.api.answers.sanitizer_modes import Mode, warned_record
from engramlog.api.answers.wire_facts import record_of_event
from engramlog.api.commands.assertions import Assertions
from engramlog.api.http.bodies import answer, parse_json, parse_lines, validated
from engramlog.api.http.call import Call
from engramlog.api.http.errors import ApiError, coded, invalid, plain, refused
from engramlog.api.http.routing import Routes
from engramlog.api.routes.facts.facts import (
    answering_slot,
    as_written,
    asserted_event,
    now_of,
    rivals_of,
)
from engramlog.api.schemas.facts import (
    BATCH_ITEMS_MAX,
    BatchAssert,
    BatchItem,
    BatchQuery,
    BatchRetract,
)
from engramlog.eventlog.event import Recorded
from engramlog.projections.image.reader import ErasedMeanwhile
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import readable_of
from engramlog.projections.moment import Moment
from engramlog.projections.writing.commands import Command, Done, Refused, RefusedItem, RetractFact

routes = Routes("facts")


class BatchResult(Struct):
    """``fact`` or ``error``; ``status``: the status for a request with this item alone."""

    status: int
    id: str | None
    position: int | None
    fact: FactRecord | UnsetType = UNSET
    error: dict[str, Any] | UnsetType = UNSET


class BatchAnswer(Struct):
    """Results in the order of the items; ``position`` is the log's end after them."""

    results: list[BatchResult]
    position: int | None
    embedded: bool | UnsetType = UNSET


NDJSON_TYPES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})


class Prepared(Struct, frozen=True):
    """One item: a command with its warnings, or its error."""

    command: Command | None = None
    warnings: list[str] = []
    error: ApiError | None = None


@routes.add(
    "POST /v1/facts/batch",
    permission="write",
    body=BatchItem,
    lines=True,
    answers={200: BatchAnswer},
    headers=("Stigmem-Session", "Idempotency-Key"),
    delegable=True,
)
async def write_batch(call: Call, query: BatchQuery) -> web.Response:
    """Write items in order. Each has its own status; ``atomic=true`` writes all or none."""
    data = await call.raw(call.service.settings.batch_body_bytes_max)
    prepared = await call.in_pool(lambda: _prepare_all(call, data))
    call.charge(len(prepared))
    key = call.idempotency()
    faults = [each.error for each in prepared if each.error is not None]
    if key is None and query.atomic and faults:
        return _nothing_written(prepared, ())
    if not prepared or (key is None and len(faults) == len(prepared)):
        head = call.node.log.head().position
        return answer(BatchAnswer([_failed(fault) for fault in faults], head))
    commands = [each.command or RefusedItem() for each in prepared]
    outcome = await call.submit(commands, idempotency=key, atomic=query.atomic)
    outcomes = outcome.outcomes
    refused_any = any(isinstance(each, Refused) for each in outcomes)
    if query.atomic and refused_any and not outcome.replayed:
        return _nothing_written(prepared, outcomes)
    results = await call.in_pool(lambda: _results(call, prepared, outcomes))
    body = BatchAnswer(results, outcome.position)
    if query.wait is not None:
        body.embedded = await call.embedded(outcome.position)
    return answer(body)


def _prepare_all(call: Call, data: bytes) -> list[Prepared]:
    assertions = Assertions(call)
    return [_prepare(call, assertions, i, item) for i, item in enumerate(_items(call, data))]


def _items(call: Call, data: bytes) -> list[Any]:
    """The items of a JSON array, or one per line. Raises ApiError 400, 413 or 422."""
    lines = call.request.content_type in NDJSON_TYPES
    given: Any = parse_lines(data) if lines else parse_json(data)
    if not isinstance(given, list):
        raise invalid("list_type", ["body"], "must be an array")
    items = cast("list[Any]", given)
    if len(items) > BATCH_ITEMS_MAX:
        raise invalid("too_long", ["body"], f"at most {BATCH_ITEMS_MAX} items, not {len(items)}")
    return items


def _prepare(call: Call, assertions: Assertions, index: int, item: Any) -> Prepared:
    try:
        if _operation(item) == "retract":
            ask = validated(BatchRetract, item, "body", index)
            intent = RetractFact(
                fact_id=ask.id,
                reason=ask.reason,
                rights=call.authorization.alone(),
            )
            return Prepared(intent)
        assertion = assertions.of(validated(BatchAssert, item, "body", index))
        return Prepared(assertion.command, assertion.warnings)
    except ApiError as fault:
        return Prepared(error=fault)


def _operation(item: Any) -> object:
    return cast("dict[str, Any]", item).get("op") if isinstance(item, dict) else None


def _results(
    call: Call, prepared: list[Prepared], outcomes: Sequence[Done | Refused]
) -> list[BatchResult]:
    """One result per item, in order."""
    events = [None if isinstance(each, Refused) else asserted_event(each) for each in outcomes]
    stored = _stored_records(call, outcomes, events)
    mode = call.service.settings.sanitizer_mode
    return [
        _settled(call, each, outcomes[place], events[place], stored.get(place), mode)
        if each.error is None
        else _failed(each.error)
        for place, each in enumerate(prepared)
    ]


def _stored_records(
    call: Call, outcomes: Sequence[Done | Refused], events: Sequence[Recorded | None]
) -> dict[int, FactRecord]:
    """Records of facts that items touched but did not write, by index among the outcomes. A
    repeated retraction is not decided again, so the caller's rights may have ended since."""
    slots: dict[int, int] = {}
    view = call.view()
    retracted = [str(each.fact_id) for each in outcomes if isinstance(each, Done) and _ended(each)]
    shown = readable_of(view, call.own_rights, retracted)
    for place, outcome in enumerate(outcomes):
        if isinstance(outcome, Refused) or events[place] is not None:
            continue
        slot = answering_slot(view, outcome)
        if slot is not None and (not _ended(outcome) or outcome.fact_id in shown):
            slots[place] = slot
    records: dict[int, FactRecord] = {}
    if not slots:
        return records
    moment = call.moment(view)
    for ended in (False, True):
        places = [place for place in slots if _ended(outcomes[place]) is ended]
        chosen = [slots[place] for place in places]
        try:
            found = call.records(view, chosen, moment, whole=not ended)
        except ErasedMeanwhile:
            records |= _remaining(call, view, moment, dict(zip(places, chosen, strict=True)), ended)
        else:
            records |= zip(places, found, strict=True)
    return records


def _remaining(
    call: Call, view: View, moment: Moment, slots: dict[int, int], ended: bool
) -> dict[int, FactRecord]:
    """Records of the facts that no erasure took away meanwhile, one by one."""
    records: dict[int, FactRecord] = {}
    for place, slot in slots.items():
        with suppress(ErasedMeanwhile):
            records[place] = call.record(view, slot, moment, whole=not ended)
    return records


def _ended(outcome: Done | Refused) -> bool:
    """Whether the item ended a fact, perhaps another source's, and stated none."""
    return isinstance(outcome, Done) and bool(outcome.retracted)


def _settled(
    call: Call,
    item: Prepared,
    outcome: Done | Refused,
    event: Recorded | None,
    stored: FactRecord | None,
    mode: Mode,
) -> BatchResult:
    if isinstance(outcome, Refused):
        return _failed(refused(outcome))
    if event is not None:
        now = now_of(call, event, outcome)
        rivals = rivals_of(call, event, outcome) if now.contradicted else []
        record = record_of_event(event, now, item.warnings + rivals)
        record = warned_record(record, event, mode)
    elif stored is None:
        return _failed(plain("fact_not_found"))
    elif isinstance(item.command, RetractFact):
        return BatchResult(200, stored.id, outcome.position, stored)
    else:
        record = as_written(stored, item.warnings)
    return BatchResult(201, record.id, record.position, record)


def _failed(fault: ApiError) -> BatchResult:
    return BatchResult(fault.status, None, None, error=fault.body())


def _nothing_written(prepared: list[Prepared], outcomes: Sequence[Done | Refused]) -> web.Response:
    """422 for an atomic batch with a refused item; the other items report that they were held
    back."""
    results: list[BatchResult] = []
    for place, each in enumerate(prepared):
        outcome = outcomes[place] if outcomes else None
        fault = each.error
        if fault is None and isinstance(outcome, Refused):
            fault = refused(outcome)
        if fault is None:
            fault = coded("not_written", "another item of the atomic batch was refused")
        results.append(_failed(fault))
    detail = {
        "code": "atomic_batch_refused",
        "message": "an item was refused; the batch wrote nothing",
    }
    return answer({"detail": detail, "results": results, "position": None}, 422)
