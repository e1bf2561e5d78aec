"""How assertions enter the claims of their keys and open conflicts."""

from collections.abc import Sequence

import apsw
import msgspec
from msgspec import Struct

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import FactAsserted
from engramlog.projections.normalization import matches_label
from engramlog.projections.tables.conflicts import statements
from engramlog.projections.tables.conflicts.identities import conflict_id, key_hash, value_hash
from engramlog.projections.tables.database import query
from engramlog.projections.tables.facts.facts import fact_id, validity_us

_encode = msgspec.json.Encoder().encode


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


def claim_facts(events: Sequence[Recorded], patterns: Sequence[str], db: apsw.Connection) -> None:
    """Add claims for a run of assertions; open and close conflicts as the newest claim changes."""
    by_key = _crowded(events, db)
    if not by_key:
        return
    hashed = {key: key_hash(*key) for key in by_key}
    _claim_only_facts(by_key, hashed, db)
    claims = [_claim(hashed[key], event) for key, of_key in by_key.items() for event in of_key]
    claims.sort(key=lambda claim: claim.event.position)
    several: dict[str, bool] = {}
    for claim in claims:
        relation = claim.fact.relation
        if relation not in several:
            several[relation] = any(matches_label(label, relation) for label in patterns)
    exclusive = {claim.key for claim in claims if not several[claim.fact.relation]}
    tops = _newest_claims(exclusive, db) if exclusive else {}
    for claim in claims:
        if claim.key in exclusive:
            _compare_with_newest(claim, tops, db)
    db.executemany(
        statements.CLAIM,
        [(c.key, c.value, c.event.header.hlc, c.id, validity_us(c.fact)[1]) for c in claims],
    )


def _claim(key: bytes, event: Recorded) -> _Claim:
    fact = event.payload
    assert isinstance(fact, FactAsserted)
    return _Claim(event, fact, fact_id(event), key, value_hash(fact.value.type, fact.value.v))


def _crowded(events: Sequence[Recorded], db: apsw.Connection) -> dict[_Key, list[Recorded]]:
    """The run's facts of keys with a second fact by its end. A key's only fact needs no claim."""
    by_key: dict[_Key, list[Recorded]] = {}
    if not events:
        return by_key
    rows = query(db, statements.CROWDED, (events[0].position, events[-1].position))
    positions = {position for (position,) in rows}
    for event in events:
        if event.position in positions:
            fact = event.payload
            assert isinstance(fact, FactAsserted)
            key = (fact.entity, fact.relation, fact.scope, fact.garden_id)
            by_key.setdefault(key, []).append(event)
    return by_key


def _claim_only_facts(
    by_key: dict[_Key, list[Recorded]], hashed: dict[_Key, bytes], db: apsw.Connection
) -> None:
    """Add the claims of facts that were the only ones of their keys before the run."""
    keys = list(by_key)
    asked = _encode([(*key, claims[0].position) for key, claims in by_key.items()]).decode()
    for number, only, another in query(db, statements.EARLIER, (asked,)):
        if another is None:
            key = keys[int(number)]
            position = by_key[key][0].position
            for row in query(db, statements.ONLY, (only, position, position)):
                value_type, value_v, hlc, fact, end = row
                value = value_hash(value_type, value_v)
                db.execute(statements.CLAIM, (hashed[key], value, hlc, fact, end))


def _newest_claims(keys: set[bytes], db: apsw.Connection) -> dict[bytes, _Top]:
    asked = "[" + ",".join(f'"{key.hex()}"' for key in keys) + "]"
    return {row[0]: (row[1], row[2], row[3]) for row in query(db, statements.TOPS, (asked,))}


def _compare_with_newest(claim: _Claim, tops: dict[bytes, _Top], db: apsw.Connection) -> None:
    """Compare a claim with the newest one of its key, which it may replace."""
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
        db.execute(statements.CLOSE, (position, claim.key, claim.value))
    fact = claim.fact
    db.execute(
        statements.OPEN,
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
