"""A human's decision on a fact that the sanitizer flagged."""

from __future__ import annotations

from eventlog.kinds import ContentReviewed
from projections.database import query_one
from projections.deciding.context import Context, Decision
from projections.garden_directory import role_in
from projections.intents import Refused, ReviewContent
from projections.verdicts import reviews_of

_FLAGGED = """
SELECT facts.scope, verdicts.fact_id, facts.garden_id FROM facts
LEFT JOIN verdicts ON verdicts.from_position=facts.from_position
WHERE facts.id=?
"""
_ABSENT = Refused("fact_not_found", "fact not found", "fact_id")


def review_content(intent: ReviewContent, context: Context) -> Decision | Refused:
    """Release a flagged fact or keep it back; nothing where it is decided so already."""
    context.flush()
    row = query_one(context.db, _FLAGGED, (intent.fact_id,))
    if row is None or row[0] not in intent.scopes:
        return _ABSENT
    garden, member = row[2], intent.member
    if None not in (garden, member) and role_in(context.db, garden, member or "") is None:
        return _ABSENT
    if row[1] is None:
        return Refused("fact_not_flagged", "the sanitizer found nothing in this fact", "fact_id")
    standing = reviews_of(context.db, [intent.fact_id]).get(intent.fact_id)
    if standing is not None and standing.decision == intent.decision:
        return Decision([], fact_id=intent.fact_id, created=False)
    payload = ContentReviewed(
        fact_id=intent.fact_id,
        decision=intent.decision,  # pyright: ignore[reportArgumentType]  # validated at the edge
        reason=intent.reason,
    )
    return Decision([context.draft(payload)], fact_id=intent.fact_id)
