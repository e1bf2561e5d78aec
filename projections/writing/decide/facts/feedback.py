"""What recalls returned, and what people and agents say about facts: feedback on recalled ones, and
decisions on those that the sanitizer flagged."""

from engramlog.eventlog.kinds import FactFeedback, RecallAnswered
from engramlog.projections.tables.database import json_list, query, query_one
from engramlog.projections.tables.facts.verdicts import reviews_of
from engramlog.projections.tables.recalls.feedback import outcomes_of
from engramlog.projections.writing.commands import Refused, ReviewContent
from engramlog.projections.writing.decide.authority import covers_scope
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decide.declared.gardens import role_of

_KNOWN = "SELECT id FROM fact_rows WHERE id IN (SELECT value FROM json_each(?))"
_FLAGGED = """
SELECT facts.scope, verdicts.fact_id, facts.garden_id FROM fact_rows AS facts
LEFT JOIN verdicts ON verdicts.from_position=facts.from_position
WHERE facts.id=?
"""
_ABSENT = Refused("fact_not_found", "fact not found", "fact_id")


def keep_receipt(receipt: RecallAnswered, context: Context) -> Decision:
    """Record a recall's receipt, unless a fact that it returned was erased before this: it may
    repeat the text, and the cleaning looked for receipts in the log."""
    if not context.image.erased.facts.isdisjoint(each.fact_id for each in receipt.returned):
        return Decision([], created=False)
    return Decision([context.draft(receipt)])


def give_feedback(command: FactFeedback, context: Context) -> Decision | Refused:
    """Record feedback. Per recall, each fact is cited or rejected at most once; without news it
    records nothing."""
    named = sorted({*command.cited, *command.rejected})
    known = query(context.db, _KNOWN, (json_list(named),))
    if len(known) < len(named):  # erased meanwhile
        return Refused("fact_not_found", "fact not found", "cited")
    cited, rejected = frozenset[str](), frozenset[str]()
    if command.receipt_id is not None:
        cited, rejected = outcomes_of(context.db, command.receipt_id)
    payload = FactFeedback(
        cited=[fact for fact in dict.fromkeys(command.cited) if fact not in cited],
        rejected=[fact for fact in dict.fromkeys(command.rejected) if fact not in rejected],
        receipt_id=command.receipt_id,
    )
    if not (payload.cited or payload.rejected):
        return Decision([], created=False)
    return Decision([context.draft(payload)])


def review_content(command: ReviewContent, context: Context) -> Decision | Refused:
    """Release a flagged fact or hold it back; records nothing without a change."""
    review = command.review
    row = query_one(context.db, _FLAGGED, (review.fact_id,))
    if row is None or not covers_scope(command.rights, row[0]):
        return _ABSENT
    if row[2] is not None and role_of(context, command.rights, row[2]) is None:
        return _ABSENT
    if row[1] is None:
        return Refused("fact_not_flagged", "the sanitizer found nothing in this fact", "fact_id")
    standing = reviews_of(context.db, [review.fact_id]).get(review.fact_id)
    if standing is not None and standing.decision == review.decision:
        return Decision([], fact_id=review.fact_id, created=False)
    return Decision([context.draft(review)], fact_id=review.fact_id)
