"""The tables follow the log in batches: readers see no difference, and nothing is lost."""

import random
from pathlib import Path
from typing import Any

import apsw
import pytest

from engramlog.api.node.node import Node
from engramlog.api.node.node_status import status_of_node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.errors import StorageError
from engramlog.eventlog.kinds import Value
from engramlog.projections.image import table_tail
from engramlog.projections.tables.store import ProjectionStore
from engramlog.projections.writing.commands import Command, Done, RetractFact
from engramlog.projections.writing.submission import WriterDegraded
from tests.worlds.failing_storage import Failing, FailingOnce
from tests.worlds.histories import asserted
from tests.worlds.waiting import until


@pytest.fixture(autouse=True)
def behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that follow only on request."""
    monkeypatch.setattr(table_tail, "SECONDS_MAX", 3_600.0)


def fact(number: int, **more: Any) -> Any:
    return asserted(entity=f"item:{number}", value=Value("string", "A"), **more)


def stated(node: Node, number: int, **more: Any) -> str:
    (outcome,) = node.write(fact(number, **more))
    assert isinstance(outcome, Done)
    assert outcome.fact_id is not None
    return outcome.fact_id


def test_a_new_fact_is_acknowledged_before_the_tables_and_seen_by_every_reader(node: Node) -> None:
    before = node.writer.store.position
    name = stated(node, 1)
    assert node.writer.store.position == before
    assert status_of_node(node)["projections"]["facts"]["lag"] == 1
    view = node.reader.pin()
    slot = node.reader.slot_of(name)
    assert slot is not None
    (row,) = node.reader.rows([int(view.from_position[slot])])
    assert row.id == name
    assert node.writer.store.position == node.log.head().position


def test_a_reader_of_older_rows_does_not_force_the_tail(node: Node) -> None:
    stated(node, 1)
    node.reader.image.tail.settle()
    old = node.log.head().position
    stated(node, 2)
    assert len(node.reader.rows([old])) == 1
    assert node.reader.image.tail.count == 1


def test_the_tables_follow_by_themselves(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_tail, "SECONDS_MAX", 0.001)
    stated(node, 1)
    assert until(lambda: node.writer.store.position == node.log.head().position)


def test_no_more_than_the_bound_waits(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_tail, "EVENTS_MAX", 3)
    for number in range(3):
        stated(node, number)
    assert until(lambda: node.reader.image.tail.count == 0)


def test_closing_writes_waiting_events(node: Node) -> None:
    stated(node, 1)
    head, link = node.log.head().position, node.directory.projections_path
    node.close()
    store = ProjectionStore(link)
    assert store.position == head
    store.close()


def test_events_waiting_at_a_crash_are_caught_up(node: Node) -> None:
    before = node.writer.store.position
    names = {stated(node, number) for number in range(5)}
    node.reader.image.tail._events.clear()  # a crash forgets what is in memory
    node.close()
    assert node.writer.store.position == before
    after = Node.open(node.directory.path)
    assert set(after.reader.image.facts.slot_of) == names
    assert after.writer.store.position == after.log.head().position
    assert after.rebuild().digest == after.reader.digests().local
    after.close()


def test_a_reader_sees_that_the_tables_fail_and_the_next_attempt_mends_it(node: Node) -> None:
    name = stated(node, 1)
    store = node.writer.store
    store.db = FailingOnce(store.db)  # type: ignore[assignment]
    with pytest.raises(StorageError):
        node.reader.digests()
    assert "behind the log" in str(status_of_node(node)["degraded"])
    assert node.reader.slot_of(name) is not None
    stated(node, 2)
    assert status_of_node(node)["degraded"] is None
    assert node.rebuild().digest == node.reader.digests().local


@pytest.mark.parametrize(
    "error", [apsw.FullError, apsw.IOError, apsw.BusyError, apsw.ReadOnlyError]
)
@pytest.mark.parametrize("allows", [(), ("BEGIN",)])
def test_the_writer_outlives_tables_that_fail_at_every_call(
    node: Node, monkeypatch: pytest.MonkeyPatch, error: type[Exception], allows: tuple[str, ...]
) -> None:
    monkeypatch.setattr(table_tail, "SECONDS_MAX", 0.001)
    monkeypatch.setattr(table_tail, "PAUSE_SECONDS", 0.001)
    store = node.writer.store
    db = Failing(store.db, *allows)
    store.db = db  # type: ignore[assignment]
    db.error = error
    stated(node, 1)
    assert until(lambda: "behind the log" in str(status_of_node(node)["degraded"]))
    with pytest.raises(WriterDegraded):
        stated(node, 2)
    db.error = None
    stated(node, 3)
    assert status_of_node(node)["degraded"] is None
    assert node.rebuild().digest == node.reader.digests().local


def test_while_the_tables_fail_the_writer_answers_although_no_more_may_wait(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_tail, "EVENTS_MAX", 3)
    store = node.writer.store
    db = Failing(store.db)
    store.db = db  # type: ignore[assignment]
    db.error = apsw.FullError
    node.write(*(fact(number) for number in range(5)))
    assert until(lambda: "behind the log" in str(status_of_node(node)["degraded"]))
    answer = node.writer.submit([fact(6)], actor="agent:t")
    with pytest.raises(WriterDegraded):
        answer.result(timeout=60)
    db.error = None
    stated(node, 7)
    assert node.rebuild().digest == node.reader.digests().local


def test_while_the_tables_fail_nothing_more_is_taken(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StorageError("no space left")

    stated(node, 1)
    with monkeypatch.context() as patch:
        patch.setattr(ProjectionStore, "apply", away)
        with pytest.raises(StorageError):
            node.reader.digests()
        with pytest.raises(WriterDegraded):
            stated(node, 2)
    stated(node, 2)
    assert len(node.reader.image.facts.slot_of) == 2


def _life(seed: int) -> list[Command]:
    """Facts stated, restated, changed and ended, over a few keys."""
    chance = random.Random(seed)
    return [
        asserted(
            entity=f"item:{chance.randrange(6)}",
            value=Value("string", chance.choice("AB")),
            source=chance.choice(("agent:ann", "agent:bo")),
            confidence=chance.choice((1.0, 1.0, 0.8, 0.0)),
        )
        for _ in range(40)
    ]


def _lived(folder: Path, seed: int) -> tuple[list[Any], Node]:
    """A node's answers to a life, with facts named by their order in the answers."""
    node = Node.open(folder, clock=FixedClock(1_700_000_000_000_000))
    names: dict[str, int] = {}
    answers: list[Any] = []
    chance = random.Random(seed)
    for command in _life(seed):
        (outcome,) = node.write(command)
        if isinstance(outcome, Done):
            facts = [*outcome.retracted, *filter(None, [outcome.fact_id])]
            told = [names.setdefault(fact, len(names)) for fact in facts]
            answers.append((told, outcome.created, outcome.contradicted))
        else:
            answers.append(outcome.code)
        if names and chance.random() < 0.2:
            end = RetractFact(fact_id=chance.choice(list(names)))
            answers.append(type(node.write(end)[0]))
    return answers, node


@pytest.mark.parametrize("seed", range(2))
def test_decisions_and_tables_are_those_of_a_node_that_waits_for_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    answers, node = _lived(tmp_path / "behind", seed)
    told = node.reader.digests()
    assert node.rebuild().digest == told.local
    node.close()
    monkeypatch.setattr(table_tail, "SECONDS_MAX", 0.0)
    again, waiting = _lived(tmp_path / "waiting", seed)
    waiting.close()
    assert answers == again
