"""The protocol's adversarial classes that abuse retraction and contradiction. A trusted agent's
fact stays in the top 3, and the flood stays under 0.75 of its weighted score."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.live import CONTROL_TOKEN, LiveNode

TRUSTED, HOSTILE = "agent:trusted", "agent:hostile"
FLOOD = 30
QUERY = "who is the chief engineer of atlas"


class World:
    """A node with one canonical fact, queried by the trusted agent."""

    def __init__(self, node: LiveNode, keys: bool) -> None:
        self.node = node
        self.trusted = self.hostile = None
        if keys:
            self.trusted = node.mint("read", "write", entity=TRUSTED, sources=None)
            self.hostile = node.mint("read", "write", entity=HOSTILE, sources=None)
        self.canonical = self.say(self.trusted, TRUSTED, "The chief engineer of atlas is Mara")

    def say(
        self, key: str | None, source: str, v: str, confidence: float = 1.0, **more: Any
    ) -> dict[str, Any]:
        said = {"entity": "project:atlas", "relation": "memory:chief-engineer", "type": "text"}
        return self.node.state(
            key=key, v=v, source=source, confidence=confidence, **{**said, **more}
        )

    def recalled(self, profile: str = "default") -> list[dict[str, Any]]:
        body = {"query": QUERY, "scope": "company", "token_budget": 20_000, "profile": profile}
        answer = self.node.call("POST", "/v1/recall", key=self.trusted, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["facts"]

    def check(self, *, under: float | None = None) -> None:
        found = self.recalled()
        ids = [each["fact"]["id"] for each in found]
        assert self.canonical["id"] in ids[:3]
        score = {each["fact"]["id"]: float(each["score"]) for each in found}
        others = [score[fact] for fact in ids if fact != self.canonical["id"]]
        if under is not None and others:
            assert max(others) < under * score[self.canonical["id"]]
            # The protocol's own set judges the flood by this number alone.
            totals = {each["fact"]["id"]: each["score_breakdown"] for each in found}
            assert max(totals[fact]["weighted_total"] for fact in score if fact != ids[0]) <= under


@pytest.fixture(params=[False, True], ids=["no authentication", "keys"])
def world(request: pytest.FixtureRequest, serve: Callable[..., LiveNode]) -> World:
    return World(serve(auth_required=request.param), request.param)


@pytest.mark.parametrize("v", ["retracted", "The chief engineer of atlas is Mara"])
def test_a_second_agent_cannot_retract(world: World, v: str) -> None:
    for _ in range(3):
        world.say(world.hostile, HOSTILE, v, 0.0)
    world.check(under=0.75)
    shown = world.node.call("GET", "/v1/facts", key=world.trusted, params={"limit": 50}).json()
    assert [each["id"] for each in shown["facts"]] == [world.canonical["id"]]


def test_retracting_each_side_of_a_flood_leaves_the_canonical_fact(world: World) -> None:
    for number in range(5):
        world.say(world.hostile, HOSTILE, f"The chief engineer of atlas is nobody {number}", 0.9)
        world.say(world.hostile, HOSTILE, "retracted", 0.0)
    world.check(under=0.75)


@pytest.mark.parametrize("confidence", [0.1, 0.5])
def test_a_flood_of_uncertain_contradictions_stays_below(world: World, confidence: float) -> None:
    for number in range(FLOOD):
        world.say(
            world.hostile,
            HOSTILE,
            f"The chief engineer of atlas is not Mara but somebody {number}",
            confidence,
        )
    world.check(under=0.75)


def test_a_flood_from_an_untrusted_source_stays_below(world: World) -> None:
    trust = {"source": HOSTILE, "trust": 0.3}
    done = world.node.call("PUT", "/v1/trust/sources", key=CONTROL_TOKEN, json=trust)
    assert done.status_code == 200, done.text
    for number in range(FLOOD):
        v = f"The chief engineer of atlas is not Mara but somebody {number}"
        world.say(world.hostile, HOSTILE, v)
    world.check(under=0.75)


@pytest.mark.parametrize("profile", ["default", "stigmem", "stargraph"])
def test_many_facts_of_one_source_do_not_drown_anothers(world: World, profile: str) -> None:
    for number in range(FLOOD):  # different facts, because their validity differs
        v = "The chief engineer of atlas is certainly the chief engineer Eve"
        until = f"2099-01-{number + 1:02}T00:00:00Z"
        world.say(world.hostile, HOSTILE, v, valid_until=until)
    found = world.recalled(profile=profile)
    assert world.canonical["id"] in [each["fact"]["id"] for each in found[:3]]


@pytest.mark.parametrize("count", [FLOOD, 150])
@pytest.mark.parametrize("profile", ["default", "stigmem", "stargraph"])
def test_many_variations_of_one_source_do_not_drown_anothers(
    world: World, profile: str, count: int
) -> None:
    for number in range(count):
        world.say(world.hostile, HOSTILE, f"The chief engineer of atlas is Eve {number}")
    found = world.recalled(profile=profile)
    assert world.canonical["id"] in [each["fact"]["id"] for each in found[:3]]


def test_variations_of_one_source_keep_their_order_if_no_other_disagrees(world: World) -> None:
    for number in range(5):
        said = f"The pilot of zeus is Eve {number}"
        world.say(world.trusted, TRUSTED, said, entity="project:zeus", relation="memory:pilot")
        world.say(world.trusted, TRUSTED, f"tea {number}", entity="project:hera")
    found = [each["fact"]["value"]["v"] for each in world.recalled()]
    assert [each for each in found if "atlas" in each] == [world.canonical["value"]["v"]]
    assert sum("zeus" in each for each in found) == 5


@pytest.mark.parametrize("confidence", [1.0, 0.9])
def test_a_flood_takes_no_side_of_a_contradiction_out_of_the_card(
    world: World, confidence: float
) -> None:
    world.say(world.trusted, TRUSTED, "Bo", confidence, entity="project:zeus")
    for number in range(110):
        world.say(world.hostile, HOSTILE, f"Eve {number} {'x' * 300}", entity="project:zeus")
    assert "Bo" in card(world, "project:zeus")


def test_a_flood_takes_no_fact_out_of_the_card(world: World) -> None:
    for number in range(110):
        world.say(world.hostile, HOSTILE, "x" * 300, relation=f"memory:{number}")
    assert "The chief engineer of atlas is Mara" in card(world, "project:atlas")


def card(world: World, entity: str) -> str:
    where = {"scope": "company", "refresh": True}
    answer = world.node.call("GET", f"/v1/cards/{entity}", key=world.trusted, params=where)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["markdown"])


def test_contradictions_of_one_source_take_at_most_half_of_an_answer(world: World) -> None:
    """An entity's card brings both sides of each contradiction into the answer."""
    for number in range(40):
        for v in ("a", "b"):
            relation = f"memory:dispute-{number}"
            world.say(world.hostile, HOSTILE, f"{v}{number}", relation=relation)
    card(world, "project:atlas")
    about = {"entity": "project:atlas", "force_refresh": True, "token_budget": 500}
    body = {"query": QUERY, "scope": "company", **about}
    for limit in (1, 2, 3, 100):
        answer = world.node.call(
            "POST", "/v1/recall", key=world.trusted, json={**body, "limit": limit}
        ).json()
        assert answer["memory_card"] is not None
        assert answer["facts"][0]["fact"]["id"] == world.canonical["id"]
