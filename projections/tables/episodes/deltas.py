"""``deltas`` and their results: the facts they wrote and the episodes they came from.

``memory_facts`` holds the owner of a fact and its name in deltas. Only the ``facts`` table says
whether it is live; ``replaced`` knows deltas alone and keeps look-ups short. A delta affects only
facts of its own origin: its claims about others change no count and replace nothing. A delta's id
is known only on the node that applied it. ``delta_sources`` leads from an episode to its facts and
back.
"""

from collections.abc import Sequence
from typing import TypeAlias

import apsw
import msgspec

from engramlog.eventlog.event import Recorded, fact_partition
from engramlog.eventlog.kinds import AppliedDelta, DeltaApplied, DeltaRejected
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.erasing import FACTS, POSITIONS
from engramlog.projections.tables.projector import Projector
from engramlog.projections.tables.struct_rows import insert_row

_DELTA = """
INSERT INTO deltas (position, number, delta_id, kind, partition, scope, garden_id, user, agent,
    rule_id, run_id, promotion_us, confidence, sources, replaces, name, subject, fact_id,
    retracted, payload, provenance, lineage, recorded_at, actor, peer, hlc, origin, stream,
    stream_seq)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
"""
_FACT = """
INSERT OR IGNORE INTO memory_facts (fact_id, partition, user, agent, name, subject, predicate,
    delta_id, origin, from_position)
VALUES (?,?,?,?,?,?,?,?,?,?)
"""
_REPLACED = f"""
UPDATE memory_facts SET replaced=? WHERE fact_id=? AND origin=? AND replaced={LIVE}
"""
_SOURCE = """
INSERT OR IGNORE INTO delta_sources (partition, episode_id, position, number) VALUES (?,?,?,?)
"""
_encode = msgspec.json.Encoder().encode
_Row: TypeAlias = "tuple[apsw.SQLiteValue, ...]"


class DeltasProjector(Projector):
    """Rows of ``deltas``, ``delta_sources``, ``memory_facts`` and ``delta_rejections``."""

    name = "deltas"
    version = 3
    tables = ("deltas", "delta_sources", "memory_facts", "delta_rejections")
    schema = f"""
    CREATE TABLE deltas (
        position INTEGER NOT NULL,
        number INTEGER NOT NULL,
        delta_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        partition TEXT NOT NULL,
        scope TEXT NOT NULL,
        garden_id TEXT,
        user TEXT NOT NULL,
        agent TEXT NOT NULL,
        rule_id TEXT NOT NULL,
        run_id TEXT,
        promotion_us INTEGER NOT NULL,
        confidence REAL NOT NULL,
        sources TEXT NOT NULL,
        replaces TEXT NOT NULL,
        name TEXT,
        subject TEXT,
        fact_id TEXT,
        retracted TEXT NOT NULL,
        payload TEXT NOT NULL,
        provenance TEXT NOT NULL,
        lineage TEXT NOT NULL,
        recorded_at INTEGER NOT NULL,
        actor TEXT NOT NULL,
        peer TEXT,
        hlc INTEGER NOT NULL,
        origin TEXT NOT NULL,
        stream TEXT NOT NULL,
        stream_seq INTEGER NOT NULL,
        PRIMARY KEY (position, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX deltas_by_id ON deltas (delta_id);
    CREATE INDEX deltas_by_user ON deltas (user, position, number);
    CREATE INDEX deltas_by_fact ON deltas (fact_id) WHERE fact_id IS NOT NULL;
    CREATE TABLE delta_sources (
        partition TEXT NOT NULL,
        episode_id TEXT NOT NULL,
        position INTEGER NOT NULL,
        number INTEGER NOT NULL,
        PRIMARY KEY (partition, episode_id, position, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE memory_facts (
        fact_id TEXT NOT NULL,
        partition TEXT NOT NULL,
        user TEXT NOT NULL,
        agent TEXT NOT NULL,
        name TEXT NOT NULL,
        subject TEXT,
        predicate TEXT,
        delta_id TEXT NOT NULL,
        origin TEXT NOT NULL,
        from_position INTEGER NOT NULL,
        replaced INTEGER NOT NULL DEFAULT {LIVE},
        PRIMARY KEY (fact_id, origin)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX memory_facts_by_name ON memory_facts (partition, name);
    CREATE INDEX memory_facts_by_key ON memory_facts (partition, user, agent, subject, predicate)
        WHERE replaced = {LIVE};
    CREATE INDEX memory_facts_by_user ON memory_facts (user, agent, from_position);
    CREATE TABLE delta_rejections (
        position INTEGER PRIMARY KEY,
        delta_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        partition TEXT NOT NULL,
        scope TEXT NOT NULL,
        garden_id TEXT,
        user TEXT NOT NULL,
        agent TEXT NOT NULL,
        rule_id TEXT NOT NULL,
        run_id TEXT,
        sources TEXT NOT NULL,
        replaces TEXT NOT NULL,
        reason TEXT NOT NULL,
        message TEXT NOT NULL,
        recorded_at INTEGER NOT NULL,
        actor TEXT NOT NULL
    ) STRICT;
    """
    kinds = frozenset({"delta_applied", "delta_rejected"})
    erasing = (
        f"DELETE FROM deltas WHERE position IN {POSITIONS}",
        f"DELETE FROM delta_sources WHERE position IN {POSITIONS}",
        f"DELETE FROM memory_facts WHERE from_position IN {POSITIONS} OR fact_id IN {FACTS}",
        # A fact that an erased event replaced is live again, or replaced by the next event that
        # names it.
        f"""
        UPDATE memory_facts SET replaced=coalesce(
            (SELECT min(d.position) FROM deltas d, json_each(d.retracted) ended
             WHERE ended.value=memory_facts.fact_id AND d.origin=memory_facts.origin
               AND d.position>=memory_facts.from_position), {LIVE})
        WHERE replaced IN {POSITIONS}
        """,
        f"DELETE FROM delta_rejections WHERE position IN {POSITIONS}",
    )

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        for event in events:
            payload = event.payload
            if isinstance(payload, DeltaApplied):
                _apply(event, payload, db)
            else:
                assert isinstance(payload, DeltaRejected)
                partition = fact_partition(payload.scope, payload.garden_id)
                kind, sources = payload.delta, payload.source_episode_ids
                insert_row(
                    db, "delta_rejections", event, partition=partition, kind=kind, sources=sources
                )


def _apply(event: Recorded, applied: DeltaApplied, db: apsw.Connection) -> None:
    partition = fact_partition(applied.scope, applied.garden_id)
    rows: list[_Row] = []
    facts: list[_Row] = []
    sources: list[_Row] = []
    ended: list[_Row] = []
    for number, delta in enumerate(applied.deltas):
        rows.append(_delta(event, applied, partition, number, delta))
        sources.extend(
            (partition, episode, event.position, number) for episode in delta.source_episode_ids
        )
        ended.extend((event.position, fact, event.header.origin) for fact in delta.retracted)
        if delta.fact_id is not None:
            name = delta.name or delta.fact_id
            facts.append(
                (
                    delta.fact_id,
                    partition,
                    delta.user,
                    delta.agent,
                    name,
                    delta.subject,
                    delta.predicate,
                    delta.delta_id,
                    event.header.origin,
                    event.position,
                )
            )
    db.executemany(_DELTA, rows)
    db.executemany(_SOURCE, sources)
    if facts:
        db.executemany(_FACT, facts)
    if ended:  # after the new ones, which it may include
        db.executemany(_REPLACED, ended)


def _delta(
    event: Recorded, applied: DeltaApplied, partition: str, number: int, delta: AppliedDelta
) -> _Row:
    header = event.header
    return (
        event.position,
        number,
        delta.delta_id,
        delta.delta,
        partition,
        applied.scope,
        applied.garden_id,
        delta.user,
        delta.agent,
        delta.rule_id,
        applied.run_id,
        delta.promotion_us,
        delta.confidence,
        _json(delta.source_episode_ids),
        _json(delta.replaces) if delta.replaces else "[]",
        delta.name,
        delta.subject,
        delta.fact_id,
        _json(delta.retracted) if delta.retracted else "[]",
        _json(delta.payload) if delta.payload else "{}",
        _json(delta.provenance) if delta.provenance else "{}",
        _json(delta.lineage) if delta.lineage else "[]",
        header.recorded_at,
        header.actor,
        event.peer,
        header.hlc,
        header.origin,
        header.stream,
        header.stream_seq,
    )


def _json(value: object) -> str:
    return _encode(value).decode()
