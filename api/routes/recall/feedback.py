"""Feedback on recalled facts over HTTP."""

from msgspec import Struct

from engramlog.api.commands.assertions import check_may_end
from engramlog.api.commands.recall.receipts import receipt_named
from engramlog.api.http.call import Call
from engramlog.api.http.errors import entry, plain, unprocessable
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.recall import FeedbackRequest
from engramlog.eventlog.kinds import FactFeedback
from engramlog.projections.image.visible_facts import readable_of
from engramlog.projections.recall.citation import GivenAnswer
from engramlog.projections.tables.declared.garden_directory import MODERATING_ROLES

routes = Routes("recall")


class FeedbackTaken(Struct):
    """Which facts count as cited and as rejected; ``position`` is null if all were known."""

    cited: list[str]
    rejected: list[str]
    position: int | None


_WORDED = ("string", "text")


@routes.add(
    "POST /v1/recall/feedback",
    permission="write",
    errors=(404,),
    headers=("Idempotency-Key",),
)
async def give_feedback(call: Call, request: FeedbackRequest) -> FeedbackTaken:
    """Note which recalled facts the answer cited, and which were wrong.

    Raises:
        ApiError: 404 ``receipt_not_found``; 404 if a named fact is not visible; 422 if the
            receipt's recall did not return it; 403 if one is rejected without an own receipt and
            the caller could not end it.
    """
    named = {*request.cited, *request.rejected}
    if len(_readable(call, [*named])) < len(named):
        raise plain("fact_not_found")
    returned: list[str] = []
    recalled = False
    if request.receipt_id is not None:
        receipt, _ = receipt_named(call, request.receipt_id)
        returned = [each.fact_id for each in receipt.returned]
        _check_returned(request, frozenset(returned))
        recalled = receipt.principal == call.caller.principal
    if not recalled:
        _check_authority(call, request.rejected)
    cited = request.cited
    text = request.answer
    if text is not None:
        cited = await call.in_pool(lambda: _cited(call, returned, text))
    command = FactFeedback(cited=cited, rejected=request.rejected, receipt_id=request.receipt_id)
    done = await call.do(command, idempotency=call.idempotency())
    return FeedbackTaken(cited, request.rejected, done.position)


def _check_returned(request: FeedbackRequest, returned: frozenset[str]) -> None:
    wrong = [
        entry("not_returned", ["body", name, index], "the recall did not return this fact", fact)
        for name, facts in (("cited", request.cited), ("rejected", request.rejected))
        for index, fact in enumerate(facts)
        if fact not in returned
    ]
    if wrong:
        raise unprocessable(wrong)


def _check_authority(call: Call, rejected: list[str]) -> None:
    """Without a receipt of the caller, nothing proves that it recalled a fact. Only callers who
    could end the fact may then reject it. Raises ApiError 403."""
    view = call.view()
    for slot in _readable(call, rejected).values():
        garden = int(view.garden[slot])
        named = None if garden < 0 else call.node.reader.gardens.find(view.gardens.text(garden))
        if named is None or named.role(call.caller.principal) not in MODERATING_ROLES:
            check_may_end(call, view.sources.text(int(view.source[slot])))


def _readable(call: Call, facts: list[str]) -> dict[str, int]:
    """Slots of the facts that the caller may read now."""
    return readable_of(call.view(), call.authorization.reading(), facts)


def _cited(call: Call, returned: list[str], text: str) -> list[str]:
    """Those of the returned facts that the answer's text uses."""
    slots = _readable(call, returned)
    view = call.view()
    positions = [int(view.from_position[slot]) for slot in slots.values()]
    rows = call.node.reader.rows(positions)
    answer = GivenAnswer(text)
    return [row.id for row in rows if row.value_type in _WORDED and answer.cites(row.value_v)]
