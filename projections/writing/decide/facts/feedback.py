"""Recording feedback on recalled facts."""

import msgspec

from engramlog.eventlog.kinds import FactFeedback
from engramlog.projections.tables.database import query
from engramlog.projections.tables.recalls.feedback import outcomes_of
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.context import Context, Decision

_KNOWN = "SELECT id FROM fact_rows WHERE id IN (SELECT value FROM json_each(?))"


def give_feedback(command: FactFeedback, context: Context) -> Decision | Refused:
    """Record feedback. Per recall, each fact is cited or rejected at most once; without news it
    records nothing."""
    named = sorted({*command.cited, *command.rejected})
    if not named:
        return Decision([], created=False)
    known = query(context.db, _KNOWN, (msgspec.json.encode(named).decode(),))
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
