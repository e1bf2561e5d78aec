"""Taking down what became of recalled facts."""

from __future__ import annotations

import msgspec

from eventlog.kinds import FactFeedback
from projections.database import query
from projections.deciding.context import Context, Decision
from projections.intents import GiveFeedback, Refused

_KNOWN = "SELECT id FROM facts WHERE id IN (SELECT value FROM json_each(?))"


def give_feedback(intent: GiveFeedback, context: Context) -> Decision | Refused:
    """Record feedback; nothing where it names no fact."""
    named = sorted({*intent.cited, *intent.rejected})
    if not named:
        return Decision([], created=False)
    context.flush()
    known = query(context.db, _KNOWN, (msgspec.json.encode(named).decode(),))
    if len(known) < len(named):  # erased meanwhile
        return Refused("fact_not_found", "fact not found", "cited")
    payload = FactFeedback(
        cited=list(dict.fromkeys(intent.cited)),
        rejected=list(dict.fromkeys(intent.rejected)),
        receipt_id=intent.receipt_id,
    )
    return Decision([context.draft(payload)])
