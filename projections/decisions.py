"""What an intent leads to: drafts of events, or a refusal.

Functions here decide and do no writing. They read the projection transaction of the
group they are in, plus ``Undecided``: facts drafted earlier in the group and not applied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import apsw
import msgspec
from msgspec import Struct

from eventlog.event import NODE_STREAM, Draft, scope_partition
from eventlog.identifiers import IdentifierSource, id_text
from eventlog.kinds import (
    AnyPayload,
    ConflictResolved,
    DecaySwept,
    EpochStarted,
    FactAsserted,
    FactRetracted,
    KeyIssued,
    KeyRevoked,
    NodeKeyRotated,
    PolicySet,
    ProfileSet,
    RecallServed,
    SetValuedDeclared,
    SourceTrustSet,
    Value,
)
from projections import intents as ask
from projections.cid import compute_cid
from projections.contradictions import has_rival, key_hash, value_hash
from projections.database import query, query_one
from projections.derivations import closes_cycle
from projections.intents import Refused
from projections.mirror import Mirror
from projections.moment import LIVE
from projections.normalization import matches_label
from projections.policies import ALWAYS_SET_VALUED, set_valued_relations

RETRACTED_VALUE = "retracted"
"""The string value with which clients retract a whole key."""
RETRACTION_TARGETS_MAX = 10_000

_SAME = f"""
SELECT id, cid, valid_from, valid_until, interpret_as, derived_from, value_type, value_v
FROM facts
WHERE entity=? AND relation=? AND scope=? AND source=? AND garden_id IS NULL
  AND to_position={LIVE} AND base_confidence>0
ORDER BY hlc DESC LIMIT 1
"""
_TARGETS = f"""
SELECT id, source, value_type, value_v FROM facts
WHERE entity=? AND relation=? AND scope=? AND garden_id IS NULL
  AND to_position={LIVE} AND base_confidence>0
ORDER BY from_position LIMIT {RETRACTION_TARGETS_MAX + 1}
"""
_BY_ID = "SELECT entity, relation, scope, to_position, base_confidence FROM facts WHERE id=?"
_MATCHING = f"""
SELECT id FROM facts
WHERE entity=? AND relation=? AND scope=? AND value_type=? AND value_v=?
  AND valid_from IS ? AND valid_until IS ? AND (? IS NULL OR source=?)
  AND to_position={LIVE} AND base_confidence>0 LIMIT 2
"""
_CONFLICT = """
SELECT key_hash, entity, relation, scope, fact_id, opened_by, to_position, resolved_position
FROM conflicts WHERE conflict_id=?
"""
_NEWEST = "SELECT newest_id FROM claims WHERE key_hash=? ORDER BY newest_hlc DESC LIMIT 1"
_FACT = """
SELECT id, entity, relation, value_type, value_v, interpret_as, scope, to_position, set_aside
FROM facts WHERE id=?
"""
_VALUE_GROUP = f"""
SELECT id FROM facts
WHERE entity=? AND relation=? AND scope=? AND value_type=? AND value_v=?
  AND to_position={LIVE} AND set_aside={LIVE} AND base_confidence>0 ORDER BY from_position
"""

_encode_parents = msgspec.json.Encoder().encode


Key = tuple[str, str, str]
"""(entity, relation, scope)."""


class Undecided:
    """What this group has drafted and the tables do not show yet.

    Attributes:
        newest: the newest drafted content of a (key, source).
        asserted: ids and keys of drafted facts.
        retracted: ids and keys of facts whose retraction is drafted.
        touched: every key of the group, also those applied: the mirror shows them only
            after the commit.
    """

    def __init__(self) -> None:
        self.newest: dict[tuple[str, str, str, str], tuple[Any, ...]] = {}
        self.asserted: set[str | Key] = set()
        self.retracted: set[str | Key] = set()
        self.touched: set[Key] = set()

    def holds(self, name: str | Key) -> bool:
        """Whether a fact id or key has drafts that the tables do not show."""
        return name in self.asserted or name in self.retracted

    def applied(self) -> None:
        """The tables show everything now."""
        self.newest.clear()
        self.asserted.clear()
        self.retracted.clear()

    def finished(self) -> None:
        """The group has ended."""
        self.applied()
        self.touched.clear()


class Context(Struct, frozen=True):
    """What a decision may know: the tables, the clock's reading, who asks."""

    db: apsw.Connection
    mirror: Mirror
    undecided: Undecided
    identifiers: IdentifierSource
    now_us: int
    actor: str
    flush: Callable[[], None]

    def draft(
        self, payload: AnyPayload, partition: str = NODE_STREAM, cause: bytes | None = None
    ) -> Draft:
        """A draft of an event, with an id of its own."""
        return Draft(payload, partition, self.identifiers.next(self.now_us), self.actor, cause)


class Decision(Struct, frozen=True):
    """Drafts to append and what to answer; see ``intents.Done``."""

    drafts: list[Draft]
    fact_id: str | None = None
    created: bool = True
    retracted: tuple[str, ...] = ()
    detail: dict[str, Any] = {}
    rival: tuple[bytes, bytes] | None = None
    """Key and value whose rivals decide the answer's ``contradicted`` flag."""


def assert_fact(intent: ask.AssertFact, context: Context) -> Decision | Refused:
    """A new fact, the equal live one that already says so, or a retraction."""
    if intent.derived_from:
        context.flush()
        parents = [parent.hash for parent in intent.derived_from]
        if closes_cycle(context.db, intent.cid.removeprefix("sha256:"), parents):
            return Refused(
                "provenance_cycle_detected",
                "the fact would be derived from itself",
                "derived_from",
            )
    if intent.confidence == 0.0:
        return _retracting(intent, context)
    content = _content(intent)
    key = (intent.entity, intent.relation, intent.scope)
    rival: tuple[bytes, bytes] | None = None
    if key in context.undecided.retracted:
        context.flush()
    if key in context.undecided.touched or context.mirror.has_key(*key):
        same = _newest_of_source(intent, context)
        value = intent.value
        rival = (key_hash(*key, None), value_hash(value.type, value.v))
        if same is not None and tuple(same[1:]) == content:
            return Decision([], fact_id=same[0], created=False, rival=rival)
    draft = context.draft(_asserted(intent), scope_partition(intent.scope))
    fact = id_text(draft.event_id)
    context.undecided.touched.add(key)
    context.undecided.asserted |= {fact, key}
    context.undecided.newest[*key, intent.source] = (fact, *content)
    return Decision([draft], fact_id=fact, rival=rival)


def _asserted(intent: ask.AssertFact) -> FactAsserted:
    return FactAsserted(
        entity=intent.entity,
        relation=intent.relation,
        value=intent.value,
        source=intent.source,
        scope=intent.scope,  # pyright: ignore[reportArgumentType]  # validated at the edge
        confidence=intent.confidence,
        cid=intent.cid,
        valid_from=intent.valid_from,
        valid_until=intent.valid_until,
        derived_from=list(intent.derived_from),
        write_mode=intent.write_mode,  # pyright: ignore[reportArgumentType]
    )


def _content(intent: ask.AssertFact) -> tuple[Any, ...]:
    """What must be equal for a write to be a repetition (DESIGN section 8)."""
    parents = list(intent.derived_from)
    return (
        intent.cid,
        intent.valid_from,
        intent.valid_until,
        intent.value.interpret_as,
        _encode_parents(parents).decode() if parents else "[]",
        intent.value.type,
        intent.value.v,
    )


def _newest_of_source(intent: ask.AssertFact, context: Context) -> tuple[Any, ...] | None:
    known = (intent.entity, intent.relation, intent.scope, intent.source)
    pending = context.undecided.newest.get(known)
    if pending is not None:
        return pending
    return query_one(context.db, _SAME, known)


def _retracting(intent: ask.AssertFact, context: Context) -> Decision | Refused:
    """A confidence-0 record and the retraction of what it denies (wire 5.2)."""
    key = (intent.entity, intent.relation, intent.scope)
    if context.undecided.holds(key):
        context.flush()
    several = _is_set_valued(intent.relation, context)
    rows = query(context.db, _TARGETS, (intent.entity, intent.relation, intent.scope))
    if len(rows) > RETRACTION_TARGETS_MAX:
        return Refused(
            "too_many_targets",
            f"over {RETRACTION_TARGETS_MAX} live facts match; retract them by id",
            "confidence",
        )
    targets = retraction_targets(intent.value, intent.source, several, rows)
    marker = context.draft(_asserted(intent), scope_partition(intent.scope))
    fact = id_text(marker.event_id)
    context.undecided.touched.add(key)
    context.undecided.asserted |= {fact, key}
    context.undecided.retracted |= {key, *targets}
    drafts = [marker]
    if targets:
        retraction = FactRetracted(fact_ids=list(targets), reason="", marker_id=fact)
        partition = scope_partition(intent.scope)
        drafts.append(context.draft(retraction, partition, marker.event_id))
    return Decision(drafts, fact_id=fact, retracted=targets)


def retraction_targets(
    value: Value, source: str, set_valued: bool, rows: list[Any]
) -> tuple[str, ...]:
    """Which live facts (id, source, type, v) of a key a confidence-0 write ends.

    By value ``"retracted"``, all of them; else those of equal value, and, unless the
    relation is set-valued (where other values are other facts), all of the same source.
    """
    if value.type == "string" and value.v == RETRACTED_VALUE:
        return tuple(row[0] for row in rows)
    return tuple(
        row[0]
        for row in rows
        if (row[2], row[3]) == (value.type, value.v) or (row[1] == source and not set_valued)
    )


def _is_set_valued(relation: str, context: Context) -> bool:
    patterns = (*ALWAYS_SET_VALUED, *set_valued_relations(context.db, LIVE - 1))
    return any(matches_label(pattern, relation) for pattern in patterns)


def retract_fact(intent: ask.RetractFact, context: Context) -> Decision | Refused:
    """Retract one fact; unreadable and absent look the same."""
    if context.undecided.holds(intent.fact_id):
        context.flush()
    row = query_one(context.db, _BY_ID, (intent.fact_id,))
    if row is None or row[2] not in intent.scopes:
        return Refused("fact_not_found", "fact not found", "id")
    if row[3] != LIVE or row[4] == 0.0:
        return Refused("fact_already_retracted", "the fact no longer holds", "id")
    return _retraction(intent.fact_id, row[:3], intent.reason, context)


def retract_matching(intent: ask.RetractMatching, context: Context) -> Decision | Refused:
    """Retract the one live fact with this content."""
    key = (intent.entity, intent.relation, intent.scope)
    if context.undecided.holds(key):
        context.flush()
    value, source = intent.value, intent.source
    bindings = (*key, value.type, value.v, intent.valid_from, intent.valid_until, source, source)
    rows = query(context.db, _MATCHING, bindings)
    if not rows:
        return Refused("fact_not_found", "no live fact matches", "match")
    if len(rows) > 1:
        return Refused("ambiguous_match", "more than one live fact matches; name a source", "match")
    return _retraction(rows[0][0], key, intent.reason, context)


def _retraction(fact: str, key: Key, reason: str, context: Context) -> Decision:
    context.undecided.retracted |= {fact, key}
    payload = FactRetracted(fact_ids=[fact], reason=reason)
    draft = context.draft(payload, scope_partition(key[2]))
    return Decision([draft], fact_id=fact, retracted=(fact,))


def resolve_conflict(intent: ask.ResolveConflict, context: Context) -> Decision | Refused:
    """Settle a contradiction: the winner stands, facts of the losing value are set aside."""
    context.flush()
    row = query_one(context.db, _CONFLICT, (intent.conflict_id,))
    if row is None or row[3] not in intent.scopes:
        return Refused("conflict_not_found", "conflict not found")
    key, _, relation, scope, older, opened_by, ended, resolved = row
    if ended != LIVE or resolved is not None:
        return Refused("conflict_already_resolved", "conflict already resolved")
    newest = query_one(context.db, _NEWEST, (key,))
    sides = (str(newest[0] if newest else opened_by), str(older))
    if intent.new_value is None and intent.winning_fact_id not in sides:
        if intent.winning_fact_id is None:
            return Refused(
                "resolution_missing", "give winning_fact_id or new_value", "winning_fact_id"
            )
        return Refused(
            "not_in_conflict", "winning_fact_id must be one of the two facts", "winning_fact_id"
        )
    facts = {side: query_one(context.db, _FACT, (side,)) for side in sides}
    return _settle(intent, context, str(relation), str(scope), sides, facts)


def _settle(
    intent: ask.ResolveConflict,
    context: Context,
    relation: str,
    scope: str,
    sides: tuple[str, str],
    facts: dict[str, Any],
) -> Decision:
    partition = scope_partition(scope)
    drafts: list[Draft] = []
    if intent.new_value is not None:
        value = intent.new_value
        context.undecided.touched.add((facts[sides[0]][1], relation, scope))
        winner = context.draft(
            _plain_fact(facts[sides[0]][1], relation, value, intent.source, scope), partition
        )
        drafts.append(winner)
        winner_id, losing = id_text(winner.event_id), sides
    else:
        winner_id = str(intent.winning_fact_id)
        row = facts[winner_id]
        value = Value(type=row[3], v=row[4], interpret_as=row[5])
        losing = tuple(side for side in sides if side != winner_id)
    losers = [fact for side in losing for fact in _value_group(facts[side], context)]
    note = context.draft(
        _plain_fact(
            f"stigmem:resolution:{intent.conflict_id}", relation, value, intent.source, scope
        ),
        partition,
    )
    resolution = ConflictResolved(
        conflict_id=intent.conflict_id,
        winner_id=winner_id,
        loser_ids=losers,
        resolution_fact_id=id_text(note.event_id),
        note=intent.note,
    )
    drafts += [note, context.draft(resolution, partition, note.event_id)]
    detail = {"resolution_fact_id": id_text(note.event_id), "conflict_status": "resolved"}
    return Decision(drafts, fact_id=winner_id, detail=detail)


def _value_group(row: Any, context: Context) -> list[str]:
    _, entity, relation, value_type, value_v, _, scope, *_ = row
    bindings = (entity, relation, scope, value_type, value_v)
    return [str(found[0]) for found in context.db.execute(_VALUE_GROUP, bindings)]


def _plain_fact(entity: str, relation: str, value: Value, source: str, scope: str) -> FactAsserted:
    cid = compute_cid(
        entity=entity, relation=relation, value=value, source=source, confidence=1.0, scope=scope
    )
    return FactAsserted(
        entity=entity,
        relation=relation,
        value=value,
        source=source,
        scope=scope,  # pyright: ignore[reportArgumentType]
        cid=cid,
    )


def sweep_decay(intent: ask.SweepDecay, context: Context) -> Decision:
    """One event a scope, with the policies as they stand."""
    drafts = [
        context.draft(DecaySwept(scope=scope, at_us=context.now_us, policies=list(intent.policies)))
        for scope in intent.scopes
    ]
    return Decision(drafts)


def issue_key(intent: ask.IssueKey, context: Context) -> Decision | Refused:
    """A new API key; the same raw key twice is refused."""
    context.flush()
    taken = context.db.execute(
        "SELECT 1 FROM api_keys WHERE key_sha256=?", (intent.key_sha256,)
    ).fetchone()
    if taken is not None:
        return Refused("key_exists", "raw_key already exists; choose another", "raw_key")
    key_id = str(uuid4())
    payload = KeyIssued(
        key_id=key_id,
        entity_uri=intent.entity_uri,
        permissions=sorted(intent.permissions),
        key_sha256=intent.key_sha256,
        scopes=list(intent.scopes),
        description=intent.description,
        expires_at_us=intent.expires_at_us,
    )
    return Decision([context.draft(payload)], detail={"key_id": key_id})


def revoke_key(intent: ask.RevokeKey, context: Context) -> Decision | Refused:
    """The key opens nothing from here on."""
    context.flush()
    row = context.db.execute(
        "SELECT to_position FROM api_keys WHERE key_id=?", (intent.key_id,)
    ).fetchone()
    if row is None or row[0] != LIVE:
        return Refused("key_not_found", "key not found", "key_id")
    return Decision([context.draft(KeyRevoked(key_id=intent.key_id, reason=intent.reason))])


def set_policy(intent: ask.SetPolicy, context: Context) -> Decision | Refused:
    """Install or remove a decay policy."""
    context.flush()
    if intent.policy is None:
        row = context.db.execute(
            "SELECT 1 FROM declarations WHERE sort='decay' AND name=? AND to_position=?",
            (intent.policy_id, LIVE),
        ).fetchone()
        if row is None:
            return Refused("policy_not_found", "decay policy not found", "id")
    payload = PolicySet(policy_id=intent.policy_id, policy=intent.policy)
    return Decision([context.draft(payload)])


def declare_set_valued(intent: ask.DeclareSetValued, context: Context) -> Decision:
    """Replace the list of set-valued relations; nothing where it is so already."""
    context.flush()
    wanted = sorted(set(intent.relations))
    if wanted == sorted(set_valued_relations(context.db, LIVE - 1)):
        return Decision([], created=False)
    return Decision([context.draft(SetValuedDeclared(relations=wanted))])


def set_profile(intent: ask.SetProfile, context: Context) -> Decision:
    """Install or remove a recall profile."""
    return Decision([context.draft(ProfileSet(name=intent.name, document=intent.document))])


def set_source_trust(intent: ask.SetSourceTrust, context: Context) -> Decision:
    """Trust a source to a degree from here on."""
    payload = SourceTrustSet(source=intent.source, trust=intent.trust, reason=intent.reason)
    return Decision([context.draft(payload)])


def track_recalls(intent: ask.TrackRecalls, context: Context) -> Decision:
    """Record which facts recalls returned."""
    return Decision([context.draft(RecallServed(uses=list(intent.uses)))])


def rotate_node_key(intent: ask.RotateNodeKey, context: Context) -> Decision:
    """Record that the node signs with a new key."""
    payload = NodeKeyRotated(
        previous_public_key=intent.previous_public_key,
        public_key=intent.public_key,
        signature=intent.signature,
    )
    return Decision([context.draft(payload)])


def start_epoch(intent: ask.StartEpoch, context: Context) -> Decision:
    """Record which node writes from here, and by which clock."""
    payload = EpochStarted(
        node_id=intent.node_id,
        epoch=intent.epoch,
        public_key=intent.public_key,
        reason=intent.reason,  # pyright: ignore[reportArgumentType]
        clock=intent.clock,  # pyright: ignore[reportArgumentType]
    )
    return Decision([context.draft(payload)])


DECISIONS: dict[type[ask.Intent], Callable[[Any, Context], Decision | Refused]] = {
    ask.AssertFact: assert_fact,
    ask.RetractFact: retract_fact,
    ask.RetractMatching: retract_matching,
    ask.ResolveConflict: resolve_conflict,
    ask.SweepDecay: sweep_decay,
    ask.IssueKey: issue_key,
    ask.RevokeKey: revoke_key,
    ask.SetPolicy: set_policy,
    ask.DeclareSetValued: declare_set_valued,
    ask.SetProfile: set_profile,
    ask.SetSourceTrust: set_source_trust,
    ask.TrackRecalls: track_recalls,
    ask.RotateNodeKey: rotate_node_key,
    ask.StartEpoch: start_epoch,
}
"""Every intent and the function that decides it."""


def contradicted(decision: Decision, context: Context) -> bool:
    """Whether the fact of a decision has a live rival now, after everything was applied."""
    if decision.rival is None:
        return False
    key, value = decision.rival
    return has_rival(context.db, key, value, context.now_us)
