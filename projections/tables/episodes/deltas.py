"""``deltas`` and their results: the facts they wrote and the episodes they came from.

``memory_facts`` holds the owner of a fact and its name in deltas. Only the ``facts`` table says
whether it is live; ``replaced`` knows deltas alone and keeps look-ups short. A delta affects only
facts of its own origin: its claims about others change no count and replace nothing. A delta's id
is known only on the node that applied it. ``delta_sources`` leads from an episode to its facts and
back.
"""

import apsw

from engramlog.eventlog.event import Recorded, fact_partition
from engramlog.eventlog.kinds import DeltaApplied, DeltaRejected
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.erasing import FACTS, POSITIONS
from engramlog.projections.tables.projector import Projector
from engramlog.projections.tables.struct_rows import insert_row

_REPLACED = f"""
UPDATE memory_facts SET replaced=? WHERE fact_id=? AND origin=? AND replaced={LIVE}
"""
_SOURCE = """
INSERT OR IGNORE INTO delta_sources (partition, episode_id, position, number) VALUES (?,?,?,?)
"""


class DeltasProjector(Projector):
    """Rows of ``deltas``, ``delta_sources``, ``memory_facts`` and ``delta_rejections``."""

    name = "deltas"
    version = 3
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

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
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
    place = fact_partition(applied.scope, applied.garden_id)
    ended: list[tuple[int, str, str]] = []
    for n, delta in enumerate(applied.deltas):
        kind, sources = delta.delta, delta.source_episode_ids
        insert_row(
            db, "deltas", event, part=delta, partition=place, number=n, kind=kind, sources=sources
        )
        db.executemany(_SOURCE, [(place, source, event.position, n) for source in sources])
        ended.extend((event.position, fact, event.header.origin) for fact in delta.retracted)
        if delta.fact_id is not None:
            name = delta.name or delta.fact_id
            insert_row(
                db, "memory_facts", event, part=delta, partition=place, name=name, or_ignore=True
            )
    if ended:  # after the new ones, which it may include
        db.executemany(_REPLACED, ended)
