"""Past faults around the writer that hit the wrong caller, or all callers."""

import shutil
import threading
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from engramlog.api.node.node import Node
from engramlog.api.node.node_status import status_of_node
from engramlog.eventlog.errors import PayloadTooLarge, StorageFailed, UnknownKind
from engramlog.eventlog.event import UnknownPayload
from engramlog.eventlog.kinds import SCHEMA_VERSIONS, RecallServed, RecallUse, Value
from engramlog.eventlog.log import Idempotency
from engramlog.projections.moment import Moment
from engramlog.projections.tables.database import query
from engramlog.projections.tables.facts.facts import FactsProjector
from engramlog.projections.tables.store import ProjectionStore
from engramlog.projections.writing.commands import (
    AssertFact,
    Done,
    EraseFacts,
    Refused,
    RetractFact,
)
from engramlog.projections.writing.submission import Submission, WriterClosed
from tests.worlds.failing_storage import FailingOnce
from tests.worlds.histories import START_US, asserted


def role(v: str, **more: Any) -> AssertFact:
    return asserted(value=Value("string", v), **more)


def done(outcome: Done | Refused) -> Done:
    assert isinstance(outcome, Done), outcome
    return outcome


def test_a_vanished_caller_does_not_affect_others(node: Node) -> None:
    gate = threading.Event()
    node.writer.exclusive(gate.wait)
    leaving = node.writer.submit([role("A")], actor="agent:t")
    staying = node.writer.submit([role("B", relation="tag:x")], actor="agent:t")
    leaving.cancel()
    gate.set()
    written = done(staying.result(timeout=60).outcomes[0])
    alone = node.writer.submit([role("C", relation="tag:y")], actor="agent:t")
    alone.cancel()
    assert done(node.writer.submit([role("D")], actor="agent:t").result(timeout=60).outcomes[0])
    events = [event.payload for event in node.log.read(0, 100)]
    stated = [event.value.v for event in events if hasattr(event, "value")]  # type: ignore[union-attr]
    assert stated.count("B") == 1
    assert written.fact_id is not None
    assert written.fact_id in node.reader.image.facts.slot_of


def test_a_command_is_not_blamed_for_another_ones_events(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramlog.eventlog.codec.PAYLOAD_BYTES_MAX", 2_000)
    large = Submission([role("x" * 3_000)], "agent:t", None, None, False)
    small = Submission([role("A")], "agent:t", None, START_US, False)
    node.writer.exclusive(lambda: node.writer._write([large, small])).result()
    with pytest.raises(PayloadTooLarge):
        large.answer.result(timeout=0)
    assert done(small.answer.result(timeout=0).outcomes[0])


def test_a_command_that_comes_in_while_the_writer_closes_is_answered(node: Node) -> None:
    gate = threading.Event()
    node.writer.exclusive(gate.wait)
    closing = threading.Thread(target=node.writer.close)
    closing.start()
    while not node.writer._closed:
        pass
    late = Submission([role("late")], "agent:t", None, None, False)
    node.writer._queue.put(late)  # as a submit that checked before the writer closed
    gate.set()
    closing.join()
    with pytest.raises(WriterClosed):
        late.answer.result(timeout=60)


def test_the_memory_image_shows_a_write_that_the_tables_could_not_take_and_a_rebuild_does_too(
    node: Node,
) -> None:
    node.write(role("A"))
    node.reader.image.tail.settle()
    store = node.writer.store
    store.db = FailingOnce(store.db)  # type: ignore[assignment]
    acknowledged = done(node.write(role("B"))[0])  # at a key whose decision reads the tables
    assert status_of_node(node)["degraded"] is not None
    assert acknowledged.fact_id is not None
    assert acknowledged.fact_id in node.reader.image.facts.slot_of
    node.rebuild()
    node.write(role("C", relation="tag:y"))
    assert status_of_node(node)["degraded"] is None


def test_a_fault_of_the_machine_halts_no_projector(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise apsw.ReadOnlyError("the disk was remounted")

    done(node.write(role("0"))[0])  # the next write is at a key whose decision reads the tables
    node.reader.image.tail.settle()
    head = node.log.head()
    with monkeypatch.context() as patch:
        patch.setattr(FactsProjector, "apply", broken)
        with pytest.raises(StorageFailed, match="remounted"):
            node.write(role("A"))
    assert node.log.head() == head
    assert status_of_node(node)["degraded"] is None
    done(node.write(role("A"))[0])


def test_a_log_that_cannot_be_read_halts_no_projector(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the server of a log in PostgreSQL is lost while another node's erasure is applied."""

    def lost(*_: object) -> None:
        raise StorageFailed("the server is away")

    facts = [str(done(node.write(role(v, source=f"agent:{v}"))[0]).fact_id) for v in "abc"]
    events = node.log.read(0, 100)
    store = ProjectionStore(tmp_path / "other.db", history=node.log)
    with store.db:
        store.apply(events)
    node.write(EraseFacts(erasure_id="e", fact_ids=(facts[0],)))
    monkeypatch.setattr("engramlog.projections.tables.erasing.read_at", lost)
    with pytest.raises(StorageFailed, match="the server is away"), store.db:
        store.apply(node.log.read(events[-1].position, 100))
    assert not store.halted
    store.close()


def test_one_recall_batch_may_name_a_fact_twice(node: Node) -> None:
    fact = str(done(node.write(role("A"))[0]).fact_id)
    node.write(RecallServed(uses=[RecallUse(fact, 1, 5_000), RecallUse(fact, 2, 4_000)]))
    assert status_of_node(node)["degraded"] is None
    view = node.reader.pin()
    slots = view.entity_slots(int(view.entity[0]))
    assert view.access_count(slots, node.moment()).tolist() == [3]
    with node.reader.pool.connection() as db:
        assert query(db, "SELECT count, last_at_us FROM fact_accesses") == [(3, 5_000)]
        assert query(db, "SELECT access_count, last_accessed_at FROM facts") == [(3, 5)]


def test_a_refused_item_is_refused_on_retry(node: Node) -> None:
    fact = str(done(node.write(role("A"))[0]).fact_id)
    intents = [
        role("B", relation="tag:x"),
        RetractFact(fact_id="none"),
        RetractFact(fact_id=fact),
        RetractFact(fact_id=fact),
    ]
    key = Idempotency("agent:t", "key", b"digest")
    first, again = (
        node.writer.submit(intents, actor="agent:t", idempotency=key).result() for _ in range(2)
    )
    codes = [[getattr(each, "code", None) for each in a.outcomes] for a in (first, again)]
    assert codes[0] == [None, "fact_not_found", None, "fact_already_retracted"]
    assert codes[1] == codes[0]
    assert [done(a.outcomes[2]).retracted for a in (first, again)] == [(fact,), (fact,)]
    assert again.replayed
    assert again.position == first.position


def test_receipt_times_of_files_are_kept_and_never_go_back(tmp_path: Path) -> None:
    node = Node.open(tmp_path / "data", epoch_clock="file")
    start = node.log.head().received_at
    wanted = [start + 10_000_000, start + 5_000_000, start + 20_000_000]
    for number, at_us in enumerate(wanted):
        node.writer.submit([role(f"v{number}")], actor="agent:t", received_at=at_us).result()
    events = node.log.read(1, 10)
    assert [event.received_at for event in events] == [wanted[0], wanted[0], wanted[2]]
    view = node.reader.pin()
    assert view.recorded_at.tolist() == [event.header.recorded_at for event in events]
    node.close()


def test_an_unknown_kind_from_a_peer_is_noted(node: Node, tmp_path: Path) -> None:
    node.write(role("A"))
    events = node.log.read(0, 10)
    header = msgspec.structs.replace(events[-1].header, kind="fact_dreamt", schema_version=3)
    strange = msgspec.structs.replace(
        events[-1],
        position=events[-1].position + 1,
        peer="stigmem:node:other",
        header=header,
        payload=UnknownPayload("fact_dreamt", 3),
    )
    store = ProjectionStore(tmp_path / "other.db")
    with store.db:
        store.apply([*events, strange])
    assert store.position == strange.position
    noted = query(store.db, "SELECT kind, schema_version FROM unknown_events")
    assert noted == [("fact_dreamt", 3)]
    assert not store.halted
    store.close()


def test_a_node_does_not_start_on_what_a_later_release_wrote_behind_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node.open(tmp_path / "data")
    node.write(role("A"))
    tables = node.writer.store.path
    node.close()
    shutil.copy(tables, tmp_path / "tables")
    node = Node.open(tmp_path / "data")
    node.write(role("B"))
    node.close()
    shutil.copy(tmp_path / "tables", tables)
    with monkeypatch.context() as earlier:
        earlier.setitem(SCHEMA_VERSIONS, "fact_asserted", 3)
        with pytest.raises(UnknownKind, match=r"position 3: .*'fact_asserted' version 4 is of a"):
            Node.open(tmp_path / "data")
    node = Node.open(tmp_path / "data")
    assert node.reader.pin().count == 2
    node.close()


def test_an_as_of_read_ignores_concurrent_writes(node: Node) -> None:
    for number in range(50):
        node.write(role(f"v{number}", relation=f"memory:r{number}"))
    view = node.reader.pin()
    moment = Moment(view.position, START_US)
    seen: list[tuple[object, ...]] = []
    stop = threading.Event()

    def look() -> None:
        slots = view.entity_slots(int(view.entity[0]))
        while not stop.is_set():
            seen.append(
                (
                    view.confidence(slots, moment).tolist(),
                    view.access_count(slots, moment).tolist(),
                    view.trust(slots, moment).tolist(),
                )
            )

    reader = threading.Thread(target=look)
    reader.start()
    ids = list(node.reader.image.facts.slot_of)
    for fact in ids:
        node.write(RecallServed(uses=[RecallUse(fact, 1, 1)]))
        node.write(RetractFact(fact_id=fact))
    stop.set()
    reader.join()
    assert set(map(repr, seen)) == {repr(([1.0] * 50, [0] * 50, [1.0] * 50))}


def test_a_bulk_file_keeps_no_rows_of_a_halted_projector(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(400):
        done(node.write(role(f"{number} " + "x" * 200, relation=f"memory:r{number}"))[0])
    apply = FactsProjector.apply

    def broken(self: FactsProjector, events: Any, db: apsw.Connection) -> None:
        apply(self, events, db)
        if events[-1].position > 300:
            raise ValueError("cannot be")

    monkeypatch.setattr(FactsProjector, "apply", broken)
    store = ProjectionStore(tmp_path / "bulk.db", bulk=True, history=node.log)
    for after in range(0, 400, 100):
        with store.db:
            store.apply(node.log.read(after, 100))
    assert list(store.halted) == ["facts"]
    kept = query(store.db, "SELECT count(*), max(from_position) FROM facts")
    assert query(store.db, "PRAGMA integrity_check") == [("ok",)]
    assert kept[0][0] < 301
    assert kept[0][1] <= 300
    store.close()
