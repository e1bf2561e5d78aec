"""Taking facts of nodes that speak only the protocol's federation."""

from __future__ import annotations

from eventlog.event import Draft, scope_partition
from eventlog.kinds import FactAsserted, FactRetracted, ForeignPageReceived, RefusedFact
from projections import intents as ask
from projections.database import query, query_one
from projections.deciding.context import Context, Decision
from projections.deciding.retracting import retraction_targets
from projections.foreign import foreign_event_id, id_of, is_known
from projections.moment import LIVE
from projections.policies import is_set_valued

SOURCE_NOT_OWNED = "source_not_owned"
_TARGETS = f"""
SELECT id, source, value_type, value_v FROM facts
WHERE entity=? AND relation=? AND scope=? AND garden_id IS NULL AND origin=? AND hlc<?
  AND to_position={LIVE} AND base_confidence>0
ORDER BY from_position
"""
ERASED = "erased"
"""It was here and was erased: it is not taken again."""
_ERASED = "SELECT 1 FROM erased_facts WHERE fact_id=?"
_LOCAL_SOURCE = "SELECT 1 FROM key_sources WHERE source=?"


def receive_foreign(intent: ask.ReceiveForeign, context: Context) -> Decision:
    """Wrap what is new, and note the page with everything that was refused.

    A record of confidence 0 ends facts of the same foreign node alone. A source that holds a
    key of this node is its own: nobody else may state facts in its name.
    """
    context.flush()
    drafts: list[Draft] = []
    refused = list(intent.refused)
    states: dict[str, str] = {item.fact_id: item.code for item in intent.refused}
    taken: dict[str, FactAsserted] = {}
    for fact in intent.facts:
        assert fact.foreign is not None
        name = fact.foreign.fact_id
        if name in taken or is_known(context.db, intent.node_id, name):
            states.setdefault(name, "known")
            continue
        if query_one(context.db, _LOCAL_SOURCE, (fact.source,)) is not None:
            refused.append(RefusedFact(name, SOURCE_NOT_OWNED))
            states[name] = SOURCE_NOT_OWNED
            continue
        if query_one(context.db, _ERASED, (id_of(foreign_event_id(fact)),)) is not None:
            refused.append(RefusedFact(name, ERASED))
            states[name] = ERASED
            continue
        taken[name] = fact
        states[name] = "accepted"
        partition = scope_partition(fact.scope)
        draft = context.draft(fact, partition)
        drafts.append(draft)
        targets = _targets(fact, list(taken.values()), context)
        if targets:
            marker = id_of(foreign_event_id(fact))
            retraction = FactRetracted(fact_ids=targets, marker_id=marker)
            drafts.append(context.draft(retraction, partition, draft.event_id))
    page = ForeignPageReceived(
        node_id=intent.node_id,
        cursor=intent.cursor,
        received=intent.received,
        accepted=len(taken),
        refused=refused,
    )
    context.undecided.touched |= {
        (fact.entity, fact.relation, fact.scope, None) for fact in taken.values()
    }
    return Decision([*drafts, context.draft(page)], detail={"states": states})


def _targets(fact: FactAsserted, page: list[FactAsserted], context: Context) -> list[str]:
    """Ids of the node's live facts that a record of confidence 0 ends: those in the tables,
    and those of this page."""
    if fact.confidence > 0.0 or fact.foreign is None:
        return []
    key = (fact.entity, fact.relation, fact.scope)
    rows = query(context.db, _TARGETS, (*key, fact.foreign.node_id, fact.foreign.hlc))
    rows += [
        (id_of(foreign_event_id(each)), each.source, each.value.type, each.value.v)
        for each in page
        if (each.entity, each.relation, each.scope) == key
        and each.confidence > 0.0
        and each.foreign is not None
        and each.foreign.hlc < fact.foreign.hlc
    ]
    several = is_set_valued(context.db, fact.relation)
    return list(retraction_targets(fact.value, fact.source, several, rows))
