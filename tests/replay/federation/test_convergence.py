"""Nodes with the same streams agree, in any order of arrival."""

from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from engramlog.api.node.node import Node
from engramlog.api.node.node_status import status_of_node
from engramlog.eventlog.kinds import PeerGrants, Value
from engramlog.projections.writing.commands import Done, EraseFacts
from engramlog.replay.verify import verify
from tests.worlds.federation.answers import differences
from tests.worlds.federation.copies import Copy
from tests.worlds.federation.hard_schedules import hard_faults, run_hard
from tests.worlds.federation.network import Link, Member
from tests.worlds.federation.schedules import answers_of, run
from tests.worlds.federation.schedules import shared_digests as shared
from tests.worlds.histories import asserted


@pytest.mark.parametrize("seed", range(24))
def test_a_random_schedule_ends_in_equal_digests_and_answers(tmp_path: Path, seed: int) -> None:
    members = run(tmp_path, seed, nodes=2 + seed % 3)
    try:
        digests = [shared(member) for member in members]
        assert all(each == digests[0] for each in digests)
        assert len(digests[0]) >= len(members) - 1
        for member in members:
            assert status_of_node(member.node)["degraded"] is None
            assert member.node.rebuild().digest == member.digests().local
        first, *others = answers_of(members)
        assert [differences(first, each) for each in others] == [[]] * len(others)
        assert len(first["facts"]) > 1
        assert any(len(found) > 1 for name, found in first.items() if name.startswith("default"))
    finally:
        for member in members:
            member.close()


@pytest.mark.parametrize(
    ("seed", "nodes", "more"), [(0, 3, False), (1000, 4, False), (40, 4, False), (5002, 4, True)]
)
def test_a_hard_schedule_ends_in_equal_digests_and_whole_logs(
    tmp_path: Path, seed: int, nodes: int, more: bool
) -> None:
    members = run_hard(tmp_path, seed, nodes, more=more)
    try:
        assert hard_faults(members, rebuilt=True) == []
    finally:
        for member in members:
            member.close()


def test_a_node_offers_its_own_streams_alone(tmp_path: Path) -> None:
    a, b, c = (Member(tmp_path, name) for name in ("a", "b", "c"))
    try:
        a.meet(c)
        c.meet(a)
        a.meet(b)
        for member in (a, c):
            member.submit([asserted(source=f"agent:{member.name}", scope="company")])
        a.pull(Link(a, c))
        assert {name for name in a.node.log.stream_heads() if name.startswith(c.id)}
        offered = [head.stream for head in Link(b, a).heads().heads]
        assert offered == [f"{a.id}/1/scope/company"]
    finally:
        for member in (a, b, c):
            member.close()


SECRET = "a secret that must not stay"


def test_an_erasure_takes_effect_on_all_replaying_nodes(tmp_path: Path) -> None:
    a, b, late = (Member(tmp_path, name) for name in ("a", "b", "late"))
    try:
        for one in (a, b, late):
            for other in (a, b, late):
                if one is not other:
                    one.meet(other)
        intents = [
            asserted(value=Value("string", text), source="agent:a", scope="company")
            for text in (SECRET, "stays")
        ]
        (outcome, _) = a.submit(intents).outcomes
        assert isinstance(outcome, Done)
        b.pull(Link(b, a))
        assert any(SECRET.encode() in (each.payload or b"") for each in b.node.log.read_stored())
        assert outcome.fact_id is not None
        (erased,) = a.node.write(EraseFacts(erasure_id=str(uuid4()), fact_ids=(outcome.fact_id,)))
        assert isinstance(erased, Done), erased
        for one in (b, late):
            pulled = one.pull(Link(one, a))
            assert not pulled.faults, pulled.faults
            assert outcome.fact_id not in one.node.reader.image.facts.slot_of
            for stored in one.node.log.read_stored():
                assert SECRET.encode() not in (stored.payload or b"")
            assert verify(one.node.log).fault is None
            assert one.node.rebuild().digest == one.digests().local
        assert shared(a) == shared(b) == shared(late)
    finally:
        for member in (a, b, late):
            member.close()


def states_six_and_erases_the_first(member: Member) -> str:
    """State six facts, and erase the first of them; returns its id."""
    outcomes = member.submit(
        [asserted(f"user:u{n}", source="agent:a", scope="company") for n in range(6)]
    ).outcomes
    (first, *_) = [each.fact_id for each in outcomes if isinstance(each, Done)]
    assert first is not None
    member.node.write(EraseFacts(erasure_id=str(uuid4()), fact_ids=(first,)))
    return first


def test_a_replica_starts_between_an_erased_event_and_its_erasure(tmp_path: Path) -> None:
    a = Member(tmp_path, "a")
    try:
        states_six_and_erases_the_first(a)
        copy = Copy(tmp_path / "copy", a.node)
        for _ in range(20):  # reopened each time
            copy.follow(a.node, a.clock, steps=1, page=2)
        with closing(Node.open(copy.folder, clock=a.clock)) as replica:
            assert replica.reader.digests().local == a.digests().local
            assert verify(replica.log).fault is None
    finally:
        a.close()


def test_a_replica_is_promoted_between_an_erased_event_and_its_erasure(tmp_path: Path) -> None:
    a = Member(tmp_path, "a")
    try:
        first = states_six_and_erases_the_first(a)
        copy = Copy(tmp_path / "copy", a.node)
        copy.follow(a.node, a.clock, steps=2, page=2)
    finally:
        a.close()
    with closing(Node.open(copy.folder, clock=a.clock)) as node:
        fault = verify(node.log).fault
        assert fault is not None
        assert "withheld" in fault.reason
        node.promote()
        assert verify(node.log).fault is None
        # The fact is gone like any erased one: it does not come back.
        assert node.reader.slot_of(first) is None
        assert erased_of(node, first)
        assert node.rebuild().compared
    with closing(Node.open(copy.folder, clock=a.clock)) as again:
        assert verify(again.log).fault is None


def erased_of(node: Node, fact: str) -> bool:
    """Whether the node knows that a fact was erased."""
    with node.reader.pool.connection() as db:
        rows = list(db.execute("SELECT 1 FROM erased_facts WHERE fact_id=?", (fact,)))
    return bool(rows)


def test_erasing_others_facts_needs_the_grant(tmp_path: Path) -> None:
    a, b = Member(tmp_path, "a"), Member(tmp_path, "b")
    try:
        a.meet(b)
        b.meet(a, PeerGrants(scopes=["company", "public"]))
        intent = asserted(value=Value("string", "of b"), source="agent:b", scope="company")
        (outcome,) = b.submit([intent]).outcomes
        assert isinstance(outcome, Done)
        assert outcome.fact_id is not None
        a.pull(Link(a, b))
        a.node.write(EraseFacts(erasure_id=str(uuid4()), fact_ids=(outcome.fact_id,)))
        assert not b.pull(Link(b, a)).faults
        assert outcome.fact_id in b.node.reader.image.facts.slot_of
        assert b.node.rebuild().digest == b.digests().local
        assert verify(b.node.log).fault is None
    finally:
        a.close()
        b.close()
