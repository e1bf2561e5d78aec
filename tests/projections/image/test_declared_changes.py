"""Keys, gardens and aliases after each change are those of a node that loads all of them."""

import hashlib
import random
from typing import Literal
from uuid import UUID

import pytest

from engramlog.api.node.node import Node
from engramlog.eventlog.kinds import (
    AliasSet,
    GardenCreated,
    GardenMemberSet,
    KeyIssued,
    KeyRevoked,
    Value,
)
from engramlog.projections.image.reader import Reader
from engramlog.projections.writing.commands import (
    Command,
    DeleteGarden,
    Done,
    EraseFacts,
    Refused,
    SetMember,
)
from tests.worlds.histories import asserted

NAMES = [f"user:{name}" for name in ("ann", "bob", "cleo", "dan", "eve")]
KEYS = [hashlib.sha256(bytes([number])).hexdigest() for number in range(6)]
GARDENS = [str(UUID(int=number)) for number in range(4)]
SLUGS = ("herbs", "roses")
CHANGES: list[Literal["add", "change", "remove"]] = ["add", "change", "remove"]
ROLES: list[Literal["admin", "writer", "reader"]] = ["admin", "writer", "reader"]
STEPS = 150


def step(dice: random.Random) -> Command:
    name, other = dice.choice(NAMES), dice.choice(NAMES)
    garden, number = dice.choice(GARDENS), dice.randrange(len(KEYS))
    match dice.randrange(12):
        case 0:
            return KeyIssued(f"key-{number}", name, ["read"], KEYS[number])
        case 1:
            return KeyRevoked(f"key-{number}")
        case 2:
            slug = dice.choice(SLUGS)
            return GardenCreated(garden, slug, slug, "local", name)
        case 3:
            return DeleteGarden(garden_id=garden)
        case 4 | 5 | 6 | 7 | 8 | 9:
            change = dice.choice(CHANGES)
            role = None if change == "remove" else dice.choice(ROLES)
            member = GardenMemberSet(garden, name, other, role)
            return SetMember(member=member, change=change)
        case _:
            return AliasSet(name, dice.choice([other, None]))


def declared(reader: Reader, position: int) -> list[object]:
    """All that a caller can ask about keys, gardens and aliases."""
    return [
        reader.keys.list(),
        [reader.keys.lookup(digest, 1) for digest in KEYS],
        [reader.keys.get(f"key-{number}") for number in range(len(KEYS))],
        reader.gardens.list(),
        [reader.gardens.find(name) for name in (*GARDENS, *SLUGS)],
        [reader.gardens.of_member(name) for name in NAMES],
        [reader.aliases.list(at, "", 10, lambda _: True) for at in range(position + 1)],
        [reader.aliases.named(name[5:], position) for name in NAMES],
    ]


@pytest.mark.parametrize("seed", range(5))
def test_each_change_leaves_what_a_fresh_reader_loads(node: Node, seed: int) -> None:
    dice = random.Random(seed)
    kinds: set[str] = set()
    for _ in range(STEPS):
        done = node.write(step(dice))[0]
        if isinstance(done, Refused):
            continue
        kinds |= {event.header.kind for event in done.events}
        fresh = Reader(node.writer.store.path, node.reader.image)
        try:
            position = node.reader.pin().position
            assert declared(node.reader, position) == declared(fresh, position)
        finally:
            fresh.close()
    assert kinds == {
        "key_issued", "key_revoked", "garden_created", "garden_deleted", "garden_member_set",
        "alias_set",
    }  # fmt: skip


def test_an_entity_is_erased_with_its_aliases_and_no_others(node: Node) -> None:
    ann, bob, cleo, dan, _ = NAMES
    node.write(AliasSet(bob, ann), AliasSet(dan, cleo))
    node.write(asserted(entity=ann, value=Value("string", "text")))
    assert isinstance(node.write(EraseFacts(erasure_id="e", entity=ann))[0], Done)
    position = node.reader.pin().position
    assert node.reader.aliases.resolve(bob, position) == bob
    assert node.reader.aliases.resolve(dan, position) == cleo
