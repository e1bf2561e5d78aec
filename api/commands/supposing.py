"""What is supposed in a fork, decided as the node would decide it.

Two things must allow a supposition: the caller's rights of today, and what the node was at the
moment. Every one goes through the very code that a write of it goes through.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from api.auth import require
from api.call import Call
from api.commands.asserting import assertion_of, check_value
from api.commands.gardening import entered_garden, member_of, swept_gardens
from api.commands.naming import stored_uri
from api.commands.sweeping import policy_of_request
from api.errors import ApiError, plain, refused
from api.schemas.facts import BatchAssert, BatchRetract
from api.schemas.fork import Supposed, SupposeResolve, SupposeSweep, SupposeTrust
from projections.arrays import I32
from projections.conflicts import conflict
from projections.intents import (
    Done,
    Intent,
    Refused,
    ResolveConflict,
    RetractFact,
    SetSourceTrust,
    SweepDecay,
)
from projections.normalization import SCOPES, normalize_uri


def suppose(call: Call, scratch: Call, items: list[Supposed]) -> list[dict[str, Any]]:
    """Write everything in the scratch node, in order; what came of each.

    Args:
        call: the caller at the node itself, for the rights of today.
        scratch: the same caller at the scratch node.

    Raises:
        ApiError: with the status of what was refused, ``supposition_refused`` and which it was.
    """
    results: list[dict[str, Any]] = []
    for index, item in enumerate(items):
        try:
            require(call.caller, "write")
            intent = _intent(call, scratch, item)
            done = _written(scratch, intent)
        except ApiError as fault:
            raise _refused(index, fault) from fault
        results.append(
            {
                "index": index,
                "op": item.op,
                "fact_id": done.fact_id,
                "created": done.created,
                "retracted": list(done.retracted),
                "events": len(done.events),
            }
        )
    return results


def _written(scratch: Call, intent: Intent) -> Done:
    writer = scratch.node.writer
    answer = writer.submit([intent], actor=scratch.caller.principal).result()
    outcome = answer.outcomes[0]
    if isinstance(outcome, Refused):
        raise refused(outcome)
    return outcome


def _refused(index: int, fault: ApiError) -> ApiError:
    return ApiError(
        fault.status,
        {
            "code": "supposition_refused",
            "message": f"supposition {index} would have been refused",
            "index": index,
            "error": fault.body()["detail"],
        },
    )


def _intent(call: Call, scratch: Call, item: Supposed) -> Intent:
    match item:
        case BatchAssert():
            if item.garden_id is not None:
                entered_garden(call, item.garden_id)
            return assertion_of(scratch, item).intent
        case BatchRetract():
            return _retraction(scratch, item)
        case SupposeResolve():
            return _resolution(scratch, item)
        case SupposeTrust():
            require(call.caller, "admin")
            source = stored_uri(item.source)
            return SetSourceTrust(source=source, trust=item.trust, reason=item.reason)
        case SupposeSweep():
            return _sweep(call, scratch, item)


def _retraction(scratch: Call, item: BatchRetract) -> RetractFact:
    """Of a fact that the caller may see today."""
    scratch.check_served(item.id)
    view, slot = scratch.view(), scratch.node.reader.slot_of(item.id)
    if slot is None or not _readable(scratch, slot):
        raise plain("fact_not_found")
    assert slot < view.count
    return RetractFact(
        fact_id=item.id,
        reason=item.reason,
        scopes=scratch.authorization.scopes,
        member=member_of(scratch),
    )


def _readable(scratch: Call, slot: int) -> bool:
    one: I32 = np.array([slot], dtype=np.int32)
    return bool(scratch.authorization.mask(scratch.view(), one)[0])


def _resolution(scratch: Call, item: SupposeResolve) -> ResolveConflict:
    if item.new_value is not None:
        check_value(scratch, item.new_value)
    view, rights = scratch.view(), scratch.authorization
    reader = scratch.node.reader
    seen = conflict(reader, view, rights, scratch.moment(view), item.conflict_id)
    if seen is None:
        raise plain("conflict_not_found")
    return ResolveConflict(
        conflict_id=item.conflict_id,
        source=normalize_uri(scratch.caller.principal),
        scopes=rights.scopes,
        fact_id=seen.row.fact_id,
        settled=seen.status == "resolved",
        winning_fact_id=item.winning_fact_id,
        new_value=None if item.new_value is None else item.new_value.stored(),
        note=item.resolution_note,
        permissions=rights.permissions,
        member=member_of(scratch),
        rights=rights,
    )


def _sweep(call: Call, scratch: Call, item: SupposeSweep) -> SweepDecay:
    """Of what the caller may sweep today, by the policies of the moment or the item's own."""
    if item.scope is not None:
        if item.scope not in SCOPES:
            raise ApiError(400, f"scope must be one of {sorted(SCOPES)}")
        call.check_scope(item.scope)
    rights = msgspec.structs.replace(call.narrowed(item.scope), withheld=0)
    own = policy_of_request(item.ttl_seconds, item.min_confidence)
    reader = scratch.node.reader
    policies = tuple(reader.decay_policies(scratch.view().position)) if own is None else (own,)
    scopes = tuple(scope for scope in SCOPES if scope in rights.scopes)
    return SweepDecay(scopes=scopes, policies=policies, gardens=swept_gardens(call))
