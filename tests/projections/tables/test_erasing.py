"""Who may erase which fact, and what else is erased with it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.identifiers import id_text
from engramlog.eventlog.kinds import (
    ErasureCertified,
    FactErased,
    LegalHoldSet,
    Parent,
    PeerGrants,
    Value,
)
from engramlog.projections.authorization import everything
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import query
from engramlog.projections.tables.digest import compute_digests
from engramlog.projections.tables.erasing import may_erase
from engramlog.projections.tables.facts.erasures import find_erasure
from engramlog.projections.tables.peers.remote_retractions import erasures_taking_effect
from engramlog.projections.tables.store import ProjectionStore
from engramlog.projections.writing.commands import (
    Done,
    EraseEvents,
    EraseFacts,
    Refused,
    ResolveConflict,
    RetractFact,
    RetractMatching,
)
from engramlog.projections.writing.decide.facts.erased_set import ERASED_FACTS_MAX
from engramlog.replay.verify import verify
from tests.worlds.histories import ENTITIES, START_US, asserted
from tests.worlds.stated_facts import stated

PEER = "stigmem:node:other"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    opened = Node.open(tmp_path / "data", clock=FixedClock(START_US))
    try:
        yield opened
    finally:
        opened.close()


def says(node: Node, text: str, source: str = "agent:one", **fields: object) -> str:
    done = node.write(asserted(value=Value("string", text), source=source, **fields))[0]  # pyright: ignore[reportArgumentType]
    assert isinstance(done, Done)
    assert done.fact_id is not None
    return done.fact_id


def erases(node: Node, *facts: str, **fields: object) -> Done:
    done = node.write(EraseFacts(erasure_id="e", fact_ids=facts, **fields))[0]  # pyright: ignore[reportArgumentType]
    assert isinstance(done, Done), done
    return done


def kinds_left(node: Node) -> list[tuple[str, bool]]:
    """Every event after the node's first: its kind, and whether it has its payload."""
    return [(event.kind, event.payload is not None) for event in node.log.read(1, 1000)]


def test_a_peer_erases_its_own_facts_and_others_with_a_grant() -> None:
    assert may_erase(PEER, "anybody", local=True, grants=())
    assert may_erase(PEER, PEER, local=False, grants=())
    assert not may_erase(PEER, "stigmem:node:third", local=False, grants=("retract_foreign",))
    assert may_erase(PEER, "stigmem:node:third", local=False, grants=("erase_foreign",))


@pytest.mark.parametrize(
    ("origin", "granted", "taken"),
    [(PEER, False, True), ("stigmem:node:third", False, False), ("stigmem:node:third", True, True)],
)
def test_a_peers_erasure_waits_until_it_may_take_effect(
    node: Node, tmp_path: Path, origin: str, granted: bool, taken: bool
) -> None:
    fact = says(node, "A")
    events = [
        event
        if event.kind != "fact_asserted"
        else msgspec.structs.replace(
            event, peer=PEER, header=msgspec.structs.replace(event.header, origin=origin)
        )
        for event in node.log.read(0, 100)
    ]
    store = ProjectionStore(tmp_path / "other.db", history=node.log)
    try:
        with store.db:
            store.apply([*events, foreign_erasure(events[-1], fact)])
            if granted:
                grants = PeerGrants(scopes=["local"], erase_foreign=True)
                approve(store, grants)
        assert not store.halted
        assert query(store.db, "SELECT count(*) FROM facts") == [(1,)], "alone it has no effect"
        waiting = list(erasures_taking_effect(store.db).values())
        assert waiting == ([[fact]] if taken else [])
    finally:
        store.close()


def foreign_erasure(last: Recorded, fact: str) -> Recorded:
    payload = FactErased(erasure_id="theirs", events=[fact, "no identifier"], fact_ids=[fact])
    header = msgspec.structs.replace(last.header, kind="fact_erased", origin=PEER)
    return msgspec.structs.replace(
        last, position=last.position + 1, peer=PEER, header=header, payload=payload
    )


def approve(store: ProjectionStore, grants: PeerGrants) -> None:
    """An active peer with these grants, however it was approved."""
    columns = {row[1]: row[2] for row in query(store.db, "PRAGMA table_info(peers)")}
    known = {
        "peer_id": "p", "node_id": PEER, "state": "active",
        "grants": msgspec.json.encode(grants).decode(),
    }  # fmt: skip
    row = [known.get(name, 0 if kind == "INTEGER" else "[]") for name, kind in columns.items()]
    store.db.execute(f"INSERT INTO peers VALUES ({','.join('?' * len(row))})", row)


def test_retractions_go_with_the_last_fact_they_name(node: Node) -> None:
    one, two = says(node, "A"), says(node, "B", "agent:two")
    node.write(RetractFact(fact_id=one, reason="A was wrong"))
    erases(node, one)
    assert kinds_left(node)[:4] == [
        ("fact_asserted", False),
        ("fact_asserted", True),
        ("fact_retracted", False),
        ("fact_erased", True),
    ]
    with node.reader.pool.connection() as db:
        assert query(db, "SELECT count(*) FROM fact_retractions") == [(0,)]
    assert set(node.reader.image.facts.slot_of) == {two}
    assert verify(node.log).fault is None


def test_a_retraction_that_names_others_keeps_its_effect_on_them(node: Node) -> None:
    one, two = says(node, "A"), says(node, "B")
    node.write(asserted(value=Value("string", "retracted"), confidence=0.0))
    erases(node, one)
    with node.reader.pool.connection() as db:
        assert query(db, "SELECT id FROM facts WHERE to_position<>? AND id=?", (LIVE, two))
    assert node.rebuild().compared


@pytest.mark.parametrize("source", ["agent:one", "agent:two"])
def test_a_record_that_repeats_an_erased_fact_is_erased_too(node: Node, source: str) -> None:
    one = says(node, "A")
    done = node.write(asserted(value=Value("string", "A"), confidence=0.0, source=source))[0]
    assert isinstance(done, Done)
    assert set(erases(node, one).detail["fact_ids"]) == {one, done.fact_id}
    with node.reader.pool.connection() as db:
        assert query(db, "SELECT count(*) FROM denials") == [(0,)]
    assert node.rebuild().compared


def test_a_winner_takes_the_note_and_leaves_the_loser_aside(node: Node) -> None:
    says(node, "A")
    two = says(node, "B", "agent:two")
    settle(node, two)
    gone = erases(node, two).detail["fact_ids"]
    assert len(gone) == 2, "the fact and the note that repeats it"
    with node.reader.pool.connection() as db:
        assert query(db, "SELECT count(*) FROM facts WHERE set_aside<>?", (LIVE,)) == [(1,)]
        assert query(db, "SELECT count(*) FROM conflicts") == [(0,)]
    assert node.rebuild().compared


def test_a_resolution_is_erased_with_its_last_loser(node: Node) -> None:
    one, two = says(node, "A"), says(node, "B", "agent:two")
    settle(node, two)
    erases(node, one)
    assert ("conflict_resolved", False) in kinds_left(node)
    assert two in node.reader.image.facts.slot_of
    assert node.rebuild().compared


def settle(node: Node, winner: str) -> None:
    with node.reader.pool.connection() as db:
        ((conflict,),) = query(db, "SELECT conflict_id FROM conflicts")
    intent = ResolveConflict(
        conflict_id=conflict, winning_fact_id=winner, source="agent:judge", note="B it is"
    )
    assert isinstance(node.write(intent)[0], Done)


def test_an_erasure_leaves_an_event_in_every_stream_it_touches(node: Node) -> None:
    one, two = says(node, "A"), says(node, "A", scope="company")
    assert set(erases(node, one).detail["fact_ids"]) == {one, two}
    streams = {e.header.stream.split("/", 2)[2] for e in node.log.read() if e.kind == "fact_erased"}
    assert streams == {"scope/local", "scope/company"}


def test_many_facts_are_named_by_several_events(node: Node) -> None:
    intents = [asserted(value=Value("string", f"A{number}")) for number in range(1_200)]
    node.write(*intents)
    done = node.write(EraseFacts(erasure_id="e", entity=ENTITIES[0]))[0]
    assert isinstance(done, Done)
    named = [len(event.payload.events) for event in done.events
             if isinstance(event.payload, FactErased)]  # fmt: skip
    assert named == [500, 500, 200]
    assert not node.reader.image.facts.slot_of
    row = node.reader.ask(find_erasure, "e")
    assert row is not None
    assert (row.facts, row.events) == (1_200, 1_200)
    assert ERASED_FACTS_MAX > 1_200


def test_commands_of_one_group_see_an_erasure_between_them(node: Node) -> None:
    one = says(node, "A")
    answers = [
        node.writer.submit([intent], actor="agent:t")
        for intent in (
            asserted(value=Value("string", "B")),
            EraseFacts(erasure_id="e", fact_ids=(one,)),
            RetractFact(fact_id=one),
            RetractMatching(
                entity=ENTITIES[0], relation="memory:role", value=Value("string", "A"),
                scope="local",
            ),
            asserted(value=Value("string", "A")),
        )
    ]  # fmt: skip
    outcomes = [answer.result(30).outcomes[0] for answer in answers]
    assert [isinstance(outcome, Done) for outcome in outcomes] == [True, True, False, False, True]
    assert node.rebuild().compared


def test_a_refused_erasure_changes_nothing(node: Node) -> None:
    one = says(node, "A")
    node.write(LegalHoldSet(target_kind="fact", target=one))
    head = node.log.head().position
    for intent, code in (
        (EraseFacts(erasure_id="e", fact_ids=(one,)), "legal_hold"),
        (EraseFacts(erasure_id="e", fact_ids=(one, "unknown")), "fact_not_found"),
        (
            EraseFacts(
                erasure_id="e", fact_ids=(one,), rights=everything().narrowed(frozenset({"team"}))
            ),
            "fact_not_found",
        ),
        (EraseEvents(erasure_id="e", events=(one,)), "erasure_not_found"),
        (ErasureCertified(erasure_id="e", document="{}", signature=""), "erasure_not_found"),
        (LegalHoldSet(target_kind="fact", target="unknown"), "fact_not_found"),
    ):
        (outcome,) = node.write(intent)
        assert isinstance(outcome, Refused)
        assert outcome.code == code
    assert node.log.head().position == head


def test_only_records_of_recalls_are_erased_by_event_id(node: Node) -> None:
    one = says(node, "A")
    erases(node, says(node, "B", "agent:two"))
    key = next(event for event in node.log.read() if event.kind == "epoch_started")
    events = (one, id_text(key.event_id))
    (outcome,) = node.write(EraseEvents(erasure_id="e", events=events))
    assert isinstance(outcome, Done)
    assert not outcome.events
    assert one in node.reader.image.facts.slot_of


def test_a_rebuild_begun_before_an_erasure_ends_with_it(node: Node, tmp_path: Path) -> None:
    """The rebuilt file has read the text when it meets the erasure."""
    facts = [
        says(node, text, source) for text, source in (("A", "s:1"), ("B", "s:2"), ("C", "s:3"))
    ]
    before = node.log.read(0, 100)
    store = ProjectionStore(tmp_path / "green.db", bulk=True, history=node.log)
    try:
        with store.db:
            store.apply(before)
        erases(node, facts[1])
        with store.db:
            store.apply(node.log.read(before[-1].position, 100))
        store.finish_bulk()
        assert compute_digests(store.db).local == node.reader.digests().local
    finally:
        store.close()


def test_derived_facts_follow_only_when_asked(node: Node) -> None:
    parent = says(node, "A")
    ((cid,),) = _rows(node, "SELECT cid FROM facts")
    child = asserted(relation="tag:x", value=Value("string", "of A"))
    node.write(stated(child, derived_from=[Parent(str(cid).removeprefix("sha256:"), parent)]))
    (_, derived) = node.reader.image.facts.slot_of
    done = erases(node, parent, derived=True)
    assert set(done.detail["fact_ids"]) == {parent, derived}
    assert _rows(node, "SELECT count(*) FROM derivations") == [(0,)]


def _rows(node: Node, sql: str) -> list[tuple[object, ...]]:
    with node.reader.pool.connection() as db:
        return query(db, sql)
