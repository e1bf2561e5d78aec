"""Taking facts of nodes that speak only the protocol's federation."""

from engramlog.eventlog.event import Draft, scope_partition
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import FactAsserted, ForeignPageReceived, RefusedFact
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import query, query_one
from engramlog.projections.tables.declared.policies import is_set_valued
from engramlog.projections.tables.peers.protocol_facts import foreign_event_id, is_known
from engramlog.projections.writing import peer_commands as ask
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decide.facts.retracting import zero_effects, zero_targets

SOURCE_NOT_OWNED = "source_not_owned"
_TARGETS = f"""
SELECT id, source, value_type, value_v, origin FROM fact_rows
WHERE entity=? AND relation=? AND scope=? AND garden_id IS NULL AND hlc<?
  AND to_position={LIVE} AND set_aside={LIVE} AND base_confidence>0
ORDER BY from_position
"""
ERASED = "erased"
"""The refusal of a fact that was erased here: it is not taken again."""
_ERASED = "SELECT 1 FROM erased_facts WHERE fact_id=?"
_LOCAL_SOURCE = "SELECT 1 FROM key_sources WHERE source=?"


def receive_foreign(command: ask.ReceiveForeign, context: Context) -> Decision:
    """Wrap new facts, and record the page with every refusal. A record of confidence 0 ends facts
    of its source that the same foreign node stated, and denies those of others. Only this node may
    state facts of a source with a key of this node."""
    drafts: list[Draft] = []
    refused = list(command.refused)
    states: dict[str, str] = {item.fact_id: item.code for item in command.refused}
    taken: dict[str, FactAsserted] = {}
    for fact in command.facts:
        assert fact.foreign is not None
        name = fact.foreign.fact_id
        if name in taken or is_known(context.db, fact, list(taken.values())):
            states.setdefault(name, "known")
            continue
        if query_one(context.db, _LOCAL_SOURCE, (fact.source,)) is not None:
            refused.append(RefusedFact(name, SOURCE_NOT_OWNED))
            states[name] = SOURCE_NOT_OWNED
            continue
        if query_one(context.db, _ERASED, (id_text(foreign_event_id(fact)),)) is not None:
            refused.append(RefusedFact(name, ERASED))
            states[name] = ERASED
            continue
        taken[name] = fact
        states[name] = "accepted"
        partition = scope_partition(fact.scope)
        draft = context.draft(fact, partition)
        drafts.append(draft)
        ended, denied = _targets(fact, list(taken.values()), context)
        marker = id_text(foreign_event_id(fact))
        drafts += zero_effects(marker, ended, denied, partition, draft.event_id, context)
    page = ForeignPageReceived(
        node_id=command.node_id,
        cursor=command.cursor,
        scope=command.scope,
        received=command.received,
        accepted=len(taken),
        refused=refused,
    )
    context.undecided.touched |= {
        (fact.entity, fact.relation, fact.scope, None) for fact in taken.values()
    }
    return Decision([*drafts, context.draft(page)], detail={"states": states})


def _targets(
    fact: FactAsserted, page: list[FactAsserted], context: Context
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Older live facts that a record of confidence 0 ends, and those that it denies, in the tables
    and in this page."""
    if fact.confidence > 0.0 or fact.foreign is None:
        return (), ()
    key, node_id = (fact.entity, fact.relation, fact.scope), fact.foreign.node_id
    rows = query(context.db, _TARGETS, (*key, fact.foreign.hlc))
    rows += [
        (id_text(foreign_event_id(each)), each.source, each.value.type, each.value.v, node_id)
        for each in page
        if (each.entity, each.relation, each.scope) == key
        and each.confidence > 0.0
        and each.foreign is not None
        and each.foreign.hlc < fact.foreign.hlc
    ]
    several = is_set_valued(context.db, fact.relation)
    own = frozenset(row[0] for row in rows if (row[1], row[4]) == (fact.source, node_id))
    return zero_targets(fact.value, own, several, rows)
