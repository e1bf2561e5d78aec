"""Whether a denial is open, as the writer asks the tables."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import Value
from engramlog.projections.tables.conflicts.denials import open_denials
from engramlog.projections.writing.commands import AssertFact, Done
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


def test_many_denials_and_later_values_of_one_source_are_each_read_once(node: Node) -> None:
    def steps(entity: str, size: int) -> int:
        (fact,) = write(node, says("CEO", ANN, entity=entity))
        write(node, *(says("CEO", MAX, 0.0, entity) for _ in range(size)))
        write(node, *(says(f"role {n}", MAX, entity=entity) for n in range(size)))
        assert len(still_denying(node, fact)) == size
        with node.reader.pool.connection() as db:
            return sql_work(db, lambda db: open_denials(db, fact))

    assert steps("user:y", 120) < 2.5 * steps("user:x", 60)
