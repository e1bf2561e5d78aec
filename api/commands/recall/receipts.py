"""Receipts of recalls: made with every answer, found later, and replayed.

A receipt is visible to its caller and to auditors. Present rights decide which of its facts they
see, as for every look at the past.
"""

from typing import Any

from msgspec import Struct

from engramlog.api.answers.fact_record import FactRecord, MomentRecord
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.garden_access import known_garden
from engramlog.api.commands.recall.question import RecallRun, ask
from engramlog.api.commands.request_context import ReadingContext, RequestContext
from engramlog.api.http.errors import ApiError, coded
from engramlog.api.schemas.recall import RecallBody
from engramlog.eventlog.kinds import RecallAnswered, Returned, StageReport
from engramlog.projections.image.view import View
from engramlog.projections.image.visible_facts import readable_of
from engramlog.projections.moment import Moment, format_instant
from engramlog.projections.normalization import normalize_uri
from engramlog.projections.recall.answer import Compared, RankedFact, RecallAnswer, compare
from engramlog.projections.recall.profile import profile_digest
from engramlog.projections.tables.recalls.recall_receipts import find_receipt


class AskedMoment(MomentRecord):
    """A moment, with a separate instant of validity if requested."""

    valid_at: str | None


class ReturnedFact(Struct):
    """A fact that a recall returned."""

    fact_id: str
    rank: int | None
    score: float | None
    from_card: bool


class RecalledStage(Struct):
    """The outcome of a stage."""

    name: str
    status: str


class Receipt(Struct):
    """A recall's question and answer; ``position`` is null until the log has it."""

    receipt_id: str
    principal: str
    query: str
    request: dict[str, Any]
    profile: str
    profile_digest: str
    moment: AskedMoment
    answered_at: str
    position: int | None
    returned: list[ReturnedFact]
    stages: list[RecalledStage]
    total_scored: int | None
    tokens_used: int | None
    truncated: bool | None
    counted: bool


class ReceiptPage(Struct):
    """Receipts, newest first."""

    receipts: list[Receipt]
    cursor: str | None


class ReplayedThen(Struct):
    """The answer at the receipt's own moment. ``faithful``: whether it equals the recorded one;
    null for a receipt of another caller. ``reasons``: why it differs."""

    moment: AskedMoment
    faithful: bool | None
    reasons: list[str]


class ReplayedNow(Struct):
    """The present answer."""

    moment: AskedMoment


class ComparedFact(Struct):
    """A fact of either answer, with its ranks then and now. Ranks count from 1."""

    fact_id: str
    change: str
    rank_then: int | None
    score_then: float | None
    rank_now: int | None
    score_now: float | None
    fact: FactRecord | None


class ReplayedRecall(Struct):
    """A receipt's question, repeated; ``facts`` compares the answers at its moment and now."""

    receipt_id: str
    query: str
    profile: str
    then: ReplayedThen
    now: ReplayedNow
    counts: dict[str, int]
    facts: list[ComparedFact]


_APART = frozenset({"query", "track", "explain", "debug", "as_of"})
"""Fields of a request that its receipt does not repeat."""


def receipt_of(
    context: ReadingContext, body: RecallBody, run: RecallRun, receipt_id: str, *, counted: bool
) -> RecallAnswered:
    """The receipt of an answer just given."""
    answer = run.answer
    sent = body.model_dump(mode="json", include=set(RecallBody.model_fields), exclude_unset=True)
    return shaped(
        answer,
        RecallAnswered,
        receipt_id=receipt_id,
        principal=context.caller.principal,
        query=body.query,
        request={name: value for name, value in sent.items() if name not in _APART},
        profile_digest=profile_digest(run.profile),
        position=answer.moment.position,
        instant_us=answer.moment.instant_us,
        valid_us=answer.moment.valid_at_us,
        at_us=context.node.clock.now_us(),
        returned=[Returned(each.row.id, each.score, each.from_card) for each in answer.results],
        stages=[StageReport(stage.name, stage.status) for stage in answer.stages],
        counted=counted,
    )


def sees_all(context: ReadingContext) -> bool:
    """Whether the caller may read the receipts of others."""
    return context.authorization.may("audit.read") or context.authorization.may("admin")


def receipt_named(context: RequestContext, receipt_id: str) -> tuple[RecallAnswered, int | None]:
    """A receipt that the caller may read, and its position in the log (None: not there yet). Raises
    ApiError 404 ``receipt_not_found``: it does not exist, is erased, or is another caller's."""
    waiting = context.service.tracker.receipt(receipt_id)
    if waiting is not None:
        receipt, position = waiting, None
    else:
        position = context.node.reader.ask(find_receipt, receipt_id)
        receipt = None if position is None else logged(context, position)
    is_own = receipt is not None and receipt.principal == context.caller.principal
    if receipt is None or not (is_own or sees_all(context)) or is_hidden(context, receipt):
        raise coded("receipt_not_found", "no such receipt, or not yours")
    return receipt, position


def is_hidden(context: ReadingContext, receipt: RecallAnswered) -> bool:
    """Whether a receipt's question is about an entity that tombstones hide everywhere, or another's
    in a garden that the caller may not know of."""
    entity, garden = receipt.request.get("entity"), receipt.request.get("garden_id")
    if isinstance(garden, str) and not _may_know(context, receipt, garden):
        return True
    hiding = context.view().hiding
    if not hiding or not isinstance(entity, str):
        return False
    return hiding.covers_everywhere(normalize_uri(entity))


def _may_know(context: ReadingContext, receipt: RecallAnswered, garden: str) -> bool:
    rights = context.authorization
    if receipt.principal == context.caller.principal or rights.may("admin"):
        return True  # also of deleted gardens
    try:
        known_garden(context, garden)
    except ApiError:
        return False
    return True


def logged(context: ReadingContext, position: int) -> RecallAnswered | None:
    """The receipt at a position; None if it is erased."""
    for event in context.node.log.read(position - 1, 1):
        if event.position == position and isinstance(event.payload, RecallAnswered):
            return event.payload
    return None


def wire_receipt(
    context: ReadingContext, view: View, receipt: RecallAnswered, position: int | None
) -> Receipt:
    """A receipt in the form of answers, with those returned facts that the caller may read. For
    others than its own caller, numbers and ranks are null and facts are in order of id: unreadable
    facts influenced both."""
    is_own = receipt.principal == context.caller.principal
    shown = _recorded(context, view, receipt)
    cards = {each.fact_id for each in receipt.returned if each.card}
    return shaped(
        receipt,
        Receipt,
        moment=wire_moment(moment_of(receipt)),
        answered_at=format_instant(receipt.at_us),
        position=position,
        returned=[
            ReturnedFact(
                fact_id=each.fact_id,
                rank=each.rank if is_own else None,
                score=each.score if is_own else None,
                from_card=each.fact_id in cards,
            )
            for each in (shown if is_own else sorted(shown, key=lambda each: each.fact_id))
        ],
        stages=[RecalledStage(stage.name, stage.status) for stage in receipt.stages],
        total_scored=receipt.total_scored if is_own else None,
        tokens_used=receipt.tokens_used if is_own else None,
        truncated=receipt.truncated if is_own else None,
    )


def wire_moment(moment: Moment) -> AskedMoment:
    """A moment in the form of a recall."""
    valid = moment.valid_at_us
    return AskedMoment(
        position=moment.position,
        instant=format_instant(moment.instant_us),
        valid_at=None if valid is None else format_instant(valid),
    )


def moment_of(receipt: RecallAnswered) -> Moment:
    """The moment of a receipt's question."""
    return Moment(receipt.position, receipt.instant_us, receipt.valid_us)


def replayed(context: ReadingContext, receipt: RecallAnswered) -> ReplayedRecall:
    """The receipt's question at its own moment and now, compared. Raises ApiError 404 if the caller
    is not in its garden; 400 ``unknown_profile``; 400 ``as_of_before_retention_floor`` if its
    moment is too old."""
    context.check_retained(moment_of(receipt))
    view = context.view()
    body = RecallBody.model_validate({**receipt.request, "query": receipt.query})
    past = body.model_copy(update={"as_of": f"position:{receipt.position}"})
    then = ask(context, past, view, moment_of(receipt), explain=False)
    now_moment = Moment(view.position, context.node.clock.now_us(), receipt.valid_us)
    now = ask(context, body, view, now_moment, explain=False)
    again, today = _placed(then.answer), _placed(now.answer)
    is_own = receipt.principal == context.caller.principal
    reasons = [f"replayed with your rights, not those of {receipt.principal}"]
    if is_own:
        reasons = _reasons(receipt, then, _recorded(context, view, receipt), again)
    compared = compare(again, today)
    slots = {each.row.id: each.slot for each in (*then.answer.results, *now.answer.results)}
    records = _records(context, view, compared, slots, now_moment)
    faithful = not reasons if is_own else None
    return ReplayedRecall(
        receipt_id=receipt.receipt_id,
        query=receipt.query,
        profile=receipt.profile,
        then=ReplayedThen(wire_moment(then.answer.moment), faithful, reasons),
        now=ReplayedNow(wire_moment(now.answer.moment)),
        counts={
            change: sum(each.change == change for each in compared)
            for change in ("same", "moved", "gone", "new")
        },
        facts=[
            ComparedFact(
                fact_id=each.fact_id,
                change=each.change,
                rank_then=None if each.then is None else each.then.rank,
                score_then=None if each.then is None else each.then.score,
                rank_now=None if each.now is None else each.now.rank,
                score_now=None if each.now is None else each.now.score,
                fact=records.get(each.fact_id),
            )
            for each in compared
        ],
    )


def _recorded(context: ReadingContext, view: View, receipt: RecallAnswered) -> list[RankedFact]:
    """The returned facts that the caller may read now; only a card's own reader sees the facts
    behind it."""
    is_own = receipt.principal == context.caller.principal
    returned = [each.fact_id for each in receipt.returned]
    readable = readable_of(view, context.recall_authorization, returned)
    return [
        RankedFact(each.fact_id, rank, each.score)
        for rank, each in enumerate(receipt.returned, 1)
        if (each.card and is_own) or each.fact_id in readable
    ]


def _placed(answer: RecallAnswer) -> list[RankedFact]:
    return [
        RankedFact(each.row.id, rank, each.score) for rank, each in enumerate(answer.results, 1)
    ]


def _reasons(
    receipt: RecallAnswered, then: RecallRun, recorded: list[RankedFact], again: list[RankedFact]
) -> list[str]:
    """Why the repeated question differs from the receipt."""
    if recorded == again and len(recorded) == len(receipt.returned):
        return []
    reasons: list[str] = []
    if len(recorded) < len(receipt.returned):
        reasons.append("you may not read some of the returned facts, or they are erased")
    stages = [StageReport(stage.name, stage.status) for stage in then.answer.stages]
    reasons += [
        f"stage {was.name} was {was.status}, is {now.status}"
        for was, now in zip(receipt.stages, stages, strict=False)
        if was != now
    ]
    if profile_digest(then.profile) != receipt.profile_digest:
        reasons.append(f"profile {receipt.profile!r} is another than it was")
    return reasons or ["rights, vectors, the entity's card or erasures have changed since"]


def _records(
    context: ReadingContext,
    view: View,
    compared: list[Compared],
    slots: dict[str, int],
    moment: Moment,
) -> dict[str, FactRecord]:
    ids = [
        each.fact_id for each in compared if context.node.reader.slot_of(each.fact_id) is not None
    ]
    shown = context.records(view, [slots[fact] for fact in ids], moment)
    return dict(zip(ids, shown, strict=True))
