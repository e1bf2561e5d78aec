"""Consolidation rules set and removed, and runs recorded.

One command applies the deltas and records the run: both or neither. So a watermark is never ahead
of or behind the deltas.
"""

from collections import Counter

import msgspec

from engramlog.eventlog.kinds import ConsolidationRuleSet
from engramlog.projections.episodes.reading_rules import watermark
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import json_list, query_one, query_value
from engramlog.projections.writing import memory_commands as ask
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decide.memory.deltas import apply_deltas

_STANDS = f"SELECT document FROM consolidation_rules WHERE rule_id=? AND to_position={LIVE}"
_THERE = "SELECT count(*) FROM episodes WHERE key IN (SELECT value FROM json_each(?))"
RULE_NOT_FOUND = Refused("rule_not_found", "consolidation rule not found")


def set_consolidation_rule(command: ConsolidationRuleSet, context: Context) -> Decision | Refused:
    standing = query_one(context.db, _STANDS, (command.rule_id,))
    if command.document is None and standing is None:
        return RULE_NOT_FOUND
    if command.document is not None:
        document = msgspec.json.encode(command.document, order="sorted").decode()
        if standing is not None and standing[0] == document:
            return Decision([], created=False)
    return Decision([context.draft(command)], created=standing is None)


def consolidate(command: ask.Consolidate, context: Context) -> Decision | Refused:
    """Apply the deltas and record the run, unless another run was faster, or an erasure: the deltas
    repeat the words of their episodes."""
    run = command.run
    if not run.replay and watermark(context.db, run.rule_id) != command.expected:
        return Refused("consolidation_raced", "another run of this rule was faster")
    there = query_value(context.db, _THERE, (json_list(command.episodes),))
    if there != len(command.episodes):
        return Refused("consolidation_raced", "an erasure took episodes of this run")
    made = apply_deltas(command.apply, context)
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
