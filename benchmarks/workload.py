"""Facts to write: realistic in size and repetition, the same for the same seed."""

import random
from collections.abc import Iterator
from typing import Any

from engramlog.eventlog.kinds import FactAsserted, Value
from engramlog.projections.cid import with_cid
from engramlog.projections.writing.commands import AssertFact

SOURCES = [f"stigmem://bench.example/agent/{name}" for name in ("ann", "bo", "cy", "di", "ed")]
RELATIONS = ["memory:role", "memory:note", "memory:decision", "preference:tool", "roadmap:next"]
WORDS = tuple(
    word
    for line in (
        "ledger billing migration quarterly review incident response kubernetes rollout design",
        "database schema customer contract renewal latency budget hiring plan release candidate",
        "security audit finding dashboard metric alert pipeline warehouse vendor invoice payment",
    )
    for word in line.split()
)


def fact_bodies(count: int, seed: int = 7, first: int = 0) -> Iterator[dict[str, Any]]:
    """Assert bodies over ``count`` distinct (entity, relation) pairs; every tenth is a ref."""
    chance = random.Random(seed)
    for number in range(first, first + count):
        entity = f"stigmem://bench.example/item/{number // len(RELATIONS)}"
        value: dict[str, Any]
        if number % 10 == 9:
            target = chance.randrange(max(1, number))
            value = {"type": "ref", "v": f"stigmem://bench.example/item/{target}"}
        else:
            value = {"type": "text", "v": " ".join(chance.choices(WORDS, k=12)) + f" {number}"}
        yield {
            "entity": entity,
            "relation": RELATIONS[number % len(RELATIONS)],
            "value": value,
            "source": chance.choice(SOURCES),
            "scope": "local",
        }


def command_of(body: dict[str, Any]) -> AssertFact:
    """The intent that HTTP makes of a body without normalising."""
    value = Value(body["value"]["type"], body["value"]["v"])
    fact = FactAsserted(
        entity=body["entity"],
        relation=body["relation"],
        value=value,
        source=body["source"],
        scope=body["scope"],
    )
    return AssertFact(with_cid(fact))


def intents(count: int, seed: int = 7, first: int = 0) -> list[AssertFact]:
    """``fact_bodies`` as intents."""
    return [command_of(body) for body in fact_bodies(count, seed, first)]
