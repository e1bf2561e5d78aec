"""Whether a denial is open, as the writer asks the tables."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import FactDenied, Value
from engramlog.projections.tables.conflicts.denials import open_denials
from engramlog.projections.writing.commands import AssertFact, Done, Refused, RetractFact
from tests.worlds.counted_work import sql_work
from tests.worlds.histories import START_US
from tests.worlds.stated_facts import stating

ANN, MAX = "agent:ann", "agent:max"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node.open(tmp_path / "data", clock=FixedClock(START_US))
    yield node
    node.close()


def says(v: str, source: str, confidence: float = 1.0, entity: str = "user:x") -> AssertFact:
    return stating(
        entity=entity, relation="memory:role", value=Value("string", v),
        source=source, scope="company", confidence=confidence,
    )  # fmt: skip


def write(node: Node, *commands: AssertFact) -> list[str]:
    done = node.write(*commands)
    return [each.fact_id or "" for each in done if isinstance(each, Done)]


def still_denying(node: Node, fact: str) -> list[str]:
    with node.reader.pool.connection() as db:
        return open_denials(db, fact)


def test_a_denial_is_open_until_its_source_states_the_value_again(node: Node) -> None:
    (fact,) = write(node, says("CEO", ANN))
    first, second, _ = write(
        node, says("CEO", MAX, 0.0), says("CEO", "agent:eve", 0.0), says("CTO", MAX)
    )
    assert still_denying(node, fact) == [first, second]
    write(node, says("CEO", MAX))
    assert still_denying(node, fact) == [second]
    (third,) = write(node, says("CEO", MAX, 0.0))
    assert still_denying(node, fact) == [second, third]


def test_a_denial_from_a_file_names_a_record_and_facts_of_its_key(node: Node) -> None:
    fact, other, marker, elsewhere = write(
        node,
        says("CEO", ANN),
        says("CTO", ANN),
        msgspec.structs.replace(says("CEO", MAX, 0.0), zero="does nothing"),
        says("CEO", ANN, entity="user:y"),
    )
    absent = "018bcfe5-6800-7000-8000-00000000ffff"

    def refused_field(marker: str, *facts: str) -> str | None:
        (outcome,) = node.write(FactDenied(fact_ids=list(facts), marker_id=marker))
        return outcome.field if isinstance(outcome, Refused) else None

    assert refused_field(absent, fact) == "marker_id"
    assert refused_field(other, fact) == "marker_id"  # it has a confidence
    assert refused_field(marker, fact, absent) == "fact_ids"
    assert refused_field(marker, fact, elsewhere) == "fact_ids"
    assert still_denying(node, fact) == []
    assert refused_field(marker, fact) is None
    assert (still_denying(node, fact), still_denying(node, other)) == ([marker], [])


def test_a_record_that_would_end_too_many_facts_is_refused(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "engramlog.projections.writing.decide.facts.retracting.RETRACTION_TARGETS_MAX"
    monkeypatch.setattr(path, 2)
    first, *others = write(node, *(says(text, ANN) for text in ("A", "B", "C")))
    (outcome,) = node.write(says("retracted", ANN, 0.0))
    assert isinstance(outcome, Refused)
    assert outcome.code == "too_many_targets"
    _, outcome = node.write(RetractFact(fact_id=first), says("retracted", ANN, 0.0))
    assert isinstance(outcome, Done)
    assert set(outcome.retracted) == set(others)


def test_many_denials_and_later_values_of_one_source_are_each_read_once(node: Node) -> None:
    def steps(entity: str, size: int) -> int:
        (fact,) = write(node, says("CEO", ANN, entity=entity))
        write(node, *(says("CEO", MAX, 0.0, entity) for _ in range(size)))
        write(node, *(says(f"role {n}", MAX, entity=entity) for n in range(size)))
        assert len(still_denying(node, fact)) == size
        with node.reader.pool.connection() as db:
            return sql_work(db, lambda db: open_denials(db, fact))

    assert steps("user:y", 120) < 2.5 * steps("user:x", 60)
