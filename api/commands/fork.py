"""A fork: the answer to a question after hypothetical writes, without changing anything.

The suppositions are decided as the node would decide them. Each needs both: the caller's present
rights, and the node's state at the moment. Each uses the same code as a real write.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from engramlog.api.answers.fact_record import FactRecord, MomentRecord
from engramlog.api.commands.assertions import assertion_of, resolution_of
from engramlog.api.commands.decay_sweep import policy_of_request
from engramlog.api.commands.entity_names import stored_uri
from engramlog.api.commands.fact_listing import listed
from engramlog.api.commands.garden_access import entered_garden, swept_gardens
from engramlog.api.commands.recall.answering import answered
from engramlog.api.commands.request_context import RequestContext
from engramlog.api.http.auth import require
from engramlog.api.http.errors import ApiError, coded, plain, refused
from engramlog.api.node.scratch_node import ScratchNode
from engramlog.api.schemas.facts import BatchAssert, BatchRetract, MomentQuery
from engramlog.api.schemas.time_travel import (
    ForkBody,
    Supposed,
    SupposeResolve,
    SupposeSweep,
    SupposeTrust,
)
from engramlog.eventlog.errors import UnknownKind
from engramlog.eventlog.kinds import SourceTrustSet
from engramlog.projections.image.visible_facts import readable_of
from engramlog.projections.moment import Moment, format_instant
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.declared.policies import decay_policies
from engramlog.projections.writing.commands import Command, Done, Refused, RetractFact, SweepDecay
from engramlog.replay.fork import scratch_at

_MADE_UP = ("recall_id", "receipt_id")
"""Keys that identify a recall later: a fork stores nothing, so it omits them."""


class SupposedOutcome(Struct):
    """The outcome of one supposition. ``events``: how many it would write."""

    index: int
    op: str
    fact_id: str | None
    created: bool
    retracted: list[str]
    events: int


class Fork(Struct, rename={"with_": "with"}):
    """An answer without the suppositions, one with them, and the difference: ids ``added`` and
    ``removed`` (with ranks, for a recall), and ``moved`` or ``changed``."""

    moment: MomentRecord
    supposed: list[SupposedOutcome]
    without: dict[str, Any]
    with_: dict[str, Any]
    difference: dict[str, list[Any]]


def fork(context: RequestContext, body: ForkBody) -> Fork:
    """The answer without the suppositions, the answer with them, and the difference. Raises
    ApiError ``fork_too_large``, ``unknown_kind``, ``supposition_refused``, ``as_of_*``, and the
    question's own errors."""
    position, instant_us = _moment(context, body)
    try:
        return _forked(context, body, position, instant_us)
    except UnknownKind as fault:  # names an event that the caller may not know of
        message = "the log has events of a later release: upgrade this node"
        raise coded("unknown_kind", message) from fault


def _forked(context: RequestContext, body: ForkBody, position: int | None, instant_us: int) -> Fork:
    """The question of the body answered by a scratch copy of the node at a moment, before and after
    the supposed facts."""
    node = context.node
    node.reader.image.tail.settle()  # copies the current tables
    tables = node.directory.projections_path
    with (
        tempfile.TemporaryDirectory(prefix="engramlog-fork-") as folder,
        scratch_at(node.log, tables, Path(folder), position, instant_us) as scratch,
    ):
        scratch_node = ScratchNode(node, scratch)
        settings = context.service.settings.model_copy(
            update={
                "recall_receipts": False,
                "time_travel_enabled": True,
                "time_travel_allow_recall_as_of": True,
                "time_travel_allow_fact_query_as_of": True,
                "as_of_retention_days": 0.0,  # checked above
            }
        )
        inside = replace(context, service=context.service.over(scratch_node, settings))
        before = _answered(inside, body, instant_us)
        supposed = suppose(context, inside, body.suppose)
        scratch_node.embed_supposed()
        after = _answered(inside, body, instant_us)
        differ = _recall_difference if body.state is None else _state_difference
        return Fork(
            moment=MomentRecord(scratch.position, format_instant(instant_us)),
            supposed=supposed,
            without=before,
            with_=after,
            difference=differ(before, after),
        )


def _moment(context: RequestContext, body: ForkBody) -> tuple[int | None, int]:
    """The position to fork at (None: now) and its instant. Raises ApiError ``fork_too_large``."""
    at = Moment(context.node.log.head().position, context.node.clock.now_us())
    if body.as_of is not None:
        settings = context.service.settings
        allowed = settings.time_travel_allow_fact_query_as_of
        if body.state is None:
            allowed = settings.time_travel_allow_recall_as_of
        at = context.moment(context.view(), MomentQuery(as_of=body.as_of), allowed=allowed)
    most = context.service.settings.fork_events_max
    if at.position > most:
        raise coded(
            "fork_too_large",
            f"position {at.position} is beyond {most}, the last at which this node forks",
            fork_events_max=most,
        )
    # The suppositions are received then, and receipt times never go back.
    instant_us = max(at.instant_us, context.node.log.received_at(at.position))
    return (None if body.as_of is None else at.position), instant_us


def _answered(inside: RequestContext, body: ForkBody, instant_us: int) -> dict[str, Any]:
    at = {"as_of": format_instant(instant_us), "valid_at": body.valid_at}
    if body.recall is not None:
        data = answered(inside, body.recall.model_copy(update=at), [], shape="full").data
        found = cast("dict[str, Any]", msgspec.json.decode(data))
        return {name: part for name, part in found.items() if name not in _MADE_UP}
    assert body.state is not None
    page, records, _, _ = listed(inside, body.state.model_copy(update=at))
    return {"facts": records, "total": page.total}


def _recall_difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Ranks count from 1."""
    was, now = _ranks(before), _ranks(after)
    return {
        "added": [{"id": name, "rank": rank} for name, rank in now.items() if name not in was],
        "removed": [{"id": name, "rank": rank} for name, rank in was.items() if name not in now],
        "moved": [
            {"id": name, "before": was[name], "after": rank}
            for name, rank in now.items()
            if name in was and was[name] != rank
        ],
    }


def _ranks(answer: dict[str, Any]) -> dict[str, int]:
    return {each["fact"]["id"]: rank for rank, each in enumerate(answer["facts"], 1)}


def _state_difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """``changed`` names the fields of a record that differ."""
    was: dict[str, FactRecord] = {record.id: record for record in before["facts"]}
    now: dict[str, FactRecord] = {record.id: record for record in after["facts"]}
    changed = {
        name: [
            field
            for field in FactRecord.__struct_fields__
            if getattr(record, field) != getattr(was[name], field)
        ]
        for name, record in now.items()
        if name in was
    }
    return {
        "added": [name for name in now if name not in was],
        "removed": [name for name in was if name not in now],
        "changed": [{"id": name, "fields": keys} for name, keys in changed.items() if keys],
    }


def suppose(
    context: RequestContext, scratch: RequestContext, items: list[Supposed]
) -> list[SupposedOutcome]:
    """Write everything in the scratch node, in order; the outcome of each. ``context``: the caller
    at the node itself, for the present rights. ``scratch``: the same caller at the scratch node.
    Raises ApiError: with the refusal's status, ``supposition_refused`` and the supposition's
    index."""
    results: list[SupposedOutcome] = []
    for index, item in enumerate(items):
        try:
            require(context.caller, "write")
            command = _command(context, scratch, item)
            done = _written(scratch, command)
        except ApiError as fault:
            raise _refused(index, fault) from fault
        results.append(
            SupposedOutcome(
                index=index,
                op=item.op,
                fact_id=done.fact_id,
                created=done.created,
                retracted=list(done.retracted),
                events=len(done.events),
            )
        )
    return results


def _written(scratch: RequestContext, command: Command) -> Done:
    writer = scratch.node.writer
    answer = writer.submit([command], actor=scratch.caller.principal).result()
    outcome = answer.outcomes[0]
    if isinstance(outcome, Refused):
        raise refused(outcome)
    return outcome


def _refused(index: int, fault: ApiError) -> ApiError:
    return ApiError(
        fault.status,
        {
            "code": "supposition_refused",
            "message": f"the node refused supposition {index}",
            "index": index,
            "error": fault.body()["detail"],
        },
    )


def _command(context: RequestContext, scratch: RequestContext, item: Supposed) -> Command:
    match item:
        case BatchAssert():
            if item.garden_id is not None:
                entered_garden(context, item.garden_id)
            return assertion_of(scratch, item).command
        case BatchRetract():
            return _retraction(scratch, item)
        case SupposeResolve():
            return resolution_of(scratch, item.conflict_id, item)
        case SupposeTrust():
            require(context.caller, "admin")
            source = stored_uri(item.source)
            return SourceTrustSet(source=source, trust=item.trust, reason=item.reason)
        case SupposeSweep():
            return _sweep(context, scratch, item)


def _retraction(scratch: RequestContext, item: BatchRetract) -> RetractFact:
    """Retract a fact that the caller may see now."""
    scratch.check_served(item.id)
    if not readable_of(scratch.view(), scratch.authorization, [item.id]):
        raise plain("fact_not_found")
    # A supposition may end the facts of any source.
    rights = msgspec.structs.replace(scratch.authorization, sources=("*",))
    return RetractFact(fact_id=item.id, reason=item.reason, rights=rights)


def _sweep(context: RequestContext, scratch: RequestContext, item: SupposeSweep) -> SweepDecay:
    """Sweep the facts that the caller may sweep now, by the moment's policies or the item's own."""
    rights = msgspec.structs.replace(context.narrowed(item.scope), withheld=0)
    if item.scope is not None:
        context.check_scope(item.scope)
    own = policy_of_request(item.ttl_seconds, item.min_confidence)
    reader = scratch.node.reader
    policies = tuple(reader.ask(decay_policies, scratch.view().position)) if own is None else (own,)
    scopes = tuple(scope for scope in SCOPES if scope in rights.scopes)
    return SweepDecay(scopes=scopes, policies=policies, gardens=swept_gardens(context))
