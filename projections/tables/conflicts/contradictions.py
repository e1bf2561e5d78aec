"""Contradictions: the claimed values of each key, and their conflicts.

A key is (entity, relation, scope, garden). ``claims`` holds one row per distinct live value of a
key that ever had two facts: a write costs the same however many facts the key has, and a key with
one fact costs nothing. A claim's ``expires_at`` is an upper bound: retractions do not change it.
``conflicts`` holds one open row per live value that is not the key's newest: the newest against
each other value, never all pairs. A value gets its row when it stops being the newest, or when its
conflict was settled and a third value is live. Set-valued relations have claims but no conflicts.
Every read of ``facts`` is as of the event's position, so the rows do not depend on how events were
batched. Source: wire 5.1.
"""

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, contextmanager

import apsw

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import (
    ConflictResolved,
    DecaySwept,
    FactAsserted,
    FactRetracted,
    SetValuedDeclared,
)
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.conflicts import statements
from engramlog.projections.tables.conflicts.claiming import claim_facts
from engramlog.projections.tables.conflicts.identities import key_hash
from engramlog.projections.tables.conflicts.releasing import declare, release_all, resolve
from engramlog.projections.tables.database import (
    copy_rows,
    json_list,
    query,
    query_column,
    query_one,
)
from engramlog.projections.tables.declared.policies import (
    ALWAYS_SET_VALUED,
    PoliciesProjector,
    set_valued_relations,
)
from engramlog.projections.tables.erasing import Erased
from engramlog.projections.tables.facts.decay import ends_facts
from engramlog.projections.tables.facts.facts import SCHEMA as FACTS_SCHEMA
from engramlog.projections.tables.projector import Projector

_ENDED_AT = "SELECT id FROM fact_rows WHERE to_position=? ORDER BY from_position"
_OF_KEYS = """
from_position IN (
    SELECT f.from_position FROM json_each(?) k CROSS JOIN fact_rows f
    ON f.entity=k.value->>0 AND f.relation=k.value->>1 AND f.scope=k.value->>2
        AND f.garden_id IS k.value->>3)
"""
_KEYS = "SELECT DISTINCT entity, relation, scope, garden_id FROM fact_rows"
_HASHED = "key_hash IN (SELECT unhex(value) FROM json_each(?))"
_SHAPING = """
SELECT from_position FROM fact_rows UNION SELECT to_position FROM fact_rows
UNION SELECT set_aside FROM fact_rows UNION SELECT from_position FROM declarations
"""
_SETTLING = f"""
SELECT resolved_position FROM conflicts WHERE resolved_position IS NOT NULL AND {_HASHED}
"""


def has_rival(db: apsw.Connection, key: bytes, value: bytes, instant_us: int) -> bool:
    """Whether another value of the key is live and unexpired at ``instant_us``."""
    return query_one(db, statements.RIVAL, (key, instant_us, value)) is not None


class ContradictionsProjector(Projector):
    """Rows of ``claims`` and ``conflicts``."""

    name = "contradictions"
    version = 5
    schema = f"""
    CREATE TABLE claims (
        key_hash BLOB NOT NULL,
        value_hash BLOB NOT NULL,
        live_count INTEGER NOT NULL,
        newest_hlc INTEGER NOT NULL,
        newest_id TEXT NOT NULL,
        expires_at INTEGER NOT NULL,
        PRIMARY KEY (key_hash, value_hash)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX claims_by_age ON claims (key_hash, newest_hlc);
    CREATE INDEX claims_by_expiry ON claims (key_hash, expires_at);
    CREATE TABLE conflicts (
        conflict_id TEXT PRIMARY KEY,
        key_hash BLOB NOT NULL,
        value_hash BLOB NOT NULL,
        entity TEXT NOT NULL,
        relation TEXT NOT NULL,
        scope TEXT NOT NULL,
        garden_id TEXT,
        fact_id TEXT NOT NULL,
        opened_by TEXT NOT NULL,
        detected_at INTEGER NOT NULL,
        from_position INTEGER NOT NULL,
        to_position INTEGER NOT NULL DEFAULT {LIVE},
        resolved_position INTEGER,
        winner_id TEXT,
        resolution_fact_id TEXT,
        note TEXT,
        resolved_by TEXT
    ) STRICT;
    CREATE INDEX conflicts_open ON conflicts (key_hash, value_hash)
        WHERE to_position = {LIVE};
    """
    late_indexes = """
    CREATE INDEX conflicts_by_position ON conflicts (from_position);
    CREATE INDEX conflicts_by_key ON conflicts (key_hash, from_position);
    """
    kinds = frozenset(
        {
            "fact_asserted",
            "fact_retracted",
            "conflict_resolved",
            "decay_swept",
            "set_valued_declared",
        }
    )
    reads = frozenset({"facts", "policies"})

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        patterns = (
            *ALWAYS_SET_VALUED,
            *set_valued_relations(db, events[0].position - 1),
        )
        run: list[Recorded] = []
        for event in events:
            payload = event.payload
            if isinstance(payload, FactAsserted):
                run.append(event)
                continue
            claim_facts(run, patterns, db)
            run = []
            if isinstance(payload, FactRetracted):
                release_all(payload.fact_ids, event, patterns, db)
            elif isinstance(payload, DecaySwept) and ends_facts(payload):
                ended = query_column(db, _ENDED_AT, (event.position,))
                release_all(ended, event, patterns, db)
            elif isinstance(payload, ConflictResolved):
                resolve(event, payload, patterns, db)
            elif isinstance(payload, SetValuedDeclared):
                before, patterns = patterns, (*ALWAYS_SET_VALUED, *payload.relations)
                declare(event, before, patterns, db)
        claim_facts(run, patterns, db)

    def refold(self, erased: Erased, db: apsw.Connection) -> None:
        """Fold the touched keys again without the erased facts."""
        keys = {fact.key for fact in erased.touched}
        with facts_alone(db, _OF_KEYS, json_list(keys)) as (scratch, positions):
            self.apply_all(erased.before(positions), scratch)
            for table in self.tables:
                db.execute(f"DELETE FROM {table} WHERE {_HASHED}", (_hashes(keys),))
                copy_rows(scratch, db, table, "true", ())

    def apply_all(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        """Same as ``apply``; accepts an empty list and events of other kinds."""
        mine = [event for event in events if event.header.kind in self.kinds]
        if mine:
            self.apply(mine, db)


@contextmanager
def facts_alone(
    db: apsw.Connection, where: str, chosen: str
) -> Generator[tuple[apsw.Connection, set[int]]]:
    """A scratch database with the chosen facts and the declarations, in which to fold the keys of
    these facts again as if there were no others; and the positions of the events that shaped these
    keys. Only a key's facts, declarations and events matter."""
    with closing(apsw.Connection(":memory:")) as scratch:
        scratch.execute(FACTS_SCHEMA + PoliciesProjector.schema + ContradictionsProjector.schema)
        copy_rows(db, scratch, "fact_rows", where, (chosen,))
        copy_rows(db, scratch, "declarations", "sort='set_valued'", ())
        hashes = _hashes(query(scratch, _KEYS))
        settling = query_column(db, _SETTLING, (hashes,))
        yield scratch, {*query_column(scratch, _SHAPING), *settling}


def _hashes(keys: Iterable[tuple[str, str, str, str | None]]) -> str:
    return json_list(key_hash(*key).hex() for key in keys)
