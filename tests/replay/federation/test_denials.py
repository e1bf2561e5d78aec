"""A peer's events against our facts: a denial, another value, another source's name."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engramlog.eventlog.kinds import KeyIssued, PeerGrants, PeerStateSet, SourceTrustSet, Value
from engramlog.projections.authorization import everything
from engramlog.projections.contradictions.conflicts import conflicts
from engramlog.projections.contradictions.preferred_side import preferred
from engramlog.projections.image.contradicted_facts import are_contradicted
from engramlog.projections.tables.conflicts.identities import conflict_id
from engramlog.projections.tables.digest import stream_digests
from engramlog.projections.writing.commands import (
    AssertFact,
    Command,
    Done,
    EraseFacts,
    ResolveConflict,
    RetractFact,
)
from tests.worlds.federation.network import Link, Member
from tests.worlds.stated_facts import stating

GRANTS = PeerGrants(scopes=["company"])
ANN, MAX = "agent:ann", "agent:max"


def says(v: str, source: str, confidence: float = 1.0) -> AssertFact:
    return stating(
        entity="user:x", relation="memory:role", value=Value("string", v),
        source=source, scope="company", confidence=confidence,
    )  # fmt: skip


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[Member, Member, Member]]:
    made = tuple(Member(tmp_path, name) for name in "abc")
    for one in made:
        for other in made:
            if one is not other:
                one.meet(other, GRANTS)
    yield made[0], made[1], made[2]
    for each in made:
        each.close()


def do(node: Member, command: Command) -> str:
    (done,) = node.submit([command]).outcomes
    assert isinstance(done, Done), done
    return done.fact_id or ""


def pull(client: Member, server: Member) -> None:
    client.pull(Link(client, server))


def disputed(node: Member, fact: str) -> bool:
    view, moment = node.node.reader.pin(), node.node.moment()
    slot = view.slot_of(fact)
    assert slot is not None
    return bool(are_contradicted(view, np.array([slot], dtype=np.int32), moment, everything())[0])


def listed(node: Member) -> list[str]:
    """Values in a default list."""
    view, moment = node.node.reader.pin(), node.node.moment()
    slots = np.flatnonzero(view.claimed(np.arange(view.count, dtype=np.int32), moment))
    shown = slots[preferred(view, slots.astype(np.int32), moment, everything())]
    return sorted(view.value_text_of(slot) for slot in shown.tolist())


def open_conflicts(node: Member) -> int:
    reader = node.node.reader
    found = conflicts(reader, reader.pin(), everything(), node.node.moment(), status="unresolved")
    return len(list(found))


def test_a_denial_travels_ends_nothing_and_is_taken_back(
    nodes: tuple[Member, Member, Member],
) -> None:
    ours, theirs, _ = nodes
    fact = do(ours, says("CEO", ANN))
    pull(theirs, ours)
    marker = do(theirs, says("retracted", MAX, 0.0))
    pull(ours, theirs)
    assert disputed(ours, fact)
    assert listed(ours) == ["CEO"]
    assert open_conflicts(ours) == 1
    assert ours.digests().shared == theirs.digests().shared
    do(theirs, RetractFact(fact_id=marker, rights=everything().narrowed(frozenset({"company"}))))
    pull(ours, theirs)
    assert not disputed(ours, fact)
    assert not open_conflicts(ours)
    assert ours.digests().shared == theirs.digests().shared
    assert ours.node.rebuild().compared


def test_a_denial_waits_for_its_fact(nodes: tuple[Member, Member, Member]) -> None:
    ours, theirs, third = nodes
    fact = do(ours, says("CEO", ANN))
    pull(theirs, ours)
    do(theirs, says("CEO", MAX, 0.0))
    pull(third, theirs)
    third.restart()
    assert open_conflicts(third) == 0
    pull(third, ours)
    assert disputed(third, fact)
    assert open_conflicts(third) == 1
    third.restart()
    assert disputed(third, fact)
    do(theirs, says("CEO", MAX))
    pull(third, theirs)
    assert not disputed(third, fact)


@pytest.mark.parametrize("resolved", [False, True])
def test_a_denial_and_its_facts_erasure_may_come_in_any_order(
    nodes: tuple[Member, Member, Member], tmp_path: Path, *, resolved: bool
) -> None:
    ours, theirs, third = nodes
    fact = do(ours, says("CEO", ANN))
    pull(theirs, ours)
    marker = do(theirs, says("retracted", MAX, 0.0))
    if resolved:
        settled = ResolveConflict(
            conflict_id=conflict_id(marker, fact), source=MAX, winning_fact_id=marker, note="no"
        )
        do(theirs, settled)
    (erased,) = ours.node.write(EraseFacts(erasure_id="e-1", fact_ids=(fact,)))
    assert isinstance(erased, Done)
    pull(theirs, ours)  # it had the fact, and applies the erasure
    pull(third, theirs)  # it has the denial first, and never the fact
    pull(third, ours)
    fourth = Member(tmp_path, "d")
    try:
        for other in (ours, theirs):
            fourth.meet(other, GRANTS)
            other.meet(fourth, GRANTS)
        pull(fourth, ours)
        pull(fourth, theirs)
        streams = [f"{each.id}/1/scope/company" for each in (ours, theirs)]
        said = [
            [each.node.reader.ask(stream_digests).get(name) for name in streams]
            for each in (theirs, third, fourth)
        ]
        assert said[0] == said[1] == said[2]
    finally:
        fourth.close()
    for each in (theirs, third):
        assert not open_conflicts(each)
        assert each.node.rebuild().compared


@pytest.mark.parametrize("confidence", [0.9, 1.0])
def test_another_value_of_a_peer_hides_none_of_ours(
    nodes: tuple[Member, Member, Member], confidence: float
) -> None:
    ours, theirs, _ = nodes
    do(ours, says("CEO", ANN, 0.9))
    do(theirs, says("forged", MAX, confidence))
    do(theirs, says("signed by ann", ANN, confidence))
    pull(ours, theirs)
    assert listed(ours) == ["CEO"]
    do(ours, PeerStateSet(peer_id=ours.peer(theirs).peer_id, state="revoked"))
    assert listed(ours) == ["CEO"]


def test_a_peers_fact_in_a_sources_name_is_not_the_sources(
    nodes: tuple[Member, Member, Member],
) -> None:
    ours, theirs, _ = nodes
    key = KeyIssued(key_id="k", entity_uri=ANN, permissions=["write"], key_sha256="ab" * 32,
                    scopes=["company"])  # fmt: skip
    do(ours, key)
    for node, v in ((ours, "CEO"), (theirs, "forged")):
        do(node, says(v, ANN))
    pull(ours, theirs)
    assert listed(ours) == ["CEO"]
    do(ours, SourceTrustSet(source=ANN, trust=1.0))
    assert listed(ours) == ["CEO"], (
        "trust in our agent does not extend to a peer that uses its name"
    )


def test_a_peer_has_the_configured_trust(nodes: tuple[Member, Member, Member]) -> None:
    ours, theirs, _ = nodes
    do(ours, says("CEO", ANN, 0.5))
    fact = do(theirs, says("forged", MAX))
    do(ours, SourceTrustSet(source=MAX, trust=1.0))
    pull(ours, theirs)
    assert listed(ours) == ["forged"]
    do(ours, SourceTrustSet(source=theirs.id, trust=0.25))
    assert listed(ours) == ["CEO"]
    view = ours.node.reader.pin()
    slot = view.slot_of(fact)
    assert slot is not None
    trust = view.trust(np.array([slot], dtype=np.int32), ours.node.moment())
    assert trust.tolist() == [0.25]
    assert ours.node.rebuild().compared
