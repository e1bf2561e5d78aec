"""An exported and imported log keeps its meaning: lives of all kinds, written and read back."""

import asyncio
import json
import re
import tempfile
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engramlog.api.node.consolidator import Consolidator
from engramlog.api.node.node import Node
from engramlog.api.node.tasks.consolidation_schedule import ConsolidationScheduler
from engramlog.api.transfer import export_memory
from engramlog.api.transfer.exporting import COUNTED, export_lines
from engramlog.api.transfer.importing import Importer, ImportStopped, Options
from engramlog.api.transfer.lines.line_kinds import OPERATIONS, decode_line
from engramlog.api.transfer.sinks import NodeSink
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import (
    KINDS,
    SCHEMA_VERSIONS,
    AliasSet,
    ConsolidationRuleSet,
    FactFeedback,
    LegalHoldSet,
    TrustPolicy,
    TrustPolicySet,
)
from engramlog.projections.episodes.rule import parse_rule
from engramlog.projections.tables.database import query
from engramlog.projections.writing.commands import EraseFacts
from engramlog.projections.writing.memory_commands import RecordEpisodes
from tests.worlds.histories import START_US, Step, histories, live_through
from tests.worlds.live import LiveNode
from tests.worlds.memory_histories import episode, said
from tests.worlds.memory_requests import apply, delta
from tests.worlds.portable import exported, meaning, read_back
from tests.worlds.private_steps import Step as Move
from tests.worlds.private_steps import histories as private_histories
from tests.worlds.private_worlds import Life
from tests.worlds.processes import ROOT

QUICK = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
EVERY_TWO = {"id": "classifier", "cadence": {"every": 2}}
TRAVELS = {kind: shape.line for kind, shape in KINDS.items() if shape.line}
"""Kinds that become lines, and which."""


def test_every_kind_of_event_travels_or_is_counted() -> None:
    assert set(TRAVELS.values()) == set(OPERATIONS)
    assert not TRAVELS.keys() & COUNTED.keys()
    page = (ROOT / "docs" / "log.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for kind in SCHEMA_VERSIONS:
        (row,) = (row for row in rows if f"`{kind}`" in row.split("|")[1])
        said = row.split("|")[4].strip()
        assert said.startswith(f"`{TRAVELS[kind]}`" if kind in TRAVELS else "no: "), kind


@given(histories(max_size=25), st.booleans())
@QUICK
def test_a_life_with_memories_comes_back_as_it_was(steps: list[Step], erasing: bool) -> None:
    """Also after erasures, except for deltas and summaries of erased facts: the import omits them,
    while the erasing node keeps their outlines. The import also sets no fact aside for an erased
    winner."""
    outlines = {"deltas", "delta_sources", "memory_facts", "summaries", "summary_paragraphs"}
    if not erasing:
        steps = [step for step in steps if step.kind != "erase"]
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "first", clock=FixedClock(START_US))
        live_through(node, steps)
        lines, before = exported(node), meaning(node)
        node.close()
        with read_back(lines, Path(folder) / "copy") as (copy, report):
            assert report.failed == 0
            after = meaning(copy)
            again = exported(copy)
    if erasing:
        before["facts"], after["facts"] = (
            sorted(re.sub(r'"set_aside": [^,]*, ', "", row) for row in each["facts"])
            for each in (before, after)
        )
    for table in before.keys() - (outlines if erasing else set()):
        assert after[table] == before[table], table
    assert len(again) == len(lines) or erasing


@given(private_histories(max_size=15))
@QUICK
def test_a_life_in_gardens_comes_back_as_it_was(moves: list[Move]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder) / "first", private=True)
        for move in moves:
            life.take(move, 0)
        lines, before = exported(life.node), meaning(life.node)
        life.close()
        with read_back(lines, Path(folder) / "copy") as (copy, report):
            assert report.failed == 0
            after = meaning(copy)
    for table, rows in before.items():
        assert after[table] == rows, table


def hear(node: Node, first: int, said: list[tuple[Any, ...]]) -> None:
    """Record episodes, and run the due rules."""
    episodes = tuple(episode(first + number, each) for number, each in enumerate(said))
    if episodes:
        intent = RecordEpisodes(episodes=episodes)
        node.writer.submit([intent], actor="agent:t", received_at=START_US + first).result()
    asyncio.run(ConsolidationScheduler(node, Consolidator(node)).tick())


@given(st.lists(said, min_size=1, max_size=7), st.lists(said, max_size=5))
@QUICK
def test_a_cadence_continues_where_it_was(
    said: list[tuple[Any, ...]], more: list[tuple[Any, ...]]
) -> None:
    """Consolidated episodes are not consolidated again; later episodes have the same outcome in
    both."""
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "first", clock=FixedClock(START_US))
        rule = parse_rule(EVERY_TWO)
        node.write(ConsolidationRuleSet(rule_id=rule.id, document=rule.document()))
        hear(node, 0, said)
        with read_back(exported(node), Path(folder) / "copy") as (copy, _):
            copied = copy.log.head().position
            asyncio.run(ConsolidationScheduler(copy, Consolidator(copy)).tick())
            assert copy.log.head().position == copied
            assert meaning(copy) == meaning(node)
            reports: list[Any] = []
            for each in (node, copy):
                hear(each, len(said), more)
                made = asyncio.run(Consolidator(each).run(rule, from_position=1))
                reports.append((made.episodes, made.applied, made.known, made.rejected))
            assert reports[0] == reports[1]
            known = ("memory_facts", "delta_rejections", "quarantined_episodes", "deltas")
            one, other = meaning(node), meaning(copy)
            node.close()
    for table in known:
        assert len(one[table]) == len(other[table]), table
    assert said_of(one) == said_of(other)


def said_of(tables: dict[str, list[Any]]) -> list[tuple[str, ...]]:
    """The deltas' content and lineage."""
    rows = [json.loads(row) for row in tables["deltas"]]
    kept = ("delta_id", "kind", "user", "sources", "fact_id", "retracted", "name", "lineage")
    return [tuple(str(row[name]) for name in kept) for row in rows]


def test_statements_and_declarations_come_back(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "first", clock=FixedClock(START_US))
    sink = NodeSink(node, 262_144)
    told = [{"entity": "user:ann", "relation": "role", "value": {"type": "string", "v": "CTO"},
             "source": "agent:hr", "key": "a"}]  # fmt: skip
    Importer(sink, Options(), decode_line).run(iter(json.dumps(each).encode() for each in told))
    (fact,) = node.reader.image.facts.slot_of
    for intent in (
        AliasSet(raw_uri="user:annie", canonical_uri="user:ann"),
        AliasSet(raw_uri="user:a", canonical_uri="user:ann", alias_kind="migration"),
        AliasSet(raw_uri="user:a", alias_kind="migration"),
        TrustPolicySet(policy=TrustPolicy(mode="strict", hidden_below=0.1)),
        FactFeedback(cited=[fact]),
        FactFeedback(cited=[fact], rejected=[fact], receipt_id="r-1"),
        LegalHoldSet(target_kind="fact", target=fact, reason="a lawsuit"),
        LegalHoldSet(target_kind="entity", target="user:bo", reason="another"),
        LegalHoldSet(target_kind="entity", target="user:bo", held=False),
    ):
        node.write(intent)
    lines, before = exported(node), meaning(node)
    node.close()
    assert b"r-1" not in b"".join(lines)  # a receipt is the old node's
    with read_back(lines, tmp_path / "copy") as (copy, report):
        assert report.failed == 0
        after = meaning(copy)
    told_of = [row.replace('"r-1"', "null") for row in before["fact_feedback"]]
    before["fact_feedback"] = sorted(told_of)
    assert len(before["fact_feedback"]) == 2
    assert after == before


def test_a_rejection_names_the_facts_of_the_copy(tmp_path: Path) -> None:
    """Who may not read these must not see the rejection, there as here."""
    live = LiveNode(tmp_path / "first")
    apply(live, delta("add", id="a", object="tea"))
    apply(live, delta("add", id="b", object="milk"), single_valued=["drinks"], strict=False)
    (fact,) = live.node.reader.image.facts.slot_of
    lines = exported(live.node)
    live.close()
    assert any(b'"op":"rejected"' in line and fact.encode() in line for line in lines)
    with read_back(lines, tmp_path / "copy") as (copy, _):
        (now,) = copy.reader.image.facts.slot_of
        ((message,),) = copy.reader.ask(query, "SELECT message FROM delta_rejections")
    assert now != fact
    assert now in str(message)


def test_erased_facts_do_not_travel(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "first", clock=FixedClock(START_US))
    secret = ("Alice", None, "self", "a secret word", 0)
    hear(node, 0, [secret, ("Alice", None, "boss", "B", 0)])
    rule = parse_rule(EVERY_TWO)
    node.write(ConsolidationRuleSet(rule_id=rule.id, document=rule.document()))
    hear(node, 2, [])
    fact = next(iter(node.reader.image.facts.slot_of))
    node.write(EraseFacts(erasure_id="e-1", fact_ids=(fact,), episodes=True))
    lines = exported(node)
    node.close()
    assert b"secret" not in b"".join(lines)
    with read_back(lines, tmp_path / "copy") as (copy, report):
        assert report.failed == 0
        assert len(meaning(copy)["memory_facts"]) == 1


EPISODE = {"op": "episode", "key": "e", "user": "ann", "session": "s", "agent": "rag",
           "content": "hello", "timestamp": "2026-01-01T00:00:00Z", "id": "ep-1"}  # fmt: skip
DELTA = {"delta_id": "d-1", "kind": "add", "user": "ann", "agent": "rag", "rule_id": "r",
         "source_episode_ids": ["ep-1"], "promotion_ts": "2026-01-01T00:00:00Z",
         "fact": "f"}  # fmt: skip
FACT = {"op": "assert", "key": "f", "entity": "user:ann", "relation": "role",
        "value": {"type": "string", "v": "CTO"}, "source": "agent:hr"}  # fmt: skip
DEEP: dict[str, Any] = reduce(lambda inner, _: {"x": inner}, range(200), {})
DELTAS = {"op": "deltas", "deltas": [DELTA], "then": [FACT]}
RUN = {"op": "run", "rule_id": "r", "run_id": "run", "at": "2026-01-01T00:00:00Z"}
RULE = {"op": "rule", "rule_id": "r", "document": {"cadence": {"every": 2}}}


@pytest.mark.parametrize(
    ("line", "field", "message"),
    [
        ({**EPISODE, "key": "x", "user": ""}, "user", "must not be empty"),
        ({**EPISODE, "key": "x", "timestamp": "noon"}, "timestamp", "must be an RFC 3339"),
        ({**EPISODE, "key": "x", "step": -1}, "step", "greater than or equal to 0"),
        ({**EPISODE, "key": "x", "metadata": [1]}, "metadata", "Expected `object`"),
        ({**EPISODE, "key": "x", "metadata": DEEP}, "has over 128 levels", ""),
        ({**EPISODE, "key": "x", "content": "other"}, "episodes.0.id", "recorded already"),
        ({**EPISODE, "id": "ep-2"}, "key", "is the key of an earlier line"),
        ({**EPISODE, "key": "x", "id": "y", "garden_id": "no"}, "garden_id", "no garden"),
        ({**DELTAS, "deltas": []}, "deltas", "must have 1 to"),
        ({**DELTAS, "deltas": [{**DELTA, "confidence": 2}]}, "deltas.0.confidence", "from 0 to 1"),
        ({**DELTAS, "deltas": [{**DELTA, "kind": "change"}]}, "deltas[0].kind", "must be one of"),
        ({**DELTAS, "deltas": [{**DELTA, "promotion_ts": "x"}]}, "deltas.0.promotion_ts", "RFC"),
        ({**DELTAS, "deltas": [{**DELTA, "fact": "g"}]}, "deltas.0.fact", "earlier"),
        ({**DELTAS, "deltas": [{**DELTA, "source_episode_ids": []}]},
         "deltas.0.source_episode_ids", "must have 1 to"),
        ({**DELTAS, "deltas": [{**DELTA, "retracted": ["g"]}]}, "deltas.0.retracted", "the key"),
        ({**DELTAS, "then": [{**FACT, "confidence": 0}]}, "then.0.confidence", "must be above 0"),
        ({**DELTAS, "then": [{**FACT, "scope": "team"}]}, "then.0.scope", "must equal the line"),
        ({**DELTAS, "then": [FACT, {**FACT, "key": "g"}]}, "then", "that no delta names"),
        ({**DELTAS, "then": [{**FACT, "derived_from": ["g"]}]}, "then.0.derived_from", "the key"),
        ({**DELTAS, "then": [FACT, {"op": "retract", "target": "g"}]}, "then.1.target", "the key"),
        ({**RUN, "through": "x"}, "through", "is not the key of an earlier line"),
        ({**RUN, "after": "e", "through": None}, "through", "must not be before after"),
        ({**RUN, "episodes": -1}, "episodes", "must not be negative"),
        ({**RULE, "document": {"cadence": "often"}}, "document.cadence", ""),
        ({**RULE, "document": {"cadence": {"every": 1}, "id": "s"}}, "document.id", "the rule_id"),
        ({"op": "alias", "name": "", "entity": "user:x"}, "name", "must not be empty"),
        ({"op": "policy", "trust": {"hidden_below": 3}}, "trust.hidden_below", "less than or"),
        ({"op": "profile", "name": "p", "document": {"stages": 1}}, "document.", ""),
        ({"op": "hold"}, "target", "exactly one of target, id and entity"),
        ({"op": "feedback", "cited": ["g"]}, "cited", "not the key of an earlier line"),
        ({"op": "recalled", "uses": [{"fact": "g", "count": 1, "last": "2026-01-01T00:00:00Z"}]},
         "uses.0.fact", "the key"),
        ({"op": "recalled", "uses": [{"fact": "g", "count": 1, "last": "x"}]}, "uses.0.last",
         "must be an RFC 3339"),
        ({"op": "review", "decision": "keep"}, "target", "needs either target or id"),
        ({"op": "judged", "target": "g", "garden": "x", "decision": "rejected"}, "target",
         "the key"),
        ({"op": "summary", "name": "x.md", "owner": "agent:a"}, "name", "not the name"),
        ({"op": "look", "episodes": ["e"], "at": "x"}, "at", "must be an RFC 3339"),
    ],
)  # fmt: skip
def test_an_invalid_line_is_refused_by_its_field(
    tmp_path: Path, line: dict[str, Any], field: str, message: str
) -> None:
    node = Node.open(tmp_path / "node")
    try:
        before = node.log.head().position
        lines = [json.dumps(each).encode() for each in (EPISODE, line, DELTAS)]
        importer = Importer(NodeSink(node, 262_144), Options(), decode_line)
        with pytest.raises(ImportStopped) as stopped:
            importer.run(iter(lines))
        text = str(stopped.value)
        assert text.startswith(f"line 2: {field}"), text
        assert message in text
        assert "lines 1 to 1 are in the log" in text
        assert node.log.head().position == before + 1
        # And with it left out, the rest goes in.
        report = Importer(NodeSink(node, 262_144), Options(on_error="skip"), decode_line).run(
            iter(lines)
        )
        assert (report.failed, report.counts) == (1, {"existing": 1, "applied": 1})
        assert len(meaning(node)["memory_facts"]) == 1
    finally:
        node.close()


@given(histories(max_size=20), st.data())
@QUICK
def test_an_import_continues_from_any_line(steps: list[Step], data: st.DataObject) -> None:
    """Also between an episode's outcomes and the lines that refer to them."""
    with tempfile.TemporaryDirectory() as folder:
        node = Node.open(Path(folder) / "first", clock=FixedClock(START_US))
        live_through(node, steps)
        lines = exported(node)
        node.close()
        done = data.draw(st.integers(0, len(lines)))
        with read_back(lines, Path(folder) / "whole") as (whole, _):
            wanted = meaning(whole)
        clock, got = FixedClock(START_US), wanted
        for number, some in enumerate((lines[:done], lines)):
            half = Node.open(
                Path(folder) / "half", clock=clock, epoch_clock="wall" if number else "file"
            )
            options = Options(file_clock=True, skip=number * done)
            report = Importer(
                NodeSink(half, 262_144, clock=clock), options, decode_line
            ).run(iter(some))  # fmt: skip
            assert report.failed == 0
            got = meaning(half)
            half.close()
    for table, rows in wanted.items():
        assert got[table] == rows, table


def test_a_long_batch_becomes_several_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with the facts that its deltas name, and nothing lost between them."""
    node = Node.open(tmp_path / "first", clock=FixedClock(START_US))
    rule = parse_rule({"id": "classifier", "cadence": {"every": 4}})
    node.write(ConsolidationRuleSet(rule_id=rule.id, document=rule.document()))
    hear(node, 0, [("Alice", None, "self", word, 0) for word in "ABCD"])
    whole, before = exported(node), meaning(node)
    monkeypatch.setattr(export_memory, "LINE_CHARACTERS", 0)
    lines = exported(node)
    node.close()
    made = [json.loads(line) for line in lines if b'"op":"deltas"' in line]
    assert [len(line["deltas"]) for line in made] == [1, 1, 1, 1]
    assert len(lines) == len(whole) + 3
    with read_back(lines, tmp_path / "copy") as (copy, report):
        assert report.failed == 0
        after = meaning(copy)
    for table in ("facts", "memory_facts", "conflicts", "fact_retractions", "consolidation_runs"):
        assert after[table] == before[table], table
    assert sorted(said_of(after)) == sorted(said_of(before))


def test_the_same_file_twice_changes_nothing(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "first", clock=FixedClock(START_US))
    rule = parse_rule(EVERY_TWO)
    node.write(ConsolidationRuleSet(rule_id=rule.id, document=rule.document()))
    hear(node, 0, [("Alice", None, "self", word, 0) for word in "ABAB"])
    lines = exported(node)
    node.close()
    with read_back(lines, tmp_path / "copy") as (copy, first):
        assert first.counts["applied"] == 2
        again = Importer(NodeSink(copy, 262_144), Options(), decode_line).run(iter(lines))
        assert again.failed == 0
        assert again.counts["existing"] == 4 + 2
        assert len(list(export_lines(copy.log))) == len(lines) + again.counts["declared"] - 1
