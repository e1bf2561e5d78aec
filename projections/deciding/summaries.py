"""Recording a summary: its new paragraphs are stated, those that went are retracted, and those
that stayed are the same facts as before; all of it or nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from eventlog.event import Draft, fact_partition
from eventlog.identifiers import id_text
from eventlog.kinds import FactAsserted, FactRetracted, SummaryRecorded, Value
from projections.cid import compute_cid
from projections.deciding.context import Context, Decision
from projections.deciding.gardens import write_refusal
from projections.deciding.readable import readable
from projections.intents import RecordSummary, Refused
from projections.summaries.naming import RELATION, Period, period_of_name
from projections.summaries.paragraphs import paragraphs_of
from projections.summaries.reading import StandingParagraph, standing_paragraphs

PARAGRAPHS_MAX = 2_000
"""Paragraphs of one summary."""


class _Change(Struct, frozen=True):
    """By paragraph, in order: its text and the fact that says so already; and what went."""

    wanted: list[tuple[str, str | None]]
    gone: list[StandingParagraph]

    @property
    def fresh(self) -> int:
        return sum(fact is None for _, fact in self.wanted)


def record_summary(intent: RecordSummary, context: Context) -> Decision | Refused:
    """``detail``: the summary's ``tier`` and ``period_start``, how many paragraphs it has
    (``paragraphs``), and how many of them were ``asserted``, and of the old ``retracted``.

    Refuses: ``invalid_summary``, and what ``write_refusal`` does.
    """
    period = period_of_name(intent.name)
    if period is None:
        return Refused("invalid_summary", f"{intent.name!r} is no name of a summary", "name")
    texts = [] if intent.text is None else paragraphs_of(intent.text)
    if len(texts) > PARAGRAPHS_MAX:
        message = f"it has {len(texts)} paragraphs, over {PARAGRAPHS_MAX}"
        return Refused("invalid_summary", message, "text")
    if intent.garden_id is not None:
        refusal = write_refusal(context.db, intent.garden_id, intent.scope, intent.member)
        if refusal is not None:
            return refusal
    context.flush()
    partition = fact_partition(intent.scope, intent.garden_id)
    standing = standing_paragraphs(context.db, partition, intent.owner, intent.name)
    if standing:
        shown = readable(context, intent.rights, [each.fact_id for each in standing])
        standing = [each for each in standing if each.fact_id in shown] or None
    change = _compare(texts, standing or [])
    order = [fact for _, fact in change.wanted] == [each.fact_id for each in standing or []]
    same = order and (standing is None) == (intent.text is None)
    detail = {
        "tier": period.tier,
        "period_start": period.start.isoformat(),
        "paragraphs": len(texts),
        "asserted": change.fresh,
        "retracted": sum(each.live for each in change.gone),
    }
    if same:
        return Decision([], created=False, detail=detail)
    drafts = _drafts(intent, period, change, partition, context)
    retracted = tuple(each.fact_id for each in change.gone if each.live)
    return Decision(drafts, retracted=retracted, detail=detail)


def _compare(texts: Sequence[str], standing: Sequence[StandingParagraph]) -> _Change:
    """Each standing paragraph goes to the first wanted one of its text that has none yet."""
    free: defaultdict[str, list[StandingParagraph]] = defaultdict(list)
    for each in reversed(standing):
        free[each.text].append(each)
    wanted = [(text, free[text].pop().fact_id if free[text] else None) for text in texts]
    kept = {fact for _, fact in wanted}
    return _Change(wanted, [each for each in standing if each.fact_id not in kept])


def _drafts(
    intent: RecordSummary, period: Period, change: _Change, partition: str, context: Context
) -> list[Draft]:
    """The summary first, which causes the rest; then what ends, then what is new."""
    cause = context.identifiers.next(context.now_us)
    retracted = [each.fact_id for each in change.gone if each.live]
    ends: list[Draft] = []
    if retracted:
        payload = FactRetracted(fact_ids=retracted, reason="replaced")
        ends.append(context.draft(payload, partition, cause))
    facts: list[Draft] = []
    fact_ids: list[str] = []
    for text, known in change.wanted:
        if known is not None:
            fact_ids.append(known)
            continue
        draft = context.draft(_paragraph(intent, period, text), partition, cause)
        facts.append(draft)
        fact_ids.append(id_text(draft.event_id))
    if facts:
        key = (period.entity, RELATION, intent.scope, intent.garden_id)
        context.undecided.touched.add(key)  # the mirror shows the key only after the commit
    recorded = SummaryRecorded(
        name=intent.name,
        tier=period.tier,
        period_start=period.start.isoformat(),
        owner=intent.owner,
        scope=intent.scope,  # pyright: ignore[reportArgumentType]  # validated at the edge
        garden_id=intent.garden_id,
        fact_ids=fact_ids,
        retracted=retracted,
        removed=intent.text is None,
        modified_us=intent.modified_us,
        size=intent.size,
    )
    return [Draft(recorded, partition, cause, context.actor), *ends, *facts]


def _paragraph(intent: RecordSummary, period: Period, text: str) -> FactAsserted:
    value = Value(type="text", v=text)
    return FactAsserted(
        entity=period.entity,
        relation=RELATION,
        value=value,
        source=intent.owner,
        scope=intent.scope,  # pyright: ignore[reportArgumentType]  # validated at the edge
        confidence=1.0,
        cid=compute_cid(
            entity=period.entity,
            relation=RELATION,
            value=value,
            source=intent.owner,
            confidence=1.0,
            scope=intent.scope,
        ),
        valid_from=f"{period.start.isoformat()}T00:00:00Z",
        garden_id=intent.garden_id,
    )
