"""Rights that change between requests: no answer shows a fact that its caller may not read any
more, or not yet, and every list has what it may read now."""

import random
from pathlib import Path

import pytest

from tests.worlds.changing_rights import Caller, ChangingRights

STEPS = 32


@pytest.mark.parametrize("seed", range(4))
def test_answers_follow_present_rights_only(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    world = ChangingRights(tmp_path / "node", rng, ("warn", "quarantine", "strip", "block")[seed])
    try:
        for number in range(STEPS):
            world.take()
            if number % 4 == 3:
                look(world, world.callers[rng.choice(sorted(world.callers))])
        for caller in world.callers.values():
            look(world, caller)
        assert len(world.facts) > STEPS // 8
    finally:
        world.live.close()


def look(world: ChangingRights, caller: Caller) -> None:
    """Ask everything; compare with the model."""
    for number, ask in enumerate(world.questions(caller)):
        answer = world.call(caller.key, ask)
        assert answer.status_code < 500, (ask, answer.text)
        told = world.leak(caller, ask, answer.text)
        assert told is None, (caller, ask, told)
        if answer.status_code != 200 or ask.path == "/v1/export":
            continue
        found = answer.json()
        if number == 0:
            listed = {each["id"] for each in found["facts"]}
            readable = {
                name for name, told in world.facts.items() if world.sees(caller, told, listed=True)
            }
            assert readable <= listed
        if isinstance(found, dict):
            world.keep(caller, ask, found)
    if not caller.prefix:
        world.subscribe(caller)
