"""A write costs what holds now, however much of the same once held."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import (
    AliasSet,
    DecayPolicy,
    GardenCreated,
    GardenMemberSet,
    LegalHoldSet,
    PolicySet,
    SourceTrustSet,
    Value,
)
from engramlog.projections.writing.commands import (
    AssertFact,
    Command,
    Done,
    RetractFact,
    RetractMatching,
)
from tests.worlds.histories import asserted

TIMES = 2_000
ENTITY, RELATION = "user:u", "memory:t"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node.open(tmp_path / "data")
    yield node
    node.close()


def write(node: Node, *commands: Command) -> list[Done]:
    done = node.write(*commands)
    assert all(isinstance(each, Done) for each in done), done
    node.reader.image.tail.settle()
    return [each for each in done if isinstance(each, Done)]


def work(node: Node, *commands: Command) -> int:
    """Hundreds of steps of SQLite's machine that the commands and their rows take."""
    db = node.writer.store.db
    steps = [0]

    def step() -> bool:
        steps[0] += 1
        return False

    node.writer.exclusive(lambda: db.set_progress_handler(step, 100)).result()
    try:
        write(node, *commands)
    finally:
        node.writer.exclusive(lambda: db.set_progress_handler(None)).result()
    return steps[0]


def stated(n: int) -> AssertFact:
    value = Value("string", f"v{n}")
    return asserted(ENTITY, RELATION, value, source=f"agent:s{n % 3}")


def with_past(node: Node) -> None:
    """Values of one key by three sources, of which one each holds."""
    facts = write(node, *(stated(n) for n in range(TIMES)))
    write(node, *(RetractFact(fact_id=str(fact.fact_id)) for fact in facts[:-3]))


FACTS: dict[str, Callable[[Sequence[Done]], Command]] = {
    "a new value": lambda _: stated(TIMES),
    "an equal value": lambda _: stated(TIMES - 1),
    "a record of confidence 0": lambda _: asserted(
        ENTITY, RELATION, Value("string", "retracted"), source="agent:s1", confidence=0.0
    ),
    "an end by id": lambda facts: RetractFact(fact_id=str(facts[0].fact_id)),
    "an end by content": lambda _: RetractMatching(
        entity=ENTITY, relation=RELATION, scope="local", value=Value("string", "last")
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FACTS)
def test_a_keys_ended_facts_are_not_read(node: Node, kind: str) -> None:
    with_past(node)
    facts = write(node, asserted(ENTITY, RELATION, Value("string", "last"), source="agent:s1"))
    assert work(node, FACTS[kind](facts)) < TIMES // 100


def _role(n: int) -> Command:
    role = "writer" if n % 2 else "reader"
    return GardenMemberSet(garden_id="g", entity_uri="agent:m", role=role, added_by="agent:a")


SETTINGS: dict[str, Callable[[int], Command]] = {
    "an alias": lambda n: AliasSet(raw_uri="user:al", canonical_uri=f"user:a{n % 2}"),
    "a policy": lambda n: PolicySet(policy_id="p", policy=DecayPolicy(id="p", ttl_s=float(n + 1))),
    "a source's trust": lambda n: SourceTrustSet(source="agent:s", trust=n % 100 / 100),
    "a hold": lambda n: LegalHoldSet(target_kind="entity", target="user:u", held=n % 2 == 0),
    "a member's role": _role,
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_earlier_settings_are_not_read(node: Node, kind: str) -> None:
    write(
        node,
        GardenCreated(garden_id="g", slug="g", name="g", scope="local", created_by="agent:a"),
    )
    write(node, *(SETTINGS[kind](n) for n in range(TIMES)))
    assert work(node, SETTINGS[kind](TIMES)) < TIMES // 100
