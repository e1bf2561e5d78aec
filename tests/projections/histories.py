"""Random histories: sequences of intents over few names, so that they meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec import Struct

from api.node import Node
from eventlog.kinds import DecayPolicy, RecallUse, Value
from projections.cid import compute_cid
from projections.intents import (
    AssertFact,
    DeclareSetValued,
    Done,
    Intent,
    ResolveConflict,
    RetractFact,
    SetSourceTrust,
    SweepDecay,
    TrackRecalls,
)
from projections.normalization import SCOPES

ALL_SCOPES = frozenset(SCOPES)
DAY_US = 86_400_000_000
START_US = 1_700_000_000_000_000

ENTITIES = ("stigmem://t/user/a", "stigmem://t/user/b", "user:c")
RELATIONS = ("memory:role", "tag:x", "rel:knows")
SOURCES = ("agent:one", "agent:two")
VALUES = (
    Value("string", "A"),
    Value("string", "B"),
    Value("string", "retracted"),
    Value("ref", "stigmem://t/user/a"),
    Value("number", "42.0"),
)
BOUNDS = (None, "2023-11-20T00:00:00Z", "2023-12-20T00:00:00Z")


class Step(Struct, frozen=True):
    """One move of a history: what to do, and at which instant. ``pick`` chooses among what
    is there then (facts, conflicts)."""

    kind: str
    at_us: int
    pick: int
    intent: Any = None


def asserted(
    entity: str = ENTITIES[0],
    relation: str = RELATIONS[0],
    value: Value = VALUES[0],
    source: str = SOURCES[0],
    scope: str = "local",
    confidence: float = 1.0,
    valid_from: str | None = None,
    valid_until: str | None = None,
) -> AssertFact:
    """An assertion with its content id."""
    return AssertFact(
        entity=entity,
        relation=relation,
        value=value,
        source=source,
        scope=scope,
        confidence=confidence,
        valid_from=valid_from,
        valid_until=valid_until,
        cid=compute_cid(
            entity=entity,
            relation=relation,
            value=value,
            source=source,
            confidence=confidence,
            scope=scope,
        ),
    )


HALF_LIFE = DecayPolicy(id="half", mode="confidence", half_life_s=86_400.0, min_confidence=0.1)

_policies = st.sampled_from(
    [
        HALF_LIFE,
        DecayPolicy(id="tags", relation="tag:*", mode="confidence", half_life_s=3_600.0),
        DecayPolicy(id="ttl", mode="retract", ttl_s=2 * 86_400.0),
        DecayPolicy(id="floor", scope="local", mode="retract", min_confidence=0.6),
    ]
)
_facts = st.builds(
    asserted,
    entity=st.sampled_from(ENTITIES),
    relation=st.sampled_from(RELATIONS),
    value=st.sampled_from(VALUES),
    source=st.sampled_from(SOURCES),
    scope=st.sampled_from(("local", "company")),
    confidence=st.sampled_from((1.0, 1.0, 0.9, 0.5, 0.0)),
    valid_from=st.sampled_from((None, None, BOUNDS[1])),
    valid_until=st.sampled_from((None, None, BOUNDS[2])),
)
_sweeps = st.builds(
    SweepDecay,
    scopes=st.sampled_from([("local",), ("company",), ("local", "company")]),
    policies=st.lists(_policies, min_size=1, max_size=2, unique_by=lambda p: p.id).map(tuple),
)
_moves = st.one_of(
    _facts.map(lambda intent: ("assert", intent)),
    _facts.map(lambda intent: ("assert", intent)),
    _facts.map(lambda intent: ("assert", intent)),
    st.just(("retract", None)),
    st.just(("resolve", None)),
    st.just(("recall", None)),
    _sweeps.map(lambda intent: ("do", intent)),
    st.sampled_from([(), ("tag:*",), ("tag:*", "memory:role")]).map(
        lambda patterns: ("do", DeclareSetValued(relations=patterns))
    ),
    st.builds(
        SetSourceTrust, source=st.sampled_from(SOURCES), trust=st.sampled_from((0.1, 0.5, 1.0))
    ).map(lambda intent: ("do", intent)),
)


@st.composite
def histories(draw: st.DrawFn, max_size: int = 25) -> list[Step]:
    """Moves at instants that never go back."""
    at_us = START_US
    steps: list[Step] = []
    for kind, intent in draw(st.lists(_moves, min_size=1, max_size=max_size)):
        at_us += draw(st.sampled_from((0, 1_000, 3_600_000_000, DAY_US)))
        steps.append(Step(kind, at_us, draw(st.integers(0, 1_000)), intent))
    return steps


def intent_at(step: Step, node: Node) -> Intent | None:
    """The intent of a step in the state that the node is in."""
    if step.intent is not None:
        return step.intent
    facts = sorted(node.reader.mirror.slot_of)
    if step.kind == "resolve":
        with node.reader.pool.connection() as db:
            rows = db.execute(
                "SELECT conflict_id, fact_id FROM conflicts WHERE to_position > 1000000"
                " ORDER BY conflict_id"
            ).fetchall()
        if not rows:
            return None
        conflict, fact = rows[step.pick % len(rows)]
        return ResolveConflict(
            conflict_id=str(conflict),
            winning_fact_id=str(fact),
            source="agent:judge",
            scopes=ALL_SCOPES,
        )
    if not facts:
        return None
    fact = facts[step.pick % len(facts)]
    if step.kind == "retract":
        return RetractFact(fact_id=fact, scopes=ALL_SCOPES)
    return TrackRecalls(uses=(RecallUse(fact, 1 + step.pick % 3, step.at_us),))


def live_through(node: Node, steps: list[Step]) -> list[Done]:
    """Carry out a history, one command a step."""
    done: list[Done] = []
    for step in steps:
        intent = intent_at(step, node)
        if intent is None:
            continue
        answer = node.writer.submit([intent], actor="agent:t", received_at=step.at_us).result()
        done += [outcome for outcome in answer.outcomes if isinstance(outcome, Done)]
    assert node.status()["degraded"] is None
    return done
