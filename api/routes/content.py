"""Facts that the sanitizer flagged: what it found, and an admin's decision on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from aiohttp import web

from api.bodies import answer
from api.call import Call, warned
from api.commands.gardening import member_of
from api.records import Record, records_of
from api.schemas.content import FlaggedQuery, ReviewRequest
from projections.arrays import I32
from projections.intents import ReviewContent
from projections.moment import format_instant
from projections.sanitizing import IN_NAME, NOTICES, RULESET
from projections.verdicts import Review
from projections.view import View

_STATUS_OF = {None: "pending", "release": "released", "keep": "kept"}
_PAGE_SLOTS = 500


async def list_flagged(call: Call) -> web.Response:
    """Flagged facts the caller may read, newest first, whole and whatever the mode."""
    query = call.query(FlaggedQuery)
    flagged = await call.in_pool(lambda: _flagged(call, query))
    shown = flagged[: query.limit]
    more = len(flagged) > query.limit
    body = {
        "flagged": shown,
        "next_before": shown[-1]["fact"]["position"] if more else None,
        "ruleset": RULESET,
        "mode": call.service.settings.sanitizer_mode,
    }
    return answer(warned(body, query))


def _flagged(call: Call, query: FlaggedQuery) -> list[dict[str, Any]]:
    """One more than a page, where there is one."""
    view = call.view()
    slots = view.flagged()
    slots = slots[call.caller.authorization.mask(view, slots)]
    if query.before is not None:
        slots = slots[view.from_position[slots] < query.before]
    slots = slots[::-1]
    found: list[dict[str, Any]] = []
    for start in range(0, len(slots), _PAGE_SLOTS):
        found += _entries(call, view, slots[start : start + _PAGE_SLOTS], query.status)
        if len(found) > query.limit:
            break
    return found[: query.limit + 1]


def _entries(call: Call, view: View, slots: I32, status: str) -> list[dict[str, Any]]:
    reader = call.node.reader
    codes = reader.codes(view.from_position[slots].tolist())
    sentinel = [
        slot for slot in slots.tolist() if _holds_back(codes.get(int(view.from_position[slot]), ()))
    ]
    rights = call.caller.authorization
    records = records_of(
        reader,
        view,
        np.asarray(sentinel, dtype=np.int32),
        call.moment(view),
        rights,
        call.node.node_id,
    )
    reviews = reader.content_reviews([record["id"] for record in records])
    entries = [
        _entry(record, codes[record["position"]], reviews.get(record["id"])) for record in records
    ]
    return [each for each in entries if status in ("all", each["status"])]


def _holds_back(codes: tuple[str, ...]) -> bool:
    return any(code.removeprefix(IN_NAME) not in NOTICES for code in codes)


def _entry(record: Record, codes: tuple[str, ...], review: Review | None) -> dict[str, Any]:
    return {
        "fact": record | {"sanitizer_warnings": list(codes)},
        "codes": list(codes),
        "status": _STATUS_OF[None if review is None else review.decision],
        "review": None
        if review is None
        else {
            "decision": review.decision,
            "reason": review.reason,
            "reviewer": review.actor,
            "decided_at": format_instant(review.decided_at),
            "position": review.position,
        },
    }


async def review(call: Call) -> web.Response:
    """Release a flagged fact, or keep it back."""
    request = await call.body(ReviewRequest)
    fact_id = call.segment("fact_id")
    intent = ReviewContent(
        fact_id=fact_id,
        decision=request.decision,
        reason=request.reason,
        scopes=call.authorization.scopes,
        member=member_of(call),
    )
    done = await call.do(intent)
    body = {
        "fact_id": fact_id,
        "decision": request.decision,
        "status": _STATUS_OF[request.decision],
        "position": done.position,
    }
    return answer(warned(body, request))
