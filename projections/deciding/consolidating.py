"""Consolidation rules set and removed, and runs noted.

A run is noted in the command that applies its deltas: both are written or neither, so that a
watermark never lies ahead of or behind what was made of the episodes.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from eventlog.kinds import ConsolidationRuleSet
from projections import intents as ask
from projections.database import query_one
from projections.deciding.context import Context, Decision
from projections.deciding.deltas import apply_deltas
from projections.episodic.reading import watermark
from projections.intents import Refused
from projections.moment import LIVE

_STANDS = f"SELECT document FROM consolidation_rules WHERE rule_id=? AND to_position={LIVE}"
RULE_NOT_FOUND = Refused("rule_not_found", "consolidation rule not found")


def set_consolidation_rule(
    intent: ask.SetConsolidationRule, context: Context
) -> Decision | Refused:
    """The rule is this from here on, or there is none."""
    context.flush()
    standing = query_one(context.db, _STANDS, (intent.rule_id,))
    if intent.document is None and standing is None:
        return RULE_NOT_FOUND
    if intent.document is not None:
        document = msgspec.json.encode(intent.document, order="sorted").decode()
        if standing is not None and standing[0] == document:
            return Decision([], created=False)
    payload = ConsolidationRuleSet(rule_id=intent.rule_id, document=intent.document)
    draft = context.draft(payload)
    if intent.set_by is not None:
        draft = msgspec.structs.replace(draft, actor=intent.set_by)
    return Decision([draft], created=standing is None)


def consolidate(intent: ask.Consolidate, context: Context) -> Decision | Refused:
    """The deltas are applied and the run is part of the log, unless another was faster."""
    context.flush()
    run = intent.run
    if not run.replay and watermark(context.db, run.rule_id) != intent.expected:
        return Refused("consolidation_raced", "another run of this rule was faster")
    made = apply_deltas(intent.apply, context)
    if isinstance(made, Refused):
        return made
    results = made.detail["results"]
    statuses = Counter(result["status"] for result in results)
    noted = msgspec.structs.replace(
        run,
        applied=statuses["applied"],
        known=run.known + statuses["known"],
        rejected=statuses["rejected"],
    )
    drafts = [*made.drafts, context.draft(noted)]
    return Decision(drafts, retracted=made.retracted, detail={"results": results, "run": noted})
