"""Contradictions: which values of a key are claimed, and the conflicts.

A key is (entity, relation, scope, garden). ``claims`` holds one row per distinct live value
of a key that ever had two facts, so a write costs the same however many facts the key has,
and a key with one fact costs nothing.
A claim's ``expires_at`` is an upper bound: retractions leave it. ``conflicts`` holds one
open row per live value that is not the key's newest: the newest against each other value,
never all pairs. A value that stops being the newest, or whose conflict was settled while a
third value stands, gets a row of its own. Set-valued relations have claims but no conflicts.
Everything is asked of ``facts`` *at the event's position*, so the rows do not depend on how
events were batched.
Source: wire 5.1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import apsw
import msgspec
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import (
    ConflictResolved,
    DecaySwept,
    FactAsserted,
    FactRetracted,
    SetValuedDeclared,
)
from engramlog.projections.moment import LIVE
from engramlog.projections.normalization import matches_label
from engramlog.projections.tables.database import copy_rows, query, query_one
from engramlog.projections.tables.declared.policies import (
    ALWAYS_SET_VALUED,
    PoliciesProjector,
    set_valued_relations,
)
from engramlog.projections.tables.erasing import Erased
from engramlog.projections.tables.facts.decay import ends_facts
from engramlog.projections.tables.facts.facts import SCHEMA as FACTS_SCHEMA
from engramlog.projections.tables.facts.facts import fact_id, validity_us

HASH_BYTES = 16

_encode = msgspec.json.Encoder().encode

_TOP = """
SELECT value_hash, newest_hlc, newest_id FROM claims
WHERE key_hash=? ORDER BY newest_hlc DESC LIMIT 1
"""
_TOPS = """
SELECT claims.key_hash, value_hash, newest_hlc, newest_id
FROM json_each(?) AS asked CROSS JOIN claims INDEXED BY claims_by_age
WHERE claims.key_hash = unhex(asked.value)
  AND newest_hlc = (SELECT max(newest_hlc) FROM claims WHERE key_hash = unhex(asked.value))
"""
_EARLIER = """
SELECT number, first, (
    SELECT from_position FROM facts
    WHERE entity = asked ->> 0 AND relation = asked ->> 1 AND scope = asked ->> 2
      AND garden_id IS asked ->> 3 AND from_position < asked ->> 4
      AND base_confidence > 0 AND from_position <> first
    LIMIT 1)
FROM (
    SELECT key AS number, value AS asked, (
        SELECT from_position FROM facts
        WHERE entity = value ->> 0 AND relation = value ->> 1 AND scope = value ->> 2
          AND garden_id IS value ->> 3 AND from_position < value ->> 4
          AND base_confidence > 0
        LIMIT 1) AS first
    FROM json_each(?))
WHERE first IS NOT NULL
"""
_ONLY = """
SELECT value_type, value_v, hlc, id, valid_until_us FROM facts
WHERE from_position = ? AND to_position > ? AND set_aside > ?
"""
_CLAIM = """
INSERT INTO claims (key_hash, value_hash, live_count, newest_hlc, newest_id, expires_at)
VALUES (?,?,1,?,?,?)
ON CONFLICT DO UPDATE SET
    newest_id = iif(excluded.newest_hlc > newest_hlc, excluded.newest_id, newest_id),
    newest_hlc = max(newest_hlc, excluded.newest_hlc),
    expires_at = max(expires_at, excluded.expires_at),
    live_count = live_count + 1
"""
_FACT = """
SELECT entity, relation, scope, garden_id, value_type, value_v, base_confidence, to_position,
    set_aside FROM facts WHERE id=?
"""
_CLAIMED = "SELECT live_count, newest_id FROM claims WHERE key_hash=? AND value_hash=?"
_DROP_CLAIM = "DELETE FROM claims WHERE key_hash=? AND value_hash=?"
_FEWER = "UPDATE claims SET live_count=live_count-1 WHERE key_hash=? AND value_hash=?"
_NEXT_NEWEST = """
SELECT id, hlc FROM facts
WHERE entity=?1 AND relation=?2 AND scope=?3 AND value_type=?4 AND value_v=?5
  AND garden_id IS ?6 AND base_confidence>0
  AND from_position<=?7 AND to_position>?7 AND set_aside>?7
ORDER BY hlc DESC LIMIT 1
"""
_RENEW = "UPDATE claims SET newest_id=?, newest_hlc=? WHERE key_hash=? AND value_hash=?"
_OPEN = f"""
INSERT OR IGNORE INTO conflicts (conflict_id, key_hash, value_hash, entity, relation, scope,
    garden_id, fact_id, opened_by, detected_at, from_position)
SELECT ?,?,?,?,?,?,?,?,?,?,?
WHERE NOT EXISTS (
    SELECT 1 FROM conflicts WHERE key_hash=? AND value_hash=? AND to_position={LIVE})
"""
_CLOSE = f"""
UPDATE conflicts SET to_position=? WHERE key_hash=? AND value_hash=? AND to_position={LIVE}
"""
_CLOSE_KEY = f"UPDATE conflicts SET to_position=? WHERE key_hash=? AND to_position={LIVE}"
_RESOLVE = f"""
UPDATE conflicts SET to_position=min(to_position, ?1), resolved_position=?1, winner_id=?2,
    resolution_fact_id=?3, note=?4, resolved_by=?5
WHERE conflict_id=?6 AND resolved_position IS NULL AND to_position>={LIVE}
"""
_ALL_CLAIMS = """
SELECT facts.relation, key_hash, value_hash, newest_hlc, newest_id
FROM claims CROSS JOIN facts ON facts.id = newest_id ORDER BY key_hash, newest_hlc
"""
_ENDED_AT = "SELECT id FROM facts WHERE to_position=? ORDER BY from_position"
_RIVAL = """
SELECT 1 FROM claims
WHERE key_hash=? AND expires_at>? AND value_hash<>? LIMIT 1
"""


def key_hash(entity: str, relation: str, scope: str, garden_id: str | None) -> bytes:
    """Identity of a key, 16 bytes."""
    text = "\x00".join((entity, relation, scope, garden_id or ""))
    return hashlib.sha256(text.encode()).digest()[:HASH_BYTES]


def value_hash(value_type: str, value_v: str) -> bytes:
    """Identity of a value, 16 bytes."""
    return hashlib.sha256(f"{value_type}\x00{value_v}".encode()).digest()[:HASH_BYTES]


def has_rival(db: apsw.Connection, key: bytes, value: bytes, instant_us: int) -> bool:
    """Whether another value of the key is live and unexpired at ``instant_us``."""
    return query_one(db, _RIVAL, (key, instant_us, value)) is not None


def conflict_id(opened_by: str, rival_id: str, cause: bytes = b"") -> str:
    """A conflict's id, a function of the two facts that brought it up, and of the event that
    brought up the same two again."""
    digest = hashlib.sha256(f"{opened_by}\x00{rival_id}".encode() + cause).digest()
    return f"stigmem:conflict:{id_text(digest[:16])}"


_OF_KEY = "entity=? AND relation=? AND scope=? AND garden_id IS ?"
_DECLARED = "SELECT from_position FROM declarations WHERE sort='set_valued'"
_TOUCHING = """
WITH of_key AS (SELECT from_position, to_position, set_aside FROM facts
    WHERE entity=?1 AND relation=?2 AND scope=?3 AND garden_id IS ?4)
SELECT from_position FROM of_key UNION SELECT to_position FROM of_key
UNION SELECT set_aside FROM of_key
UNION SELECT resolved_position FROM conflicts WHERE key_hash=?5 AND resolved_position IS NOT NULL
"""
"""Positions of the events that made a key what it is."""


class ContradictionsProjector:
    """Rows of ``claims`` and ``conflicts``."""

    name = "contradictions"
    version = 5
    tables = ("claims", "conflicts")
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
            _claim_run(run, patterns, db)
            run = []
            if isinstance(payload, FactRetracted):
                _release_all(payload.fact_ids, event, patterns, db)
            elif isinstance(payload, DecaySwept) and ends_facts(payload):
                ended = [fact for (fact,) in query(db, _ENDED_AT, (event.position,))]
                _release_all(ended, event, patterns, db)
            elif isinstance(payload, ConflictResolved):
                _resolve(event, payload, patterns, db)
            elif isinstance(payload, SetValuedDeclared):
                before, patterns = patterns, (*ALWAYS_SET_VALUED, *payload.relations)
                _declare(event, before, patterns, db)
        _claim_run(run, patterns, db)

    def refold(self, erased: Erased, db: apsw.Connection) -> None:
        """Fold the touched keys again, in a database of their own: everything here is asked of
        the key's facts, declarations and events, so nothing else is needed."""
        keys = sorted({fact.key for fact in erased.touched}, key=repr)
        positions = {row[0] for row in query(db, _DECLARED)}
        scratch = apsw.Connection(":memory:")
        try:
            scratch.execute(FACTS_SCHEMA + PoliciesProjector.schema + self.schema)
            copy_rows(db, scratch, "declarations", "sort='set_valued'", ())
            for key in keys:
                hashed = (key_hash(*key),)
                positions |= {row[0] for row in query(db, _TOUCHING, (*key, *hashed))}
                copy_rows(db, scratch, "facts", _OF_KEY, key)
                for table in self.tables:
                    db.execute(f"DELETE FROM {table} WHERE key_hash=?", hashed)
            self.apply_all(erased.before(positions), scratch)
            for table in self.tables:
                copy_rows(scratch, db, table, "true", ())
        finally:
            scratch.close()

    def apply_all(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        """``apply``, of events that may be none or of other kinds."""
        mine = [event for event in events if event.header.kind in self.kinds]
        if mine:
            self.apply(mine, db)


class _Claim(Struct, frozen=True, gc=False):
    """One asserted fact as a claim on its key."""

    event: Recorded
    fact: FactAsserted
    id: str
    key: bytes
    value: bytes


_Key = tuple[str, str, str, str | None]
"""Entity, relation, scope, garden."""
_Top = tuple[bytes, int, str]
"""A key's newest claim: value hash, HLC, fact id."""


def _claim_run(events: Sequence[Recorded], patterns: Sequence[str], db: apsw.Connection) -> None:
    """Add claims for a run of assertions; open and close conflicts as the newest changes."""
    by_key: dict[_Key, list[Recorded]] = {}
    for event in events:
        fact = event.payload
        assert isinstance(fact, FactAsserted)
        if fact.confidence != 0.0:
            key = (fact.entity, fact.relation, fact.scope, fact.garden_id)
            by_key.setdefault(key, []).append(event)
    if not by_key:
        return
    claims = [
        _claim(hashed, event)
        for key, hashed in _crowded_keys(by_key, db).items()
        for event in by_key[key]
    ]
    claims.sort(key=lambda claim: claim.event.position)
    several: dict[str, bool] = {}
    for claim in claims:
        relation = claim.fact.relation
        if relation not in several:
            several[relation] = any(matches_label(label, relation) for label in patterns)
    exclusive = {claim.key for claim in claims if not several[claim.fact.relation]}
    tops = _tops(exclusive, db) if exclusive else {}
    for claim in claims:
        if claim.key in exclusive:
            _contest(claim, tops, db)
    db.executemany(
        _CLAIM,
        [(c.key, c.value, c.event.header.hlc, c.id, validity_us(c.fact)[1]) for c in claims],
    )


def _claim(key: bytes, event: Recorded) -> _Claim:
    fact = event.payload
    assert isinstance(fact, FactAsserted)
    return _Claim(event, fact, fact_id(event), key, value_hash(fact.value.type, fact.value.v))


def _crowded_keys(by_key: dict[_Key, list[Recorded]], db: apsw.Connection) -> dict[_Key, bytes]:
    """Keys with a second fact by the end of the run, hashed. A key's only fact needs no claim: it
    is entered here, before the run's own claims, once a second one arrives."""
    crowded = {key: key_hash(*key) for key, claims in by_key.items() if len(claims) > 1}
    keys = list(by_key)
    asked = _encode([(*key, claims[0].position) for key, claims in by_key.items()]).decode()
    for number, only, another in query(db, _EARLIER, (asked,)):
        key = keys[int(number)]
        hashed = crowded[key] = key_hash(*key)
        if another is None:
            position = by_key[key][0].position
            for row in query(db, _ONLY, (only, position, position)):
                value_type, value_v, hlc, fact, end = row
                value = value_hash(value_type, value_v)
                db.execute(_CLAIM, (hashed, value, hlc, fact, end))
    return crowded


def _tops(keys: set[bytes], db: apsw.Connection) -> dict[bytes, _Top]:
    asked = "[" + ",".join(f'"{key.hex()}"' for key in keys) + "]"
    return {row[0]: (row[1], row[2], row[3]) for row in query(db, _TOPS, (asked,))}


def _contest(claim: _Claim, tops: dict[bytes, _Top], db: apsw.Connection) -> None:
    """Note a claim against the newest one of its key, which it may replace."""
    hlc = claim.event.header.hlc
    top = tops.get(claim.key)
    newer = top is None or hlc > top[1]
    if newer:
        tops[claim.key] = (claim.value, hlc, claim.id)
    if top is None or top[0] == claim.value:
        return
    position = claim.event.position
    rival_value, rival_id, opened_by = (
        (top[0], top[2], claim.id) if newer else (claim.value, claim.id, top[2])
    )
    if newer:
        db.execute(_CLOSE, (position, claim.key, claim.value))
    fact = claim.fact
    db.execute(
        _OPEN,
        (
            conflict_id(opened_by, rival_id),
            claim.key,
            rival_value,
            fact.entity,
            fact.relation,
            fact.scope,
            fact.garden_id,
            rival_id,
            opened_by,
            claim.event.received_at,
            position,
            claim.key,
            rival_value,
        ),
    )


def _release_all(
    facts: Iterable[str],
    event: Recorded,
    patterns: Sequence[str],
    db: apsw.Connection,
    *,
    set_aside: bool = False,
) -> None:
    """Take facts that ended (or were set aside) out of their keys' claims."""
    released = [
        _release(fact, event.position, db, set_aside=set_aside) for fact in dict.fromkeys(facts)
    ]
    for claim in dict.fromkeys(released):
        if claim is not None:
            _put_top_right(*claim, event, patterns, db)


def _release(
    fact: str, position: int, db: apsw.Connection, *, set_aside: bool
) -> tuple[bytes, bytes] | None:
    """Take one fact out; returns its key and value, or None where it was no claim."""
    row = query_one(db, _FACT, (fact,))
    if row is None or row[6] == 0 or row[8 if set_aside else 7] != position:
        return None  # unknown, never a claim, or ended before by another event
    if (row[7] if set_aside else row[8] + 1) <= position:
        return None  # its claim went with the other of retraction and resolution
    key, value = key_hash(*row[:4]), value_hash(*row[4:6])
    claimed = query_one(db, _CLAIMED, (key, value))
    if claimed is None:
        return None
    live_count, newest_id = claimed
    if live_count == 1:
        db.execute(_DROP_CLAIM, (key, value))
        db.execute(_CLOSE, (position, key, value))
    else:
        db.execute(_FEWER, (key, value))
        if newest_id == fact:
            entity, relation, scope, garden, value_type, value_v = row[:6]
            bindings = (entity, relation, scope, value_type, value_v, garden, position)
            for next_id, next_hlc in query(db, _NEXT_NEWEST, bindings):
                db.execute(_RENEW, (next_id, next_hlc, key, value))
    return key, value


def _put_top_right(
    key: bytes, value: bytes, event: Recorded, patterns: Sequence[str], db: apsw.Connection
) -> None:
    """The newest value of a key has no open conflict; ``value``, if it is claimed and not
    the newest, has one."""
    top = query_one(db, _TOP, (key,))
    if top is None:
        return
    db.execute(_CLOSE, (event.position, key, top[0]))
    claimed = query_one(db, _CLAIMED, (key, value))
    if top[0] != value and claimed is not None:
        _reopen(key, value, claimed[1], top[2], event, patterns, db)


def _reopen(
    key: bytes,
    value: bytes,
    fact: str,
    top_id: str,
    event: Recorded,
    patterns: Sequence[str],
    db: apsw.Connection,
) -> None:
    """Open a conflict that no assertion brought up; nothing for set-valued relations."""
    row = query_one(db, _FACT, (fact,))
    if row is None or any(matches_label(label, row[1]) for label in patterns):
        return
    name = conflict_id(top_id, fact, event.event_id)
    place = (*row[:4], fact, top_id, event.received_at, event.position)
    db.execute(_OPEN, (name, key, value, *place, key, value))


def _resolve(
    event: Recorded, resolution: ConflictResolved, patterns: Sequence[str], db: apsw.Connection
) -> None:
    db.execute(
        _RESOLVE,
        (
            event.position,
            resolution.winner_id,
            resolution.resolution_fact_id,
            resolution.note,
            event.header.actor,
            resolution.conflict_id,
        ),
    )
    _release_all(resolution.loser_ids, event, patterns, db, set_aside=True)
    row = query_one(db, _FACT, (resolution.winner_id,))
    if row is not None:
        _put_top_right(key_hash(*row[:4]), value_hash(*row[4:6]), event, patterns, db)


def _declare(
    event: Recorded, before: Sequence[str], after: Sequence[str], db: apsw.Connection
) -> None:
    """Close the conflicts of relations that are now set-valued, and open those of relations
    that no longer are."""
    tops: dict[bytes, str] = {}
    for relation, key, value, _, fact in reversed(query(db, _ALL_CLAIMS)):
        was, now = (
            any(matches_label(label, relation) for label in labels) for labels in (before, after)
        )
        if was == now:
            continue
        top_id = tops.setdefault(key, fact)
        if now and top_id == fact:
            db.execute(_CLOSE_KEY, (event.position, key))
        elif not now and top_id != fact:
            _reopen(key, value, fact, top_id, event, after, db)
