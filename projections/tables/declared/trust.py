"""Trust over time: operators' settings, sources that hold keys, and the formula's policy.

``source_trust`` holds settings. ``key_sources`` holds the sources with a key of this node; facts
stay vouched for after the key ends. ``trust_policies`` holds the parameters of ``trust_formula``.
"""

from bisect import bisect_right
from operator import itemgetter

import apsw
import msgspec
import numpy as np
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import (
    FactAsserted,
    KeyIssued,
    SourceTrustSet,
    TrustPolicy,
    TrustPolicySet,
)
from engramlog.projections.arrays import F64, I8, I32, I64, Bool, Slots
from engramlog.projections.interner import Interner
from engramlog.projections.moment import LIVE
from engramlog.projections.rights.trust_formula import (
    CLAIMED,
    RECEIVED,
    WRITTEN_HERE,
    trust_levels,
    warrant_of,
)
from engramlog.projections.tables.database import query, query_one
from engramlog.projections.tables.projector import Projector, SmallPart
from engramlog.projections.tables.struct_rows import end_rows, insert_row, rows_as

_decode_policy = msgspec.json.Decoder(TrustPolicy).decode

_AT = "from_position<=?2 AND to_position>?2"
# A setting ends where the next one of its source begins: only the newest is looked at.
_GIVEN = """
SELECT trust FROM source_trust WHERE source=? AND from_position<=?
ORDER BY from_position DESC LIMIT 1
"""
_HOLDS_KEY = "SELECT 1 FROM key_sources WHERE source=? AND from_position<=?"
_POLICY = """
SELECT document FROM trust_policies WHERE from_position<=? ORDER BY from_position DESC LIMIT 1
"""
_SETTINGS = f"FROM (SELECT *, from_position AS position FROM source_trust) WHERE {_AT}"


class TrustProjector(Projector):
    """Rows of ``source_trust``, ``key_sources`` and ``trust_policies``."""

    name = "trust"
    version = 2
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
    CREATE UNIQUE INDEX source_trust_live ON source_trust (source) WHERE to_position = {LIVE};
    CREATE TABLE key_sources (
        source TEXT PRIMARY KEY,
        from_position INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE trust_policies (
        from_position INTEGER PRIMARY KEY,
        document TEXT NOT NULL
    ) STRICT;
    """
    kinds = frozenset({"source_trust_set", "key_issued", "trust_policy_set"})

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        change = event.payload
        if isinstance(change, KeyIssued):
            insert_row(db, "key_sources", event, source=change.entity_uri, or_ignore=True)
        elif isinstance(change, TrustPolicySet):
            insert_row(db, "trust_policies", event, document=change.policy)
        else:
            assert isinstance(change, SourceTrustSet)
            end_rows(db, "source_trust", event, source=change.source)
            insert_row(db, "source_trust", event, set_at_us=event.header.recorded_at)


class TrustAt:
    """Trust in sources at one position, from the tables: equal to the memory image's numbers."""

    def __init__(self, db: apsw.Connection, position: int) -> None:
        self._db = db
        self._position = position
        policy = trust_policy(db, position)
        self._off = policy.mode == "off"
        self._levels = trust_levels(policy)
        self._given: dict[str, float | None] = {}
        self._keyed: dict[str, bool] = {}

    def warrant(self, fact: FactAsserted, actor: str, peer: str | None) -> int:
        """What vouches for a fact recorded at this position or later, before any change of keys."""
        return warrant_of(
            source=fact.source,
            entity=fact.entity,
            scope=fact.scope,
            actor=actor,
            keyed=self._holds_key(actor),
            received=peer is not None,
        )

    def of(self, source: str, warrant: int, peer: str | None) -> float:
        """t(source) for a fact with this warrant, times the trust in the peer it came through."""
        if self._off:
            return 1.0
        through = None if peer is None else self._setting_of(peer)
        return self._of_source(source, warrant) * (1.0 if through is None else through)

    def _of_source(self, source: str, warrant: int) -> float:
        given, level = self._setting_of(source), float(self._levels[warrant])
        if given is not None:
            lent = warrant >= RECEIVED and self._holds_key(source)
            return min(given, level) if lent else given
        if CLAIMED <= warrant < RECEIVED and self._holds_key(source):
            return 1.0
        return level

    def _setting_of(self, source: str) -> float | None:
        if source not in self._given:
            row = query_one(self._db, _GIVEN, (source, self._position))
            self._given[source] = None if row is None else float(row[0])
        return self._given[source]

    def _holds_key(self, source: str) -> bool:
        """Whether a source held an API key at the position."""
        known = self._keyed.get(source)
        if known is None:
            row = query_one(self._db, _HOLDS_KEY, (source, self._position))
            known = self._keyed[source] = row is not None
        return known


class TrustSetting(Struct, frozen=True):
    """An operator's setting for a source; times in microseconds."""

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
    db: apsw.Connection, position: int, after: str, limit: int
) -> list[TrustSetting]:
    """Settings in force at a position, by source, after ``after``."""
    wanted = f"{_SETTINGS} AND source > ?1 ORDER BY source LIMIT ?3"
    return rows_as(TrustSetting, db, wanted, (after, position, limit))


def trust_setting(db: apsw.Connection, source: str, position: int) -> TrustSetting | None:
    """The setting of one source in force at a position."""
    found = rows_as(TrustSetting, db, f"{_SETTINGS} AND source=?1", (source, position))
    return found[0] if found else None


_TRUSTS = "SELECT from_position, source, trust FROM source_trust ORDER BY from_position"
_KEY_SOURCES = "SELECT from_position, source FROM key_sources ORDER BY from_position"
_POLICIES = "SELECT from_position, document FROM trust_policies ORDER BY from_position"

_DEFAULT_POLICY = TrustPolicy()
_decode_state = msgspec.msgpack.Decoder(
    tuple[list[tuple[int, int, float]], dict[str, int], list[tuple[int, TrustPolicy]]]
).decode


class TrustPart(SmallPart):
    """Trust in sources as of any position, for many facts at once, by ``trust_formula``."""

    kinds = TrustProjector.kinds

    def __init__(self, sources: Interner) -> None:
        self._sources = sources
        self._settings: list[tuple[int, int, float]] = []
        """Position, source's number and trust, by position."""
        self._keyed: dict[str, int] = {}
        self._policy_positions: list[int] = []
        self._policies: list[TrustPolicy] = []
        self._key_columns: dict[tuple[int, int], I64] = {}
        self._given_columns: dict[int, F64] = {}

    def load(self, db: apsw.Connection) -> None:
        for position, source in query(db, _KEY_SOURCES):
            self._add_key(position, source)
        for position, source, trust in query(db, _TRUSTS):
            self.add(position, source, trust)
        for position, document in query(db, _POLICIES):
            self._add_policy(position, _decode_policy(document))

    def fold_event(self, event: Recorded) -> None:
        change = event.payload
        if isinstance(change, KeyIssued):
            self._add_key(event.position, change.entity_uri)
        elif isinstance(change, TrustPolicySet):
            self._add_policy(event.position, change.policy)
        else:
            assert isinstance(change, SourceTrustSet)
            self.add(event.position, change.source, change.trust)

    def state(self) -> bytes:
        policies = list(zip(self._policy_positions, self._policies, strict=True))
        return msgspec.msgpack.encode((self._settings, self._keyed, policies))

    def restore(self, state: bytes) -> None:
        self._settings, self._keyed, policies = _decode_state(state)
        self._key_columns, self._given_columns = {}, {}
        for position, policy in policies:
            self._add_policy(position, policy)

    def sources(self) -> frozenset[int]:
        """Numbers of the sources with a setting or a key."""
        given = {source for _, source, _ in self._settings}
        return frozenset(given | {self._sources.numbered(name) for name in self._keyed})

    def add(self, position: int, source: str, trust: float) -> None:
        """Record an operator's setting."""
        self._settings.append((position, self._sources.add(source), trust))

    def _add_key(self, position: int, source: str) -> None:
        """Record that a source got a key."""
        self._sources.add(source)
        self._keyed.setdefault(source, position)

    def _add_policy(self, position: int, policy: TrustPolicy) -> None:
        """Record new parameters of the formula."""
        self._policies.append(policy)
        self._policy_positions.append(position)

    def keyed(self, source: str, position: int) -> bool:
        """Whether a source held a key before an event."""
        return self._keyed.get(source, LIVE) < position

    def policy(self, position: int) -> TrustPolicy:
        """The formula's parameters in force at a position."""
        count = bisect_right(self._policy_positions, position)
        return self._policies[count - 1] if count else _DEFAULT_POLICY

    def at(
        self,
        sources: I32,
        warrants: I8,
        peers: I32,
        position: int,
        slots: Slots | slice = slice(None),
    ) -> F64:
        """Trust in each fact's source at a position, times the trust in the peer that it came
        through. ``sources``, ``warrants``, ``peers``: by fact, the number of its source,
        ``warrant_of``, and the peer's number as a source; -1 for facts stated here. ``slots``:
        which of these facts."""
        warrants = warrants[slots]
        policy = self.policy(position)
        if policy.mode == "off":
            return np.ones(warrants.shape, dtype=np.float64)
        if (warrants != WRITTEN_HERE).any():
            trust: F64 = trust_levels(policy)[warrants]
            claimed: Bool = (warrants >= CLAIMED) & (warrants < RECEIVED)
            if claimed.any():
                keyed: Bool = claimed & (self._key_positions()[sources[slots]] <= position)
                trust = np.where(keyed, 1.0, trust)
        else:
            trust = np.ones(warrants.shape, dtype=np.float64)
        if not self._settings:
            return trust
        sources, peers = sources[slots], peers[slots]
        by_source = self._given_at(position)
        given = by_source[np.minimum(sources, len(by_source) - 1)]
        said: Bool = ~np.isnan(given)
        received: Bool = peers >= 0
        if not received.any():
            return np.where(said, given, trust)
        # The key belongs to another source and lends no trust.
        lent: Bool = said & received & (self._key_positions()[sources] <= position)
        given = np.where(lent, np.minimum(given, trust), given)
        trust = np.where(said, given, trust)
        through = by_source[np.minimum(peers, len(by_source) - 1)]
        return trust * np.where(np.isnan(through), 1.0, through)

    def _given_at(self, position: int) -> F64:
        """By source number: the operator's setting in force at a position, NaN without one. The
        last row is NaN, for all further sources and for -1."""
        count = bisect_right(self._settings, position, key=itemgetter(0))
        column = self._given_columns.get(count)
        if column is None:
            settings = self._settings[:count]
            rows = 2 + max((source for _, source, _ in settings), default=-1)
            column = np.full(rows, np.nan)
            for _, source, trust in settings:
                column[source] = trust
            self._given_columns = {count: column}
        return column

    def _key_positions(self) -> I64:
        """By source number: the position of its first key."""
        known = (len(self._keyed), len(self._sources))  # both only grow
        column = self._key_columns.get(known)
        if column is None:
            keyed = list(self._keyed.items())
            column = np.full(known[1], LIVE, dtype=np.int64)
            for source, position in keyed:
                number = self._sources.number(source)
                if number is not None and number < known[1]:
                    column[number] = position
            self._key_columns = {known: column}
        return column
