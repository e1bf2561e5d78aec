"""``consolidation_rules`` over time, ``consolidation_runs``, and episodes in quarantine.

A rule's watermark is the highest position that its runs reached: a function of the log, so it
survives restarts and no episode is counted twice.
"""

import apsw
import msgspec

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import ConsolidationRan, ConsolidationRuleSet
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.erasing import EVENTS
from engramlog.projections.tables.projector import Projector
from engramlog.projections.tables.struct_rows import end_rows, insert_row


class ConsolidationProjector(Projector):
    """Rows of ``consolidation_rules``, ``consolidation_runs`` and ``quarantined_episodes``."""

    name = "consolidation"
    version = 1
    schema = f"""
    CREATE TABLE consolidation_rules (
        rule_id TEXT NOT NULL,
        document TEXT NOT NULL,
        set_by TEXT NOT NULL,
        set_at INTEGER NOT NULL,
        from_position INTEGER NOT NULL,
        to_position INTEGER NOT NULL DEFAULT {LIVE},
        PRIMARY KEY (rule_id, from_position)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX consolidation_rules_live ON consolidation_rules (rule_id)
        WHERE to_position = {LIVE};
    CREATE TABLE consolidation_runs (
        position INTEGER PRIMARY KEY,
        rule_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        from_position INTEGER NOT NULL,
        to_position INTEGER NOT NULL,
        at_us INTEGER NOT NULL,
        cause TEXT NOT NULL,
        scheduled_us INTEGER,
        replay INTEGER NOT NULL,
        episodes INTEGER NOT NULL,
        applied INTEGER NOT NULL,
        known INTEGER NOT NULL,
        rejected INTEGER NOT NULL,
        gated INTEGER NOT NULL,
        quarantined INTEGER NOT NULL,
        asked_by TEXT
    ) STRICT;
    CREATE INDEX consolidation_runs_by_rule ON consolidation_runs (rule_id, position);
    CREATE TABLE quarantined_episodes (
        rule_id TEXT NOT NULL,
        key TEXT NOT NULL,
        position INTEGER NOT NULL,
        run_id TEXT NOT NULL,
        reason TEXT NOT NULL,
        PRIMARY KEY (rule_id, key, position)
    ) STRICT, WITHOUT ROWID;
    """
    kinds = frozenset({"consolidation_rule_set", "consolidation_ran"})
    erasing = (f"DELETE FROM quarantined_episodes WHERE key IN {EVENTS}",)

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        payload = event.payload
        if isinstance(payload, ConsolidationRuleSet):
            _set_rule(event, payload, db)
        else:
            assert isinstance(payload, ConsolidationRan)
            _note_run(event, payload, db)


def _set_rule(event: Recorded, rule: ConsolidationRuleSet, db: apsw.Connection) -> None:
    end_rows(db, "consolidation_rules", event, rule_id=rule.rule_id)
    if rule.document is not None:
        document = msgspec.json.encode(rule.document, order="sorted").decode()
        by, at = event.header.actor, event.header.recorded_at
        insert_row(db, "consolidation_rules", event, document=document, set_by=by, set_at=at)


def _note_run(event: Recorded, run: ConsolidationRan, db: apsw.Connection) -> None:
    quarantined = len(run.quarantined)
    insert_row(db, "consolidation_runs", event, cause=run.trigger, quarantined=quarantined)
    for each in run.quarantined:
        key = each.episode
        insert_row(db, "quarantined_episodes", event, part=each, key=key, or_ignore=True)
