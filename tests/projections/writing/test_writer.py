"""The writer under faults: acknowledged writes are durable, and a failure affects only its own
caller."""

import asyncio
import hashlib
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from engramlog.api.node.node import Node
from engramlog.api.node.node_status import status_of_node
from engramlog.eventlog.errors import PayloadTooLarge, StorageFailed, StorageFull, UnknownKind
from engramlog.eventlog.event import Draft, scope_partition
from engramlog.eventlog.kinds import SCHEMA_VERSIONS, FactAsserted, KeyIssued, KeyRevoked, Value
from engramlog.projections.tables.facts.entity_edges import EntityEdgesProjector
from engramlog.projections.tables.facts.facts import FactsProjector
from engramlog.projections.tables.store import ProjectionStore, current_generation
from engramlog.projections.writing import writer as writer_module
from engramlog.projections.writing.commands import Done, Refused, RetractFact
from engramlog.projections.writing.submission import (
    LoopAnswer,
    Submission,
    WriterBusy,
    WriterClosed,
    WriterDegraded,
)
from engramlog.replay.rebuild import ProjectorHalted
from tests.worlds.failing_storage import FailingOnce
from tests.worlds.histories import asserted
from tests.worlds.waiting import until


def role(v: str, **more: Any) -> Any:
    return asserted(value=Value("string", v), **more)


def ids(node: Node) -> set[str]:
    return set(node.reader.image.facts.slot_of)


def in_one_group(node: Node, *commands: Submission) -> None:
    """Make the writer take these commands together."""
    node.writer.exclusive(lambda: node.writer._write(list(commands))).result()


def test_commands_of_one_group_see_each_other(node: Node) -> None:
    first, again = (Submission([role("A")], "agent:t", None, None, False) for _ in range(2))
    in_one_group(node, first, again)
    one, other = first.answer.result().outcomes[0], again.answer.result().outcomes[0]
    assert isinstance(one, Done)
    assert isinstance(other, Done)
    assert (one.created, other.created) == (True, False)
    assert one.fact_id == other.fact_id


def test_a_coroutine_gets_its_answer_even_if_another_gave_up(node: Node) -> None:
    async def state(v: str, *, wait: bool) -> bool:
        answer = LoopAnswer()
        node.writer.take(Submission([role(v)], "agent:t", None, None, False, answer))
        if not wait:
            return answer.future.cancel()
        outcome = (await answer.future).outcomes[0]
        return isinstance(outcome, Done) and outcome.created

    assert asyncio.run(state("A", wait=True))
    assert asyncio.run(state("B", wait=False))  # the loop is closed when the writer answers
    node.writer.submit([role("C")], actor="agent:t").result()
    assert len(ids(node)) == 3


def test_an_atomic_command_is_undone_alone(node: Node) -> None:
    missing = RetractFact(fact_id="none")
    atomic = Submission([role("A"), missing], "agent:t", None, None, True)
    other = Submission([role("B")], "agent:t", None, None, False)
    in_one_group(node, atomic, other)
    outcomes = atomic.answer.result().outcomes
    assert isinstance(outcomes[1], Refused)
    written = other.answer.result().outcomes[0]
    assert isinstance(written, Done)
    assert ids(node) == {written.fact_id}


def test_a_command_that_cannot_be_encoded_fails_alone(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramlog.eventlog.codec.PAYLOAD_BYTES_MAX", 2_000)
    large = Submission([role("x" * 3_000)], "agent:t", None, 1, False)
    small = Submission([role("A")], "agent:t", None, 2, False)
    in_one_group(node, small, large)
    assert isinstance(small.answer.result().outcomes[0], Done)
    with pytest.raises(PayloadTooLarge):
        large.answer.result()


def test_a_failed_commit_of_the_log_leaves_nothing_and_the_next_write_works(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StorageFull("no space left")

    head, digests = node.log.head(), node.reader.digests()
    with monkeypatch.context() as patch:
        patch.setattr(type(node.log), "store", full)
        with pytest.raises(StorageFull):
            node.write(role("A"))
    assert node.log.head() == head
    assert node.reader.digests() == digests
    assert not ids(node)
    node.write(role("B"))
    assert node.log.head().position == head.position + 1
    assert len(ids(node)) == 1


def test_other_nodes_writes_are_followed_and_failures_retried(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.write(role("A"))
    (written,) = node.log.read(node.log.head().position - 1)
    assert isinstance(written.payload, FactAsserted)
    payload = replace(written.payload, value=Value("string", "B"))

    def away(*_: object) -> None:
        raise StorageFailed("the server is away")

    def follow() -> None:
        node.writer.follow()
        node.writer.exclusive(lambda: None).result()

    with monkeypatch.context() as patch:
        patch.setattr(type(node.log), "read", away)
        draft = Draft(payload, scope_partition("company"), bytes(15) + b"1", "agent:t")
        (written,) = node.log.append([draft]).events
        follow()
        assert (
            status_of_node(node)["degraded"] == "projections are behind the log: the server is away"
        )
    follow()
    assert status_of_node(node)["degraded"] is None
    assert node.reader.image.position == written.position
    assert len(ids(node)) == 2


def test_a_node_beside_one_of_a_later_release_says_so_and_writes_no_more(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.write(role("A"))
    (written,) = node.log.read(node.log.head().position - 1)
    assert isinstance(written.payload, FactAsserted)
    node.log.append(
        [Draft(written.payload, scope_partition("company"), bytes(15) + b"1", "agent:t")]
    )
    monkeypatch.setitem(SCHEMA_VERSIONS, "fact_asserted", 3)
    node.writer.follow()
    node.writer.exclusive(lambda: None).result()
    reason = "position 3: kind 'fact_asserted' version 4 is of a later release: upgrade this one"
    assert status_of_node(node)["degraded"] == reason
    with pytest.raises(WriterDegraded, match="later release"):
        node.write(role("B"))


def test_a_write_is_acknowledged_when_only_the_tables_fail_and_they_catch_up(node: Node) -> None:
    store = node.writer.store
    store.db = FailingOnce(store.db)  # type: ignore[assignment]
    (outcome,) = node.write(role("A"))
    assert isinstance(outcome, Done)
    assert node.log.head().position == outcome.position
    assert until(lambda: "behind the log" in str(status_of_node(node)["degraded"]))
    node.write(role("B"))
    assert status_of_node(node)["degraded"] is None
    assert outcome.fact_id in ids(node)
    assert len(ids(node)) == 2


def test_a_crash_between_the_two_commits_is_caught_up(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data")
    node.write(role("A"))
    link = node.directory.projections_path
    node.close()
    kept = tmp_path / "projections.kept"
    generation = current_generation(link)
    assert generation is not None
    shutil.copy(generation, kept)
    node = Node.open(tmp_path / "data")
    node.write(role("B"), role("C", relation="tag:x"))
    digests = node.reader.digests()
    node.close()
    shutil.copy(kept, generation)  # the tables before the last commit
    node = Node.open(tmp_path / "data")
    assert node.reader.digests() == digests
    assert len(ids(node)) == 3
    node.close()


@pytest.mark.parametrize("damage", ["deleted", "of another version", "of another log", "halted"])
def test_tables_that_cannot_be_used_are_made_again_at_start(tmp_path: Path, damage: str) -> None:
    node = Node.open(tmp_path / "data")
    node.write(role("A"), role("B"))
    digests, link = node.reader.digests(), node.directory.projections_path
    node.close()
    generation = current_generation(link)
    assert generation is not None
    if damage == "deleted":
        generation.unlink()
    else:
        db = apsw.Connection(str(generation))
        db.execute(
            {
                "of another version": "UPDATE checkpoints SET version=0 WHERE projector='facts'",
                "of another log": "UPDATE log_mark SET hash=x'00'",
                "halted": "UPDATE checkpoints SET halted='poison' WHERE projector='facts'",
            }[damage]
        )
        db.close()
    node = Node.open(tmp_path / "data")
    assert node.reader.digests() == digests
    assert len(ids(node)) == 2
    node.close()


def test_a_poison_event_halts_its_projector_alone(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poison(*_: object) -> None:
        raise ValueError("cannot be")

    with monkeypatch.context() as patch:
        patch.setattr(EntityEdgesProjector, "apply", poison)
        node.write(role("A"))
        node.reader.image.tail.settle()
    status = status_of_node(node)
    assert "cannot be" in status["projections"]["entity_edges"]["halted"]
    assert status["projections"]["facts"]["halted"] is None
    assert "entity_edges" in status["degraded"]
    assert isinstance(node.write(role("B"))[0], Done)
    assert status["projections"]["entity_edges"]["position"] < node.log.head().position


def test_a_node_starts_and_serves_with_a_projector_that_stays_halted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poison(*_: object) -> None:
        raise ValueError("cannot be")

    with monkeypatch.context() as patch:
        patch.setattr(EntityEdgesProjector, "apply", poison)
        node = Node.open(tmp_path / "data")
        node.write(role("A"))
        node.close()
        node = Node.open(tmp_path / "data")
        assert "entity_edges" in status_of_node(node)["degraded"]
        assert isinstance(node.write(role("B"))[0], Done)
        with pytest.raises(ProjectorHalted):
            node.rebuild()
        node.close()
    node = Node.open(tmp_path / "data")
    assert status_of_node(node)["degraded"] is None, "the next start repairs the tables"
    node.close()


def test_a_node_starts_although_a_projector_halts_while_the_tables_catch_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poison(*_: object) -> None:
        raise ValueError("cannot be")

    data, earlier = tmp_path / "data", tmp_path / "earlier.db"
    Node.open(data).close()
    tables = (data / "projections.db").resolve()
    shutil.copyfile(tables, earlier)
    node = Node.open(data)
    node.write(role("A"))
    node.close()
    shutil.copyfile(earlier, tables)
    monkeypatch.setattr(EntityEdgesProjector, "apply", poison)
    node = Node.open(data)
    assert "entity_edges" in status_of_node(node)["degraded"]
    node.close()


def test_nothing_is_decided_on_tables_that_have_halted(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poison(*_: object) -> None:
        raise ValueError("cannot be")

    with monkeypatch.context() as patch:
        patch.setattr(FactsProjector, "apply", poison)
        node.write(role("A"))
        node.reader.image.tail.settle()
    with pytest.raises(WriterDegraded, match="facts"):
        node.write(role("B"))


def test_a_rebuild_stops_at_a_local_kind_it_does_not_know(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.write(role("A"))
    released = SCHEMA_VERSIONS["fact_asserted"]
    monkeypatch.setitem(SCHEMA_VERSIONS, "fact_asserted", 0)
    with pytest.raises(UnknownKind, match="fact_asserted"):
        node.rebuild()
    monkeypatch.setitem(SCHEMA_VERSIONS, "fact_asserted", released)
    assert node.rebuild().compared


def test_a_rebuild_continues_while_others_write(node: Node) -> None:
    node.write(*(role(f"v{n}", relation=f"memory:r{n}") for n in range(500)))
    answers = [
        node.writer.submit([role(f"w{n}", relation=f"memory:s{n}")], actor="agent:t")
        for n in range(100)
    ]
    report = node.rebuild()
    assert report.compared
    assert all(isinstance(answer.result().outcomes[0], Done) for answer in answers)
    node.write(role("after"))
    assert len(ids(node)) == 601
    with node.reader.pool.connection() as db:
        assert db.execute("SELECT count(*) FROM facts").fetchall() == [(601,)]


def test_closing_finishes_the_queue_and_refuses_the_rest(node: Node) -> None:
    answers = [
        node.writer.submit([role(f"v{n}", relation=f"memory:r{n}")], actor="agent:t")
        for n in range(50)
    ]
    node.writer.close()
    assert all(answer.result(timeout=0).outcomes for answer in answers)
    with pytest.raises(WriterClosed):
        node.writer.submit([role("late")], actor="agent:t")


def test_more_commands_than_may_wait_are_refused(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "WAITING_SUBMISSIONS_MAX", 0)
    with pytest.raises(WriterBusy):
        node.writer.submit([role("A")], actor="agent:t")


def test_a_second_store_can_be_opened_beside_the_node(node: Node, tmp_path: Path) -> None:
    node.write(role("A"))
    store = ProjectionStore(tmp_path / "projections.db")
    with store.db:
        store.apply(node.log.read(0, 100))
    assert store.position == node.log.head().position
    store.close()


def test_a_caller_who_no_longer_waits_does_not_end_the_writer(node: Node) -> None:
    impatient = node.writer.exclusive(lambda: None)
    given_up = node.writer.submit([role("A")], actor="agent:t")
    assert not impatient.cancel()
    assert not given_up.cancel(), "a submission is written"
    after = node.writer.submit([role("B")], actor="agent:t").result(timeout=60)
    assert isinstance(after.outcomes[0], Done)
    assert len(ids(node)) == 2


def test_while_the_tables_cannot_be_read_no_key_is_valid(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = [hashlib.sha256(name.encode()).hexdigest() for name in "ab"]
    for number, digest in enumerate(digests):
        node.write(KeyIssued(f"key-{number}", "agent:a", ["read"], digest))
    assert all(node.reader.keys.lookup(digest, 1) for digest in digests)

    def away(_: object) -> None:
        raise StorageFailed("the tables: disk I/O error")

    monkeypatch.setattr(node.reader, "refresh", away)
    node.write(KeyRevoked("key-0"))
    assert not any(node.reader.keys.lookup(digest, 1) for digest in digests)
    assert "behind the log" in str(status_of_node(node)["degraded"])
    monkeypatch.undo()
    node.write(KeyIssued("key-2", "agent:a", ["read"], "0" * 64))
    assert [node.reader.keys.lookup(digest, 1) is None for digest in digests] == [True, False]
    assert status_of_node(node)["degraded"] is None
