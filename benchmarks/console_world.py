"""A large memory to view: many entities, one hub, conflicts, retractions, over 900 days."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.report import say
from benchmarks.workload import RELATIONS, SOURCES, WORDS, command_of
from engramlog.api.node.node import Node
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import SetValuedDeclared
from engramlog.projections.writing.commands import AssertFact

BATCH = 2_000
HOST = "stigmem://bench.example"
HUB = f"{HOST}/team/everyone"
BEGAN_US = 1_704_067_200_000_000
SPAN_US = 900 * 86_400_000_000
CONFLICTS_PART = 0.01


def build(data: Path, facts: int) -> None:
    """Write ``facts`` facts: a tenth about the hub, a tenth that refer to it, one in a hundred
    in conflict with another, the rest about entities with five facts each."""
    clock = FixedClock(BEGAN_US)
    node = Node.open(data, clock=clock)
    try:
        node.write(SetValuedDeclared(relations=["log:entry"]))
        for number, batch in enumerate(_batches(_all(facts))):
            clock.set(BEGAN_US + SPAN_US * number * BATCH // facts)
            node.writer.submit(batch, actor=f"{HOST}/agent/importer").result()
            if number % 50 == 49:
                say(f"{(number + 1) * BATCH:,} facts written")
    finally:
        node.close()


def _batches(commands: Iterator[AssertFact]) -> Iterator[list[AssertFact]]:
    batch: list[AssertFact] = []
    for command in commands:
        batch.append(command)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _all(facts: int) -> Iterator[AssertFact]:
    chance = random.Random(7)
    every = round(1 / CONFLICTS_PART)
    for number in range(facts):
        if number % every == every - 1:
            # another source contradicts a fact of the last entity
            yield _said(chance, number - 3, SOURCES[number // every % 4 + 1])
        elif number % 10 == 4:
            yield _about_hub(chance, number)
        elif number % 10 == 7:
            yield _to_hub(number)
        else:
            yield _said(chance, number, SOURCES[0])


def _name(number: int) -> str:
    entity = number // len(RELATIONS)
    words = len(WORDS)
    return f"{HOST}/item/{WORDS[entity % words]}-{WORDS[entity // words % words]}-{entity}"


def _text(chance: random.Random, number: int) -> dict[str, Any]:
    return {"type": "text", "v": " ".join(chance.choices(WORDS, k=12)) + f" {number}"}


def _said(chance: random.Random, number: int, source: str) -> AssertFact:
    relation = RELATIONS[number % len(RELATIONS)]
    return _command(_name(number), relation, _text(chance, number), source)


def _about_hub(chance: random.Random, number: int) -> AssertFact:
    relation = "log:entry" if number % 20 == 4 else f"memory:topic-{number}"
    return _command(HUB, relation, _text(chance, number), SOURCES[number % 5])


def _to_hub(number: int) -> AssertFact:
    return _command(_name(number), "rel:member-of", {"type": "ref", "v": HUB}, SOURCES[0])


def _command(entity: str, relation: str, value: dict[str, Any], source: str) -> AssertFact:
    return command_of(
        {
            "entity": entity,
            "relation": relation,
            "value": value,
            "source": source,
            "scope": "company",
        }
    )
