"""Taking down what became of recalled facts."""

from __future__ import annotations

import msgspec

from eventlog.kinds import FactFeedback
from projections.database import query
from projections.deciding.context import Context, Decision
from projections.feedback import told_of
from projections.intents import GiveFeedback, Refused

_KNOWN = "SELECT id FROM facts WHERE id IN (SELECT value FROM json_each(?))"


def give_feedback(intent: GiveFeedback, context: Context) -> Decision | Refused:
    """Record feedback. Of one recall every fact is cited, or rejected, at most once; nothing is
    recorded where nothing is new."""
    named = sorted({*intent.cited, *intent.rejected})
    if not named:
        return Decision([], created=False)
    context.flush()
    known = query(context.db, _KNOWN, (msgspec.json.encode(named).decode(),))
    if len(known) < len(named):  # erased meanwhile
        return Refused("fact_not_found", "fact not found", "cited")
    cited, rejected = frozenset[str](), frozenset[str]()
    if intent.receipt_id is not None:
        cited, rejected = told_of(context.db, intent.receipt_id)
    payload = FactFeedback(
        cited=[fact for fact in dict.fromkeys(intent.cited) if fact not in cited],
        rejected=[fact for fact in dict.fromkeys(intent.rejected) if fact not in rejected],
        receipt_id=intent.receipt_id,
    )
    if not (payload.cited or payload.rejected):
        return Decision([], created=False)
    return Decision([context.draft(payload)])
