"""Attributes between nodes: a source's own travel and hide, those of others do not."""

from pathlib import Path

import numpy as np

from engramlog.eventlog.kinds import FactAttributes, Value
from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization
from engramlog.projections.normalization import SCOPES
from engramlog.projections.writing.commands import Done, EraseFacts, SetAttributes
from tests.worlds.federation.network import Link, Member
from tests.worlds.histories import asserted
from tests.worlds.stated_facts import stated

READER = Authorization("agent:reader", frozenset({"read"}), frozenset(SCOPES))


def put(member: Member, fact: str, **changes: object) -> None:
    intent = SetAttributes(fact_id=fact, changes=changes)
    (outcome,) = member.submit([intent]).outcomes
    assert isinstance(outcome, Done), outcome


def attributes(member: Member, fact: str) -> FactAttributes:
    view = member.node.reader.pin()
    slots: I32 = np.array([member.node.reader.slot_of(fact)], dtype=np.int32)
    return view.attributes(slots, member.node.moment())[0]


def readable(member: Member, fact: str) -> bool:
    view = member.node.reader.pin()
    slots: I32 = np.array([member.node.reader.slot_of(fact)], dtype=np.int32)
    return bool(READER.mask(view, slots)[0])


def test_a_reclassification_travels_and_hides_and_only_its_own_nodes_counts(
    tmp_path: Path,
) -> None:
    one, two = Member(tmp_path, "one"), Member(tmp_path, "two")
    one.meet(two)
    two.meet(one)
    first = asserted(value=Value("string", "A"), scope="company", source="agent:one")
    first = stated(first, attributes=FactAttributes(topic="work", trust=3))
    (outcome,) = one.submit([first]).outcomes
    assert isinstance(outcome, Done)
    fact = str(outcome.fact_id)
    two.pull(Link(two, one))
    assert attributes(one, fact).trust == 3
    assert attributes(two, fact) == FactAttributes(topic="work", trust=1)
    assert one.digests().shared == two.digests().shared
    assert readable(two, fact)

    put(two, fact, topic="elsewhere")
    one.pull(Link(one, two))
    assert attributes(two, fact).topic == "elsewhere"
    assert attributes(one, fact).topic == "work"

    put(one, fact, classification=2)
    two.pull(Link(two, one))
    assert attributes(two, fact) == FactAttributes(topic="work", classification=2, trust=1)
    assert not readable(two, fact)
    for member in (one, two):
        digests = member.digests()
        member.node.rebuild()
        assert member.digests() == digests
        member.restart()
        assert not readable(member, fact)

    # Erased with it: its own words, and those set elsewhere.
    (outcome,) = one.submit([EraseFacts(erasure_id="e", fact_ids=(fact,))]).outcomes
    assert isinstance(outcome, Done), outcome
    two.pull(Link(two, one))
    for member in (one, two):
        said = [e for e in member.node.log.read(0, 1000) if e.kind == "fact_attributes_set"]
        assert [e for e in said if e.payload is not None and e.peer is None] == []
        assert member.node.reader.image.attributes.by_slot == {}
        member.close()
