"""Recording a summary: new paragraphs are stated, removed ones retracted, and unchanged ones keep
their facts; all or nothing."""

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from engramlog.eventlog.event import Draft, fact_partition
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import FactAsserted, FactRetracted, SummaryRecorded, Value
from engramlog.projections.cid import with_cid
from engramlog.projections.memories.summary_naming import RELATION, Period, period_of_name
from engramlog.projections.summaries.reading import (
    SummaryParagraph,
    current_paragraphs,
    paragraphs_of,
)
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decide.declared.gardens import check_writing
from engramlog.projections.writing.decide.readable import readable
from engramlog.projections.writing.memory_commands import RecordSummary

PARAGRAPHS_MAX = 2_000
"""Paragraphs of one summary."""


class _Change(Struct, frozen=True):
    """The paragraphs in order, each with its text and its existing fact, and the removed ones."""

    wanted: list[tuple[str, str | None]]
    gone: list[SummaryParagraph]

    @property
    def fresh(self) -> int:
        return sum(fact is None for _, fact in self.wanted)


def record_summary(command: RecordSummary, context: Context) -> Decision | Refused:
    """``detail``: the summary's ``tier`` and ``period_start``, the number of its paragraphs
    (``paragraphs``), how many are new (``asserted``), and how many old ones ended (``retracted``).
    Refuses: ``invalid_summary``, and the refusals of ``check_writing``."""
    period = period_of_name(command.name)
    if period is None:
        return Refused("invalid_summary", f"{command.name!r} is not the name of a summary", "name")
    texts = [] if command.text is None else paragraphs_of(command.text)
    if len(texts) > PARAGRAPHS_MAX:
        message = f"it has {len(texts)} paragraphs, over {PARAGRAPHS_MAX}"
        return Refused("invalid_summary", message, "text")
    check_writing(context, command.rights, command.garden_id, command.scope)
    partition = fact_partition(command.scope, command.garden_id)
    standing = current_paragraphs(context.db, partition, command.owner, command.name)
    if standing:
        shown = readable(context, command.rights, [each.fact_id for each in standing])
        standing = [each for each in standing if each.fact_id in shown] or None
    change = _compare(texts, standing or [])
    order = [fact for _, fact in change.wanted] == [each.fact_id for each in standing or []]
    same = order and (standing is None) == (command.text is None)
    detail = {
        "tier": period.tier,
        "period_start": period.start.isoformat(),
        "paragraphs": len(texts),
        "asserted": change.fresh,
        "retracted": sum(each.live for each in change.gone),
    }
    if same:
        return Decision([], created=False, detail=detail)
    drafts = _drafts(command, period, change, partition, context)
    retracted = tuple(each.fact_id for each in change.gone if each.live)
    return Decision(drafts, retracted=retracted, detail=detail)


def _compare(texts: Sequence[str], standing: Sequence[SummaryParagraph]) -> _Change:
    """Match each existing paragraph with the first wanted one of equal text that is unmatched."""
    free: defaultdict[str, list[SummaryParagraph]] = defaultdict(list)
    for each in reversed(standing):
        free[each.text].append(each)
    wanted = [(text, free[text].pop().fact_id if free[text] else None) for text in texts]
    kept = {fact for _, fact in wanted}
    return _Change(wanted, [each for each in standing if each.fact_id not in kept])


def _drafts(
    command: RecordSummary, period: Period, change: _Change, partition: str, context: Context
) -> list[Draft]:
    """The summary first, which causes the rest; then retractions, then new paragraphs."""
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
        draft = context.draft(_paragraph(command, period, text), partition, cause)
        facts.append(draft)
        fact_ids.append(id_text(draft.event_id))
    if facts:
        key = (period.entity, RELATION, command.scope, command.garden_id)
        context.undecided.touched.add(key)  # the memory image shows the key only after the commit
    recorded = SummaryRecorded(
        name=command.name,
        tier=period.tier,
        period_start=period.start.isoformat(),
        owner=command.owner,
        scope=command.scope,  # pyright: ignore[reportArgumentType]  # validated at the edge
        garden_id=command.garden_id,
        fact_ids=fact_ids,
        retracted=retracted,
        removed=command.text is None,
        modified_us=command.modified_us,
        size=command.size,
    )
    return [Draft(recorded, partition, cause, context.actor), *ends, *facts]


def _paragraph(command: RecordSummary, period: Period, text: str) -> FactAsserted:
    fact = FactAsserted(
        entity=period.entity,
        relation=RELATION,
        value=Value(type="text", v=text),
        source=command.owner,
        scope=command.scope,  # pyright: ignore[reportArgumentType]  # validated at the edge
        valid_from=f"{period.start.isoformat()}T00:00:00Z",
        garden_id=command.garden_id,
    )
    return with_cid(fact)
