"""Exports hold peers' events that have effect here, in any order of arrival."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from engramlog.api.node.consolidator import Consolidator
from engramlog.api.node.node import Node
from engramlog.api.transfer.exporting import export_lines
from engramlog.api.transfer.importing import Importer, Options
from engramlog.api.transfer.lines.line_kinds import decode_line
from engramlog.api.transfer.sinks import NodeSink
from engramlog.eventlog.kinds import EpisodeRecorded, FactRetracted, PeerGrants, Value
from engramlog.projections.episodes.rule import parse_rule
from engramlog.projections.writing.commands import AssertFact, Done, OwnShape
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decisions import DECISIONS
from engramlog.projections.writing.memory_commands import RecordEpisodes
from tests.worlds.federation.network import Link, Member
from tests.worlds.portable import exported, meaning, read_back
from tests.worlds.stated_facts import stating

GRANTS = PeerGrants(scopes=["company"])


def said(words: list[str]) -> RecordEpisodes:
    return RecordEpisodes(
        episodes=tuple(
            EpisodeRecorded(
                scope="company",
                user="mara", session="s", agent="rag", content=f"I live in {word}", at_us=number,
                id=f"ep-{word}", metadata={"subject": "self", "predicate": "lives_in",
                                           "object": word},
            )
            for number, word in enumerate(words)
        ),
    )  # fmt: skip


def stated(value: str) -> AssertFact:
    return stating(
        entity="user:bo", relation="role", value=Value("string", value),
        source="agent:hr", scope="company", confidence=1.0,
    )  # fmt: skip


def memories(node: Node) -> list[Any]:
    """Facts, and the deltas that made them, in this node's order."""
    tables = meaning(node)
    facts = [json.loads(row) for row in tables["facts"]]
    deltas = [json.loads(row) for row in tables["deltas"]]
    return [
        sorted((row["id"], row["entity"], row["value_v"], row["to_position"] == "live",
                row["derived_from"]) for row in facts),
        sorted((row["delta_id"], row["fact_id"] or "", row["retracted"], row["sources"])
               for row in deltas),
        sorted(json.loads(row)["name"] for row in tables["memory_facts"]),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_deltas_split_over_pages_are_exported_whole(tmp_path: Path, seed: int) -> None:
    """Pages of one to three events, and facts of this node's own in between."""
    a, b = Member(tmp_path, "a"), Member(tmp_path, "b")
    try:
        a.meet(b, GRANTS)
        b.meet(a, GRANTS)
        rule = parse_rule({"id": "classifier", "cadence": {"every": 1}, "scope": "company"})
        for words in (["Graz", "Wien"], ["Linz", "Wels", "Enns"]):
            a.submit([said(words)])
            asyncio.run(Consolidator(a.node).run(rule))
        link = Link(b, a, random.Random(seed))
        for number in range(40):
            try:
                b.pull(link, pages_max=1)
            except Exception:
                continue
            b.submit([stated(f"v{number}")])
        before = memories(b.node)
        assert len(before[1]) == 5
        lines = [line for _, line in export_lines(b.node.log)]
        with read_back(lines, tmp_path / "copy") as (copy, report):
            assert report.failed == 0
            assert memories(copy) == before
    finally:
        a.close()
        b.close()


class RetractAnything(OwnShape, frozen=True):
    """The end of any source's facts, as a node may put into its own stream."""

    fact: str


def retract_anything(intent: RetractAnything, context: Context) -> Decision:
    ended = FactRetracted(fact_ids=[intent.fact], reason="because I say so")
    return Decision([context.draft(ended, "scope/company")])


def test_a_peers_word_on_facts_of_others_counts_in_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DECISIONS, RetractAnything, retract_anything)
    a, b = Member(tmp_path, "a"), Member(tmp_path, "b")
    try:
        a.meet(b, GRANTS)
        b.meet(a, GRANTS)
        (mine,) = b.submit([stated("mine")]).outcomes
        assert isinstance(mine, Done)
        a.submit([RetractAnything(mine.fact_id or "")])
        b.pull(Link(b, a))
        assert memories(b.node)[0][0][3]
        lines = [line for _, line in export_lines(b.node.log)]
        assert b"because I say so" not in b"".join(lines)
        with read_back(lines, tmp_path / "copy") as (copy, _):
            assert memories(copy) == memories(b.node)
    finally:
        a.close()
        b.close()


def test_an_export_into_its_own_node_leaves_out_a_peers_facts(tmp_path: Path) -> None:
    """Into another node they become that node's own, once."""
    a, b = Member(tmp_path, "a"), Member(tmp_path, "b")
    try:
        a.meet(b, GRANTS)
        b.meet(a, GRANTS)
        for value in ("CTO", "CEO"):
            a.submit([stated(value)])
        b.pull(Link(b, a))
        lines = exported(b.node)
        options = Options(known="export")
        with read_back(lines, tmp_path / "copy") as (copy, first):
            assert first.counts["asserted"] == 2
            for node in (b.node, copy):
                sink = NodeSink(node, 262_144)
                report = Importer(sink, options, decode_line).run(iter(lines))
                assert report.counts["existing"] == 2
                assert "asserted" not in report.counts
    finally:
        a.close()
        b.close()
