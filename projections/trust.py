"""Trust over time: what operators set, which sources hold keys, and the formula's policy.

``source_trust`` holds settings, ``key_sources`` the sources that hold a key of this node
(once one was issued, what it was issued for stays vouched for), ``trust_policies`` the
parameters of ``trust_formula``.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import msgspec
from msgspec import Struct

from eventlog.event import Recorded
from eventlog.kinds import FactAsserted, KeyIssued, SourceTrustSet, TrustPolicy, TrustPolicySet
from projections.database import query, query_one
from projections.moment import LIVE
from projections.trust_formula import CLAIMED, RECEIVED, trust_levels, warrant_of

_decode_policy = msgspec.json.Decoder(TrustPolicy).decode

_SET = """
INSERT INTO source_trust (source, trust, reason, actor, from_position, set_at_us)
VALUES (?,?,?,?,?,?)
"""
_AT = "from_position<=?2 AND to_position>?2"
_GIVEN = f"SELECT trust FROM source_trust WHERE source=?1 AND {_AT}"
_HOLDS_KEY = "SELECT 1 FROM key_sources WHERE source=? AND from_position<=?"
_POLICY = """
SELECT document FROM trust_policies WHERE from_position<=? ORDER BY from_position DESC LIMIT 1
"""
_SETTING = f"""
SELECT source, trust, reason, actor, set_at_us, from_position FROM source_trust
WHERE source=?1 AND {_AT}
"""
_SETTINGS = f"""
SELECT source, trust, reason, actor, set_at_us, from_position FROM source_trust
WHERE source > ?1 AND {_AT} ORDER BY source LIMIT ?3
"""


class TrustProjector:
    """Rows of ``source_trust``, ``key_sources`` and ``trust_policies``."""

    name = "trust"
    version = 2
    tables = ("source_trust", "key_sources", "trust_policies")
    schema = f"""
    CREATE TABLE source_trust (
        source TEXT NOT NULL,
        trust REAL NOT NULL,
        reason TEXT NOT NULL,
        actor TEXT NOT NULL,
        from_position INTEGER NOT NULL,
        to_position INTEGER NOT NULL DEFAULT {LIVE},
        set_at_us INTEGER NOT NULL,
        PRIMARY KEY (source, from_position)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE key_sources (
        source TEXT PRIMARY KEY,
        from_position INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE trust_policies (
        from_position INTEGER PRIMARY KEY,
        document TEXT NOT NULL
    ) STRICT;
    """
    late_indexes = ""
    kinds = frozenset({"source_trust_set", "key_issued", "trust_policy_set"})
    reads: frozenset[str] = frozenset()

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        for event in events:
            change = event.payload
            if isinstance(change, KeyIssued):
                db.execute(
                    "INSERT OR IGNORE INTO key_sources VALUES (?,?)",
                    (change.entity_uri, event.position),
                )
            elif isinstance(change, TrustPolicySet):
                document = msgspec.json.encode(change.policy).decode()
                db.execute("INSERT INTO trust_policies VALUES (?,?)", (event.position, document))
            else:
                assert isinstance(change, SourceTrustSet)
                db.execute(
                    "UPDATE source_trust SET to_position=? WHERE source=? AND to_position=?",
                    (event.position, change.source, LIVE),
                )
                said = (change.source, change.trust, change.reason, event.header.actor)
                db.execute(_SET, (*said, event.position, event.header.recorded_at))


class TrustAt:
    """Trust in sources at one position, from the tables: the same numbers as the mirror's."""

    def __init__(self, db: apsw.Connection, position: int) -> None:
        self._db = db
        self._position = position
        policy = trust_policy(db, position)
        self._off = policy.mode == "off"
        self._levels = trust_levels(policy)
        self._given: dict[str, float | None] = {}
        self._keyed: dict[str, bool] = {}

    def warrant(self, fact: FactAsserted, actor: str, peer: str | None) -> int:
        """What vouches for a fact that is recorded at the position, or after it and before any
        change of keys."""
        return warrant_of(
            source=fact.source,
            entity=fact.entity,
            scope=fact.scope,
            actor=actor,
            keyed=self._holds_key(actor),
            received=peer is not None,
        )

    def of(self, source: str, warrant: int) -> float:
        """t(source) for a fact with this warrant."""
        if self._off:
            return 1.0
        if source not in self._given:
            row = query_one(self._db, _GIVEN, (source, self._position))
            self._given[source] = None if row is None else float(row[0])
        given = self._given[source]
        if given is not None:
            return given
        if CLAIMED <= warrant < RECEIVED and self._holds_key(source):
            return 1.0
        return float(self._levels[warrant])

    def _holds_key(self, source: str) -> bool:
        known = self._keyed.get(source)
        if known is None:
            row = query_one(self._db, _HOLDS_KEY, (source, self._position))
            known = self._keyed[source] = row is not None
        return known


class TrustSetting(Struct, frozen=True):
    """What an operator set of a source; times in microseconds."""

    source: str
    trust: float
    reason: str
    actor: str
    set_at_us: int
    position: int


def trust_policy(db: apsw.Connection, position: int) -> TrustPolicy:
    """The formula's parameters in force at a position."""
    found = query_one(db, _POLICY, (position,))
    return TrustPolicy() if found is None else _decode_policy(found[0])


def trust_settings(
    db: apsw.Connection, position: int, *, after: str = "", limit: int
) -> list[TrustSetting]:
    """Settings in force at a position, by source, from behind ``after``."""
    return [TrustSetting(*row) for row in query(db, _SETTINGS, (after, position, limit))]


def trust_setting(db: apsw.Connection, source: str, position: int) -> TrustSetting | None:
    """The setting of one source in force at a position."""
    found = query_one(db, _SETTING, (source, position))
    return None if found is None else TrustSetting(*found)


def load_trust(db: apsw.Connection) -> list[tuple[int, str, float]]:
    """(position, source, trust) of every setting, oldest first."""
    rows = query(db, "SELECT from_position, source, trust FROM source_trust ORDER BY from_position")
    return [(position, source, trust) for position, source, trust in rows]


def load_key_sources(db: apsw.Connection) -> list[tuple[int, str]]:
    """(position, source) of the first key of each source, oldest first."""
    rows = query(db, "SELECT from_position, source FROM key_sources ORDER BY from_position")
    return [(position, source) for position, source in rows]


def load_trust_policies(db: apsw.Connection) -> list[tuple[int, TrustPolicy]]:
    """(position, policy) of every change of the formula, oldest first."""
    rows = query(db, "SELECT from_position, document FROM trust_policies ORDER BY from_position")
    return [(position, _decode_policy(text)) for position, text in rows]
