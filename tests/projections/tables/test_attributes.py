"""Attributes through the log: at any position, rebuilt, erased, and from whose events."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engramlog.api.node.node import Node
from engramlog.api.transfer.exporting import export_lines
from engramlog.api.transfer.importing import Importer, ImportStopped, Options
from engramlog.api.transfer.lines.line_kinds import decode_line
from engramlog.api.transfer.sinks import NodeSink
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import FactAttributes, Value
from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization, everything
from engramlog.projections.image.view import everything as all_slots
from engramlog.projections.memories.attribute_rules import PLAIN, attributes_fault
from engramlog.projections.moment import Moment
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.facts.attributes import cleared_rows
from engramlog.projections.writing.commands import (
    AssertFact,
    Done,
    EraseFacts,
    Refused,
    SetAttributes,
)
from tests.worlds.histories import asserted


def stated(node: Node, v: str, attributes: FactAttributes | None = None, **more: Any) -> str:
    fact = asserted(value=Value("string", v), **more).fact
    outcome = node.write(AssertFact(msgspec.structs.replace(fact, attributes=attributes)))[0]
    assert isinstance(outcome, Done), outcome
    return str(outcome.fact_id)


def put(node: Node, fact: str, *, admin: bool = True, **changes: Any) -> Done | Refused:
    plain = msgspec.structs.replace(everything(), permissions=frozenset({"read", "write"}))
    intent = SetAttributes(fact_id=fact, changes=changes, rights=None if admin else plain)
    return node.write(intent)[0]


def shown(node: Node, fact: str, position: int | None = None) -> FactAttributes:
    view = node.reader.pin()
    slots: I32 = np.array([node.reader.slot_of(fact)], dtype=np.int32)
    at = view.position if position is None else position
    return view.attributes(slots, Moment(at, 0))[0]


def test_each_moment_has_the_attributes_of_then(node: Node) -> None:
    fact = stated(node, "A", FactAttributes(topic="work", relevance=10))
    begun = node.log.head().position
    assert isinstance(put(node, fact, relevance=20), Done)
    assert isinstance(put(node, fact, topic="home"), Done)
    assert shown(node, fact, begun) == FactAttributes(topic="work", relevance=10)
    assert shown(node, fact, begun + 1) == FactAttributes(topic="work", relevance=20)
    assert shown(node, fact) == FactAttributes(topic="home", relevance=20)
    bare = stated(node, "B")
    assert shown(node, bare) == PLAIN
    head = node.log.head().position
    assert isinstance(put(node, bare, relevance=0), Done)
    assert node.log.head().position == head


def test_a_restart_and_a_rebuild_give_the_same(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data")
    fact = stated(node, "A", FactAttributes(topic="work"), scope="team")
    put(node, fact, classification=3)
    expected = FactAttributes(topic="work", classification=3)
    digests = node.reader.digests()
    node.rebuild()
    assert node.reader.digests() == digests
    for _ in range(2):
        view = node.reader.pin()
        assert view.confidential
        assert view.classification.tolist() == [3]
        assert shown(node, fact) == expected
        node.close()
        node = Node.open(tmp_path / "data")
    node.close()


def test_an_erasure_takes_the_facts_attributes(node: Node) -> None:
    fact = stated(node, "A", FactAttributes(original="the words"))
    put(node, fact, topic="told-apart")
    outcome = node.write(EraseFacts(erasure_id="e", fact_ids=(fact,)))[0]
    assert isinstance(outcome, Done), outcome
    kinds = {event.kind: event.payload for event in node.log.read(0, 100)}
    assert kinds["fact_attributes_set"] is None
    assert kinds["fact_asserted"] is None
    digests = node.reader.digests()
    node.rebuild()
    assert node.reader.digests() == digests
    assert node.reader.image.attributes.by_slot == {}


def test_absent_and_forbidden_targets_are_refused(node: Node) -> None:
    fact = stated(node, "A", FactAttributes(classification=1, trust=2))
    for refusal, code in (
        (put(node, "no-such-fact", topic="x"), "fact_not_found"),
        (put(node, fact, admin=False, classification=0), "attribute_forbidden"),
        (put(node, fact, admin=False, trust=3), "attribute_forbidden"),
    ):
        assert isinstance(refusal, Refused)
        assert refusal.code == code
    assert isinstance(put(node, fact, admin=False, trust=2, topic="y"), Done)
    narrow = SetAttributes(
        fact_id=fact, changes={"topic": "z"}, rights=everything().narrowed(frozenset({"team"}))
    )
    assert isinstance(node.write(narrow)[0], Refused)


LEVELS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["agent:a", "agent:b"]), st.integers(0, 3)),
    min_size=1,
    max_size=8,
)


@given(LEVELS, st.sampled_from(["agent:a", "agent:b", "agent:c"]), st.integers(0, 2))
@settings(max_examples=15, deadline=None)
def test_mask_and_rows_agree_on_clearance(
    tmp_path_factory: pytest.TempPathFactory,
    facts: list[tuple[int, str, int]],
    principal: str,
    ceiling: int,
) -> None:
    node = Node.open(tmp_path_factory.mktemp("levels") / "data")
    names: list[str] = []
    expected: list[bool] = []
    for number, (level, source, later) in enumerate(facts):
        attributes = FactAttributes(classification=level) if level != 1 else None
        relation = f"memory:n{number}"
        name = stated(node, f"{number}", attributes, scope="team", source=source, relation=relation)
        put(node, name, classification=later)
        names.append(name)
        expected.append(later <= ceiling and (later <= 1 or source == principal))
    rights = Authorization(principal, frozenset({"read"}), frozenset(SCOPES), ceiling=ceiling)
    view = node.reader.pin()
    assert rights.mask(view).tolist() == expected
    assert rights.mask(view, all_slots(view)).tolist() == expected
    assert everything().mask(view).all()
    condition, bindings = cleared_rows("facts.id", rights)
    with node.reader.pool.connection() as db:
        sql = f"SELECT id FROM facts WHERE {condition} ORDER BY from_position"
        rows = [row[0] for row in db.execute(sql, bindings)]
    assert rows == [name for name, clear in zip(names, expected, strict=True) if clear]
    node.close()


def test_an_export_read_back_has_the_same_attributes(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "first", clock=FixedClock(1_700_000_000_000_000))
    kept = stated(node, "A", FactAttributes(topic="work", original="eredeti", emotion_score=-3))
    put(node, kept, classification=2, tier="core")
    stated(node, "B", FactAttributes(importance_flags=("milestone",)), relation="memory:b")
    stated(node, "C", None, relation="memory:c")
    lines = [line for _, line in export_lines(node.log)]
    node.close()
    clock = FixedClock(1_600_000_000_000_000)
    copy = Node.open(tmp_path / "copy", clock=clock, epoch_clock="file")
    sink = NodeSink(copy, 262_144, clock=clock)
    report = Importer(sink, Options(file_clock=True), decode_line).run(iter(lines))
    assert report.failed == 0
    view = copy.reader.pin()
    assert view.attributes(all_slots(view), Moment(view.position, 0)) == [
        FactAttributes(
            topic="work", original="eredeti", emotion_score=-3, classification=2, tier="core"
        ),
        FactAttributes(importance_flags=("milestone",)),
        PLAIN,
    ]
    assert [line for _, line in export_lines(copy.log)][1].count(b"attributes") >= 1
    copy.close()


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({"attributes": {"emotion_score": 9}}, "attributes.emotion_score"),
        ({"attributes": {"colour": "red"}}, "attributes"),
        ({"op": "attributes", "attributes": {}}, "target"),
        ({"op": "attributes", "attributes": {}, "target": "unknown"}, "target"),
    ],
)
def test_lines_with_bad_attributes_name_their_field(
    node: Node, line: dict[str, Any], field: str
) -> None:
    said = {"entity": "user:a", "relation": "memory:x", "value": {"type": "string", "v": "A"},
            "source": "agent:a"}  # fmt: skip
    whole = line if "op" in line else {**said, **line}
    sink = NodeSink(node, 262_144)
    with pytest.raises(ImportStopped, match=f"line 1: {field}"):
        Importer(sink, Options(), decode_line).run(iter([msgspec.json.encode(whole)]))
    assert node.reader.pin().count == 0


@pytest.mark.parametrize(
    "attributes",
    [
        FactAttributes(classification=300),
        FactAttributes(emotion_score=-6),
        FactAttributes(credibility=0),
        FactAttributes(relevance=1_010),
        FactAttributes(topic="x" * 65),
        FactAttributes(original="x" * 65_537),
        FactAttributes(emotion_tags=("joy",) * 26),
        FactAttributes(importance_flags=("x" * 33,)),
    ],
)
def test_a_peers_attributes_out_of_bounds_are_a_fault(attributes: FactAttributes) -> None:
    assert attributes_fault(attributes) is not None
    assert attributes_fault(PLAIN) is None
