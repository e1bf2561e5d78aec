"""What became of recalled facts, over HTTP."""

from __future__ import annotations

import numpy as np
from aiohttp import web

from api.bodies import answer, parse_body
from api.call import Call
from api.commands.receipting import receipt_named
from api.errors import entry, plain, unprocessable
from api.schemas.recall import FeedbackRequest
from projections.arrays import I32
from projections.intents import GiveFeedback
from projections.recall.citation import is_cited
from projections.selection import known

_WORDED = ("string", "text")


async def give_feedback(call: Call) -> web.Response:
    """Note which recalled facts were used, and which were wrong.

    Raises:
        ApiError: 404 ``receipt_not_found``; 404 where a named fact is not there for the caller;
            422 where the receipt's recall did not return it.
    """
    data = await call.raw()
    request = parse_body(FeedbackRequest, data)
    _check_readable(call, [*request.cited, *request.rejected])
    returned: list[str] = []
    if request.receipt_id is not None:
        receipt, _ = receipt_named(call, request.receipt_id)
        returned = [each.fact_id for each in receipt.returned]
        _check_returned(request, frozenset(returned))
    cited = request.cited
    text = request.answer
    if text is not None:
        cited = await call.in_pool(lambda: _cited(call, returned, text))
    intent = GiveFeedback(
        cited=tuple(cited), rejected=tuple(request.rejected), receipt_id=request.receipt_id
    )
    done = await call.do(intent, idempotency=call.idempotency(data))
    return answer({"cited": cited, "rejected": request.rejected, "position": done.position})


def _check_returned(request: FeedbackRequest, returned: frozenset[str]) -> None:
    wrong = [
        entry("not_returned", ["body", name, index], "the recall did not return this fact", fact)
        for name, facts in (("cited", request.cited), ("rejected", request.rejected))
        for index, fact in enumerate(facts)
        if fact not in returned
    ]
    if wrong:
        raise unprocessable(wrong)


def _check_readable(call: Call, facts: list[str]) -> None:
    if len(_readable(call, facts)) < len(frozenset(facts)):
        raise plain("fact_not_found")


def _readable(call: Call, facts: list[str]) -> dict[str, int]:
    """Slots of those facts that the caller may read today."""
    view = call.view()
    slots = {
        fact: slot
        for fact in facts
        if (slot := call.node.reader.slot_of(fact)) is not None and slot < view.count
    }
    chosen: I32 = np.asarray(sorted(slots.values()), dtype=np.int32)
    shown = frozenset(known(view, call.authorization.reading(), call.moment(view), chosen).tolist())
    return {fact: slot for fact, slot in slots.items() if slot in shown}


def _cited(call: Call, returned: list[str], text: str) -> list[str]:
    """Those of the returned facts whose text the answer made use of."""
    slots = _readable(call, returned)
    view = call.view()
    positions = [int(view.from_position[slot]) for slot in slots.values()]
    rows = call.node.reader.rows(positions)
    return [row.id for row in rows if row.value_type in _WORDED and is_cited(row.value_v, text)]
