"""How facts leave the claims of their keys: retracted, expired, settled or made set-valued."""

from collections.abc import Iterable, Sequence

import apsw

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import ConflictResolved
from engramlog.projections.normalization import matches_label
from engramlog.projections.tables.conflicts import statements
from engramlog.projections.tables.conflicts.identities import conflict_id, key_hash, value_hash
from engramlog.projections.tables.database import query, query_one


def release_all(
    facts: Iterable[str], event: Recorded, patterns: Sequence[str], db: apsw.Connection
) -> None:
    """Remove facts that the event ended or set aside from their keys' claims."""
    released = [_release_fact(fact, event.position, db) for fact in dict.fromkeys(facts)]
    for claim in dict.fromkeys(released):
        if claim is not None:
            _enforce_newest_rule(*claim, event, patterns, db)


def _release_fact(fact: str, position: int, db: apsw.Connection) -> tuple[bytes, bytes] | None:
    """Remove one fact; returns its key and value, or None if it held no claim."""
    row = query_one(db, statements.FACT, (fact,))
    if row is None or row[6] == 0 or min(row[7:]) != position:
        return None  # unknown, never a claim, or already ended or set aside by another event
    key, value = key_hash(*row[:4]), value_hash(*row[4:6])
    claimed = query_one(db, statements.CLAIMED, (key, value))
    if claimed is None:
        return None
    live_count, newest_id = claimed
    if live_count == 1:
        db.execute(statements.DROP_CLAIM, (key, value))
        db.execute(statements.CLOSE, (position, key, value))
    else:
        db.execute(statements.FEWER, (key, value))
        if newest_id == fact:
            entity, relation, scope, garden, value_type, value_v = row[:6]
            bindings = (entity, relation, scope, value_type, value_v, garden, position)
            for next_id, next_hlc in query(db, statements.NEXT_NEWEST, bindings):
                db.execute(statements.RENEW, (next_id, next_hlc, key, value))
    return key, value


def _enforce_newest_rule(
    key: bytes, value: bytes, event: Recorded, patterns: Sequence[str], db: apsw.Connection
) -> None:
    """Restore the rule: a key's newest value has no open conflict; ``value``, if claimed and not
    the newest, has one."""
    top = query_one(db, statements.TOP, (key,))
    if top is None:
        return
    db.execute(statements.CLOSE, (event.position, key, top[0]))
    claimed = query_one(db, statements.CLAIMED, (key, value))
    if top[0] != value and claimed is not None:
        _open_conflict(key, value, claimed[1], top[2], event, patterns, db)


def _open_conflict(
    key: bytes,
    value: bytes,
    fact: str,
    top_id: str,
    event: Recorded,
    patterns: Sequence[str],
    db: apsw.Connection,
) -> None:
    """Open a conflict without a new assertion; nothing for set-valued relations."""
    row = query_one(db, statements.FACT, (fact,))
    if row is None or any(matches_label(label, row[1]) for label in patterns):
        return
    name = conflict_id(top_id, fact, event.event_id)
    place = (*row[:4], fact, top_id, event.received_at, event.position)
    db.execute(statements.OPEN, (name, key, value, *place, key, value))


def resolve(
    event: Recorded, resolution: ConflictResolved, patterns: Sequence[str], db: apsw.Connection
) -> None:
    """Write a resolution, and release the claims of the facts that it set aside."""
    db.execute(
        statements.RESOLVE,
        (
            event.position,
            resolution.winner_id,
            resolution.resolution_fact_id,
            resolution.note,
            event.header.actor,
            resolution.conflict_id,
        ),
    )
    release_all(resolution.loser_ids, event, patterns, db)
    row = query_one(db, statements.FACT, (resolution.winner_id,))
    if row is not None:
        _enforce_newest_rule(key_hash(*row[:4]), value_hash(*row[4:6]), event, patterns, db)


def declare(
    event: Recorded, before: Sequence[str], after: Sequence[str], db: apsw.Connection
) -> None:
    """Close the conflicts of relations that became set-valued, and open those of relations that no
    longer are."""
    tops: dict[bytes, str] = {}
    for relation, key, value, _, fact in reversed(query(db, statements.ALL_CLAIMS)):
        was, now = (
            any(matches_label(label, relation) for label in labels) for labels in (before, after)
        )
        if was == now:
            continue
        top_id = tops.setdefault(key, fact)
        if now and top_id == fact:
            db.execute(statements.CLOSE_KEY, (event.position, key))
        elif not now and top_id != fact:
            _open_conflict(key, value, fact, top_id, event, after, db)
