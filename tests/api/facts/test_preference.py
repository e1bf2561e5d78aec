"""The side of a contradiction that shows, against the rule written out naively."""

import random
from typing import Any

import pytest

from tests.worlds.live import LiveNode

FROM = (None, None, None, "2020-01-01T00:00:00Z", "2090-01-01T00:00:00Z")
UNTIL = (None, None, None, "2089-01-01T00:00:00Z", "2095-01-01T00:00:00Z")
Fact = dict[str, Any]


def key(fact: Fact) -> tuple[str, ...]:
    return fact["entity"], fact["relation"], fact["scope"]


def overlap(one: Fact, other: Fact) -> bool:
    """Instants of one form compare as text."""
    return (one["valid_from"] or "") < (other["valid_until"] or "~") and (
        other["valid_from"] or ""
    ) < (one["valid_until"] or "~")


def begun(fact: Fact) -> bool:
    return (fact["valid_from"] or "") < "2050"


def shows(fact: Fact, facts: list[Fact], prefer: str | None) -> bool:
    """The value of highest effective confidence shows. Of ties all show, except those of a source
    that states several of them; or its newest alone, where that is preferred. What has not begun
    hides nothing that has."""
    own = fact["value"]["v"]
    siblings = [
        each for each in facts if key(each) == key(fact) and (begun(each) or not begun(fact))
    ]
    rivals = {each["value"]["v"] for each in siblings if overlap(each, fact)} - {own}
    heard = [each for each in siblings if each["value"]["v"] in {own, *rivals}]

    def rank(each: Fact) -> tuple[float, str]:
        return each["effective_confidence"], each["hlc"] if prefer == "hlc" else ""

    highest = [each for each in heard if rank(each) == max(map(rank, heard))]
    said: dict[str, set[str]] = {}
    for each in sorted(highest, key=lambda each: each["hlc"]):
        if prefer == "source":
            said.pop(each["source"], None)
        said.setdefault(each["source"], set()).add(each["value"]["v"])
    return not rivals or {own} in [values for values in said.values() if len(values) == 1]


def random_items(rng: random.Random, keys: int, count: int) -> list[Fact]:
    return [
        {
            "entity": f"user:{rng.randrange(keys)}",
            "relation": rng.choice(("memory:a", "memory:b")),
            "value": {"type": "string", "v": rng.choice("ABC")},
            "source": f"agent:{rng.randrange(4)}",
            "scope": rng.choice(("company", "public")),
            "confidence": rng.choice((0.2, 0.5, 0.5, 1.0)),
            "valid_from": rng.choice(FROM),
            "valid_until": rng.choice(UNTIL),
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize(("seed", "keys", "count"), [(1, 3, 40), (2, 8, 60), (3, 90, 400)])
def test_the_list_follows_the_rule(live: LiveNode, seed: int, keys: int, count: int) -> None:
    items = random_items(random.Random(seed), keys, count)
    live.call("POST", "/v1/facts/batch", json=items)
    everything = {"include_contradicted": "true", "limit": "500"}
    facts = live.call("GET", "/v1/facts", params=everything).json()["facts"]
    for prefer in (None, "hlc", "source"):
        params = {"limit": "500"} if prefer is None else {"limit": "500", "prefer": prefer}
        shown = live.call("GET", "/v1/facts", params=params).json()
        expected = [fact["id"] for fact in facts if shows(fact, facts, prefer)]
        assert [fact["id"] for fact in shown["facts"]] == expected
        assert shown["total"] == len(expected)
        assert 0 < len(expected) < len(facts)


@pytest.mark.parametrize("confidence", [0.5, 1.0])
def test_a_fact_that_has_not_begun_hides_none_that_has(live: LiveNode, confidence: float) -> None:
    live.state(v="Graz", confidence=0.5, valid_from="2020-01-01T00:00:00Z")
    live.state(v="Wien", confidence=confidence, valid_from="2090-01-01T00:00:00Z")
    for params in ({}, {"prefer": "source"}, {"prefer": "hlc"}):
        facts = live.call("GET", "/v1/facts", params=params).json()["facts"]
        assert ("Graz", True) in [(each["value"]["v"], each["contradicted"]) for each in facts]
