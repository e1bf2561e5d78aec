"""Random histories: sequences of commands over few names, so that the commands interact."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from msgspec import Struct

from engramlog.api.node.node import Node
from engramlog.api.node.node_status import status_of_node
from engramlog.eventlog.kinds import (
    ConsolidationRan,
    ConsolidationRuleSet,
    DecayPolicy,
    EpisodeRecorded,
    FactAttributes,
    PolicySet,
    RecallServed,
    RecallUse,
    SetAsideEpisode,
    SetValuedDeclared,
    SourceTrustSet,
    TrustPolicy,
    TrustPolicySet,
    Value,
)
from engramlog.projections.authorization import everything
from engramlog.projections.contradictions.conflicts import conflicts
from engramlog.projections.episodes.delta import (
    AddDelta,
    DeleteDelta,
    MemoryDelta,
    NoopDelta,
    Proposal,
    UpdateDelta,
    stated_id,
)
from engramlog.projections.memories.attribute_rules import PLAIN
from engramlog.projections.memories.deduplication_rules import MEMORY_RELATION
from engramlog.projections.memories.place import MemoryPlace
from engramlog.projections.moment import LIVE, Moment
from engramlog.projections.normalization import SCOPES
from engramlog.projections.writing.commands import (
    AssertFact,
    Command,
    Done,
    EraseFacts,
    ResolveConflict,
    RetractFact,
    RetractMatching,
    SweepDecay,
)
from engramlog.projections.writing.memory_commands import (
    ApplyDeltas,
    Consolidate,
    MergeMemories,
    RecordEpisodes,
    RecordSummary,
    StoreMemory,
)
from engramlog.projections.writing.submission import Submission
from tests.worlds.stated_facts import stated, stating

ALL_SCOPES = frozenset(SCOPES)
DAY_US = 86_400_000_000
START_US = 1_700_000_000_000_000

ENTITIES = ("stigmem://t/user/a", "stigmem://t/user/b", "user:c")
RELATIONS = ("memory:role", "tag:x", "rel:knows")
SOURCES = ("agent:one", "agent:two", "agent:three")
VALUES = (
    Value("string", "A"),
    Value("string", "B"),
    Value("string", "retracted"),
    Value("ref", "stigmem://t/user/a"),
    Value("number", "42.0"),
)
BOUNDS = (None, "2023-11-20T00:00:00Z", "2023-12-20T00:00:00Z")


class Step(Struct, frozen=True):
    """One move of a history: the action and its instant. ``pick`` selects among existing facts or
    conflicts."""

    kind: str
    at_us: int
    pick: int
    command: Any = None


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
    return stating(
        entity=entity,
        relation=relation,
        value=value,
        source=source,
        scope=scope,
        confidence=confidence,
        valid_from=valid_from,
        valid_until=valid_until,
    )


TEXTS = (
    "one drinks black tea at work",
    "one no longer drinks black tea",
    "one actually drinks coffee at work",
)
"""Of memories: the last two mark a change."""


def remembered(text: str, source: str, topic: str, *, supersede: bool) -> StoreMemory:
    """A memory to store, with the rights to everything."""
    fact = asserted(source, MEMORY_RELATION, Value("text", text), source)
    given = FactAttributes(topic=topic)
    attributes = None if given == PLAIN else given  # as HTTP completes them
    return StoreMemory(
        assertion=stated(fact, attributes=attributes),
        rights=everything(),
        supersede=supersede,
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
_relations = st.sampled_from((*RELATIONS, RELATIONS[0], RELATIONS[0]))
_facts = st.builds(
    asserted,
    entity=st.sampled_from((*ENTITIES, ENTITIES[0], ENTITIES[0])),
    relation=_relations,
    value=st.sampled_from((*VALUES, *VALUES[:2])),
    source=st.sampled_from(SOURCES),
    scope=st.sampled_from(("local", "local", "company")),
    confidence=st.sampled_from((1.0, 1.0, 1.0, 0.9, 0.5, 0.0)),
    valid_from=st.sampled_from((None, None, None, BOUNDS[1])),
    valid_until=st.sampled_from((None, None, None, BOUNDS[2])),
)
_disputed = st.builds(
    asserted,
    relation=st.sampled_from((RELATIONS[0], RELATIONS[0], RELATIONS[1])),
    value=st.sampled_from((VALUES[0], VALUES[1], VALUES[4])),
    source=st.sampled_from(SOURCES),
    confidence=st.sampled_from((1.0, 0.9)),
    valid_until=st.sampled_from((None, None, None, None, BOUNDS[2])),
)
"""Facts of one entity that mostly contradict each other."""
_matching = st.builds(
    RetractMatching,
    entity=st.just(ENTITIES[0]),
    relation=_relations,
    value=st.sampled_from(VALUES[:2]),
    scope=st.just("local"),
    source=st.sampled_from((None, *SOURCES)),
)
_sweeps = st.builds(
    SweepDecay,
    scopes=st.sampled_from([("local",), ("company",), ("local", "company")]),
    policies=st.lists(_policies, min_size=1, max_size=2, unique_by=lambda p: p.id).map(tuple),
)
_moves = st.one_of(
    _facts.map(lambda command: ("assert", command)),
    _facts.map(lambda command: ("assert", command)),
    _disputed.map(lambda command: ("assert", command)),
    _disputed.map(lambda command: ("assert", command)),
    st.sampled_from(("retract", "resolve", "recall")).map(lambda kind: (kind, None)),
    st.sampled_from(("retract", "resolve")).map(lambda kind: (kind, None)),
    _matching.map(lambda command: ("do", command)),
    st.builds(PolicySet, policy_id=st.just("half"), policy=st.sampled_from((None, HALF_LIFE))).map(
        lambda command: ("do", command)
    ),
    _sweeps.map(lambda command: ("do", command)),
    st.sampled_from([(), ("tag:*",), ("tag:*", "memory:role")]).map(
        lambda patterns: ("do", SetValuedDeclared(relations=list(patterns)))
    ),
    st.builds(
        SourceTrustSet, source=st.sampled_from(SOURCES), trust=st.sampled_from((0.1, 0.5, 1.0))
    ).map(lambda command: ("do", command)),
    st.sampled_from(("relaxed", "off")).map(
        lambda mode: ("do", TrustPolicySet(policy=TrustPolicy(mode=mode)))  # pyright: ignore[reportArgumentType]
    ),
)


USERS = ("Alice", "alice")
NAMES = ("ep-0", "ep-1", "ep-2")
"""Of episodes and of the facts that deltas write."""
_episodes = st.builds(
    lambda user, name, value, at: RecordEpisodes(
        episodes=(
            EpisodeRecorded(
                scope="local",
                user=user,
                session="s",
                agent="rag",
                content=f"{value} of {name}",
                at_us=at,
                id=name,
                metadata={"subject": "self", "predicate": "memory:role", "object": value},
            ),
        ),
    ),
    st.sampled_from(USERS),
    st.sampled_from((*NAMES, None, None)),
    st.sampled_from(("A", "B")),
    st.sampled_from((START_US, START_US - DAY_US)),
)


@st.composite
def _deltas(draw: st.DrawFn) -> ApplyDeltas:
    """Up to three deltas of one batch, whose names meet."""
    proposals: list[Proposal] = []
    for kind in draw(st.lists(st.sampled_from(("add", "add", "update", "delete", "noop")),
                              min_size=1, max_size=3)):  # fmt: skip
        place = MemoryPlace(draw(st.sampled_from(USERS)), "rag", "local")
        name, value = draw(st.sampled_from(NAMES)), draw(st.sampled_from(("A", "B")))
        payload = {"id": name, "subject": "self", "predicate": "memory:role", "object": value}
        replaces = [draw(st.sampled_from(NAMES))]
        origin: dict[str, Any] = {
            "source_episode_ids": [draw(st.sampled_from(NAMES))],
            "promotion_us": START_US + draw(st.integers(0, 3)),
            "rule_id": "by-hand",
            "confidence": draw(st.sampled_from((1.0, 0.5))),
        }
        delta: MemoryDelta = NoopDelta(**origin)
        if kind == "add":
            delta = AddDelta(fact_payload=payload, **origin)
        elif kind == "update":
            delta = UpdateDelta(fact_payload=payload, replaces=replaces, **origin)
        elif kind == "delete":
            delta = DeleteDelta(replaces=replaces, **origin)
        proposals.append(Proposal(delta, place, stated_id(delta, place), SOURCES[0]))
    strict = draw(st.booleans())
    return ApplyDeltas(scope="local", proposals=tuple(proposals), strict=strict, run_id="run-1")


_rules = st.builds(
    lambda every: ConsolidationRuleSet(
        rule_id="classifier",
        document=None if every is None else {"id": "classifier", "cadence": {"every": every}},
    ),
    st.sampled_from((1, 2, None)),
)


@st.composite
def _runs(draw: st.DrawFn) -> Consolidate:
    """A run that may come too late."""
    expected = draw(st.sampled_from((0, 0, 7)))
    run = ConsolidationRan(
        rule_id="classifier",
        run_id="run-2",
        from_position=expected,
        to_position=expected + draw(st.integers(0, 9)),
        at_us=START_US,
        replay=draw(st.booleans()),
        quarantined=[SetAsideEpisode("no-such-key", "told by the test")],
    )
    return Consolidate(apply=draw(_deltas()), run=run, expected=expected)


_summaries = st.builds(
    RecordSummary,
    name=st.sampled_from(("daily/daily_2026-06-15.md", "weekly/weekly_2026-W25.md")),
    text=st.one_of(
        st.none(),
        st.lists(st.sampled_from(("one", "two", "three")), max_size=4).map("\n\n".join),
    ),
    owner=st.sampled_from(SOURCES),
    scope=st.just("local"),
)

_stores = st.builds(
    remembered,
    st.sampled_from(TEXTS),
    st.sampled_from(SOURCES[:2]),
    st.sampled_from(("work", "general")),
    supersede=st.sampled_from((True, True, False)),
)
_memories = st.one_of(
    st.one_of(_episodes, _deltas(), _deltas(), _rules, _runs(), _summaries, _stores, _stores).map(
        lambda command: ("do", command)
    ),
    st.just(("merge", None)),
)


_erasures = st.just(("erase", None))


@st.composite
def histories(
    draw: st.DrawFn, max_size: int = 20, *, memory: bool = True, erasing: bool = True
) -> list[Step]:
    """Moves at instants that never go back, in a world with disputes; with ``memory``, also
    episodes and deltas; with ``erasing``, also erasures."""
    at_us = START_US
    opening = draw(st.lists(_disputed, min_size=3, max_size=8))
    steps = [Step("assert", at_us, 0, command) for command in opening]
    moves = st.one_of(_moves, _moves, _memories) if memory else _moves
    moves = st.one_of(moves, moves, _erasures) if erasing else moves
    for kind, command in draw(st.lists(moves, min_size=1, max_size=max_size)):
        at_us += draw(st.sampled_from((0, 1_000, 3_600_000_000, DAY_US)))
        steps.append(Step(kind, at_us, draw(st.integers(0, 1_000)), command))
    return steps


def intent_at(step: Step, node: Node) -> Command | None:
    """The command of a step in the node's present state."""
    if step.command is not None:
        return step.command
    facts = list(node.reader.image.facts.slot_of)  # oldest first: the same in every run
    if step.kind == "resolve":
        return _settlement(step, node)
    if not facts:
        return None
    fact = facts[step.pick % len(facts)]
    if step.kind == "erase":
        return erasure(step, fact)
    if step.kind == "retract":
        return RetractFact(fact_id=fact)
    if step.kind == "merge":
        return MergeMemories(fact_ids=(fact, _alike(node, fact)), rights=everything())
    uses = (fact, facts[0], fact)[: 1 + step.pick % 3]
    return RecallServed(uses=[RecallUse(use, 2, step.at_us) for use in uses])


def _alike(node: Node, fact: str) -> str:
    """The newest other fact of the same source and scope; else the fact itself."""
    view = node.reader.pin()
    slot = node.reader.image.facts.slot_of[fact]
    same = (view.source == view.source[slot]) & (view.scope == view.scope[slot])
    same[slot] = False
    others = frozenset(np.flatnonzero(same & (view.to_position == LIVE)).tolist())
    names = node.reader.image.facts.slot_of.items()
    return next((name for name, at in reversed([*names]) if at in others), fact)


def erasure(step: Step, fact: str) -> EraseFacts:
    """Erase a fact, or sometimes everything about an entity."""
    name = f"{step.at_us}-{step.pick}"
    if step.pick % 7 == 0:
        return EraseFacts(erasure_id=name, entity=ENTITIES[step.pick % len(ENTITIES)])
    return EraseFacts(
        erasure_id=name,
        fact_ids=(fact,),
        derived=step.pick % 2 == 0,
        episodes=step.pick % 3 == 0,
    )


def _settlement(step: Step, node: Node) -> Command | None:
    """Settle one of the visible conflicts, in favour of either side or of neither."""
    view = node.reader.pin()
    moment = Moment(view.position, step.at_us)
    shown = list(conflicts(node.reader, view, everything(), moment, status="unresolved"))
    if not shown:
        return None
    chosen = shown[step.pick % len(shown)]
    sides = [int(view.from_position[slot]) for slot in (chosen.newer, chosen.older)]
    winner = [*node.reader.rows(sides), None][step.pick // 7 % 3]
    return ResolveConflict(
        conflict_id=chosen.row.conflict_id,
        winning_fact_id=None if winner is None else winner.id,
        new_value=Value("string", "settled") if winner is None else None,
        source="agent:judge",
    )


def live_through(node: Node, steps: list[Step]) -> list[Done]:
    """Run a history, one command and one group per step."""
    done: list[Done] = []
    for step in steps:
        command = intent_at(step, node)
        if command is None:
            continue
        answer = node.writer.submit([command], actor="agent:t", received_at=step.at_us).result()
        done += [outcome for outcome in answer.outcomes if isinstance(outcome, Done)]
    assert status_of_node(node)["degraded"] is None
    return done


def live_through_in_groups(node: Node, steps: list[Step], sizes: list[int]) -> None:
    """Run a history in groups of these sizes, cyclically; the steps of one group select among what
    existed before it."""
    left, turn = list(steps), 0
    while left:
        size = sizes[turn % len(sizes)]
        taken, left, turn = left[:size], left[size:], turn + 1
        commands = [(intent_at(step, node), step.at_us) for step in taken]
        commands = [
            Submission([command], "agent:t", None, at_us, False)
            for command, at_us in commands
            if command
        ]
        node.writer.exclusive(lambda group=commands: node.writer._write(group)).result()
        for command in commands:
            command.answer.result(timeout=0)
    assert status_of_node(node)["degraded"] is None
