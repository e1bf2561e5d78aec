"""Laws of episodes, deltas and rules over random histories."""

import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.api.node.consolidator import Consolidator
from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import DeltaApplied, EpisodeRecorded, FactRetracted
from engramlog.projections.authorization import everything
from engramlog.projections.episodes import reading, reading_deltas
from engramlog.projections.episodes.reading_deltas import DeltaFilter
from engramlog.projections.episodes.rule import Rule, parse_rule
from engramlog.projections.writing.memory_commands import RecordEpisodes
from tests.worlds.histories import START_US, USERS, Step, histories, live_through
from tests.worlds.memory_histories import episode, said

RIGHTS = everything()


@given(histories())
def test_deltas_name_exactly_the_logged_changes(steps: list[Step]) -> None:
    """A delta caused every assertion and every retraction that it names."""
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "data", clock=FixedClock(START_US))
        live_through(node, steps)
        events = node.log.read(0, 10_000)
        node.close()
    made: dict[bytes, tuple[set[str], set[str]]] = {}

    for event in events:
        cause = event.header.causation_id
        if cause is None:
            continue
        stated, ended = made.setdefault(cause, (set(), set()))
        if event.kind == "fact_asserted":  # its payload may be erased since
            stated.add(id_text(event.event_id))
        elif isinstance(event.payload, FactRetracted):
            ended.update(event.payload.fact_ids)
    ever: set[str] = set()
    for event in events:
        if not isinstance(event.payload, DeltaApplied):
            continue
        stated, ended = made.get(event.event_id, (set(), set()))
        named = {delta.fact_id for delta in event.payload.deltas if delta.fact_id is not None}
        assert stated <= named
        assert named - stated <= ever  # an equal pin keeps the fact
        assert ended == {fact for delta in event.payload.deltas for fact in delta.retracted}
        ever |= named


# -- consolidation ------------------------------------------------------------------------


def outcome(node: Node) -> list[Any]:
    """The final facts, and every delta, without parts that differ between runs."""
    position = node.log.head().position
    with node.reader.pool.connection() as db:
        facts = [
            (user, each.name, each.subject, each.version, each.sources, each.delta_id)
            for user in USERS
            for each in reading_deltas.memory_facts_at(db, position, user=user)
        ]
        rows = reading_deltas.deltas_at(db, RIGHTS, position, DeltaFilter(), limit=1_000)
        rejected = reading_deltas.rejections_at(db, RIGHTS, position, DeltaFilter(), limit=1_000)
    kept = ("delta_id", "kind", "user", "sources", "replaces", "name", "payload")
    deltas = sorted([row[name] for name in kept] for row in rows)
    reasons = sorted((row["delta_id"], row["reason"]) for row in rejected)
    return [sorted(facts), deltas, reasons]


def consolidated(path: Path, said: Sequence[tuple[Any, ...]], sizes: Sequence[int]) -> list[Any]:
    """The outcome for episodes in batches of these sizes, with a pass after each."""
    node = Node.open(path, clock=FixedClock(START_US))
    rule: Rule = parse_rule({"id": "classifier", "cadence": {"every": 1}})
    episodes = [episode(number, each) for number, each in enumerate(said)]
    start, turn = 0, 0
    while start < len(episodes):
        size = sizes[turn % len(sizes)]
        batch = tuple(episodes[start : start + size])
        node.write(RecordEpisodes(episodes=batch), actor="agent:t")
        report = asyncio.run(Consolidator(node).run(rule))
        assert report.episodes == len(batch)
        start, turn = start + size, turn + 1
    again = asyncio.run(Consolidator(node).run(rule, from_position=1))
    result = outcome(node)
    assert (again.applied, again.episodes) == (0, len(episodes))
    node.close()
    return result


@given(
    st.lists(said, min_size=1, max_size=12),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_one_pass_or_many_make_the_same_of_episodes(
    said: list[tuple[Any, ...]], sizes: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = consolidated(Path(folder) / "one", said, [len(said)])
        many = consolidated(Path(folder) / "many", said, sizes)
    assert one == many


@given(st.lists(said, min_size=1, max_size=12))
def test_no_episode_is_lost(said: list[tuple[Any, ...]]) -> None:
    """Each is in a delta, was rejected, or is in quarantine."""
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "data", clock=FixedClock(START_US))
        episodes = tuple(episode(number, each) for number, each in enumerate(said))
        node.write(RecordEpisodes(episodes=episodes), actor="agent:t")
        rule = parse_rule({"id": "classifier", "cadence": {"every": 1}})
        report = asyncio.run(Consolidator(node).run(rule))
        with node.reader.pool.connection() as db:
            position = node.log.head().position
            applied = reading_deltas.deltas_at(db, RIGHTS, position, DeltaFilter(), limit=1_000)
            rejected = reading_deltas.rejections_at(
                db, RIGHTS, position, DeltaFilter(), limit=1_000
            )
            found = {each.id for each in reading.find_episodes(
                db, RIGHTS, position, [name.id or "" for name in episodes])}  # fmt: skip
        node.close()
    seen = [*applied, *rejected]
    sources = [name for row in seen for name in json.loads(row["sources"])]
    aside = [each["id"] for each in report.quarantined]
    assert sorted([*sources, *aside]) == sorted(found)
    assert len(found) == len(said)


@pytest.mark.parametrize("size", [1_000, 1_001, 2_000])
def test_passes_over_whole_chunks_note_no_empty_run(tmp_path: Path, size: int) -> None:
    node = Node.open(tmp_path / "data", clock=FixedClock(START_US))
    for start in range(0, size, 1_000):
        batch = tuple(
            EpisodeRecorded(
        scope="local",
                user="u", session="s", agent="a", content="x", at_us=n, id=f"ep-{n}",
                metadata={"intent": "noop"},
            )
            for n in range(start, min(size, start + 1_000))
        )  # fmt: skip
        node.write(RecordEpisodes(episodes=batch))
    rule = parse_rule({"id": "classifier", "cadence": {"every": 1}})
    recorded = node.log.head().position
    report = asyncio.run(Consolidator(node).run(rule))
    runs = [each for each in node.log.iterate(recorded) if each.kind == "consolidation_ran"]
    node.close()
    assert report.episodes == size
    assert len(runs) == -(-size // 1_000)
