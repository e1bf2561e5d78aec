"""A conversation from its first words to a question about the past: recorded, consolidated on a
cadence, recalled under every profile, corrected, decayed, and queried as of three moments."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.kinds import ConsolidationRan
from engramlog.projections.moment import parse_instant
from engramlog.projections.recall.profile import profile_names
from tests.worlds.documented_console import ROOT
from tests.worlds.live import LiveNode

CONVERSATION = ROOT / "fixtures" / "conversation"
DAY_US = 86_400_000_000
HALF_LIFE = {"relation": "*", "scope": "local", "mode": "confidence", "half_life_s": 864_000.0}


@pytest.fixture
def told(serve: Callable[..., LiveNode]) -> LiveNode:
    """A node with the conversation, each episode recorded when it happened."""
    episodes = [
        json.loads(line) for line in (CONVERSATION / "episodes.jsonl").read_text().splitlines()
    ]
    clock = FixedClock(parse_instant(episodes[0]["timestamp"]) - 60_000_000)
    live = serve(clock=clock, consolidation_enabled=False)
    key = live.key_of("operator", "read", "write", "admin")
    document = json.loads((CONVERSATION / "rule.json").read_text())
    answer = live.call("PUT", "/v1/consolidation/rules/classifier", json=document, key=key)
    assert answer.status_code == 201, answer.text
    for episode in episodes:
        clock.set(parse_instant(episode["timestamp"]))
        answer = live.call("POST", "/v1/episodes", json=episode)
        assert answer.status_code == 201, answer.text
        live.run(live.app_scheduler().tick())
    return live


def facts(live: LiveNode, **query: Any) -> dict[tuple[str, str], Any]:
    answer = live.call("GET", "/v1/deltas/facts", params={"user": "Mara", **query}).json()
    return {
        (fact["payload"]["subject"], fact["payload"]["predicate"]): fact["payload"]["object"]
        for fact in answer["facts"]
    }


def test_three_passes_and_one_episode_set_aside(told: LiveNode) -> None:
    events = told.node.log.read(0, 1_000)
    runs = [event.payload for event in events if isinstance(event.payload, ConsolidationRan)]
    assert [run.episodes for run in runs] == [6, 6, 6]
    assert [len(run.quarantined) for run in runs] == [0, 0, 1]
    assert facts(told) == {
        ("observatory", "located_at"): "Lustbuehel hill",
        ("Jana", "allergic_to"): "nuts",
        ("self", "lives_in"): "Vienna",
        ("self", "works_as"): "head of the data group",
        ("star catalogue", "due"): "2026-05-15",
        ("self", "drinks"): "oolong",
        ("Jana", "may_eat"): "seed bars",
    }


def test_every_fact_leads_to_episodes_and_run(told: LiveNode) -> None:
    answer = told.call("GET", "/v1/deltas/facts", params={"user": "Mara"}).json()
    events = told.node.log.read(0, 1_000)
    runs = {e.payload.run_id for e in events if isinstance(e.payload, ConsolidationRan)}
    for fact in answer["facts"]:
        (lineage,) = fact["lineage"]
        assert lineage["run_id"] in runs
        record = told.call("GET", f"/v1/facts/{fact['fact_id']}").json()
        hashes = [parent["hash"] for parent in record["derived_from"]]
        found = [told.call("GET", f"/v1/episodes/{name}").json()
                 for name in lineage["source_episode_ids"]]  # fmt: skip
        assert hashes == [f"sha256:{episode['hash']}" for episode in found]
        assert all(episode["user"] == "Mara" for episode in found)


@pytest.mark.parametrize("profile", profile_names())
def test_every_profile_recalls_it(told: LiveNode, profile: str) -> None:
    question = "which oolong does she drink"
    body = {"query": question, "scope": "local", "profile": profile, "limit": 3}
    answer = told.call("POST", "/v1/recall", json=body)
    assert answer.status_code == 200, answer.text
    assert any("oolong" in str(each["fact"]["value"]["v"]) for each in answer.json()["results"])


def test_corrected_decayed_and_queried_in_the_past(told: LiveNode) -> None:
    clock = told.node.clock
    assert isinstance(clock, FixedClock)
    instants = ("2026-03-05T00:00:00Z", "2026-03-20T00:00:00Z", "2026-05-03T00:00:00Z")
    clock.set(parse_instant("2026-05-02T12:00:00Z"))
    correction = {
        "user": "Mara", "session": "may-2", "agent": "planner", "id": "ep-19",
        "content": "Not Vienna after all: the flat was in Linz.",
        "metadata": {"intent": "update", "replaces": ["ep-09"], "subject": "self",
                     "predicate": "lives_in", "object": "Linz"},
    }  # fmt: skip
    assert told.call("POST", "/v1/episodes", json=correction).status_code == 201
    run = told.call("POST", "/v1/consolidation/rules/classifier/run", json={}).json()
    assert run["kinds"] == {"add": 0, "update": 1, "delete": 0, "noop": 0}
    clock.set(parse_instant("2026-05-12T12:00:00Z"))
    told.call("PUT", "/v1/decay/policies/fade", json=HALF_LIFE)
    assert told.call("POST", "/v1/decay/sweep", json={"scope": "local"}).status_code == 200
    (now,) = told.call(
        "GET", "/v1/deltas/facts", params={"user": "Mara", "predicate": "lives_in"}
    ).json()["facts"]
    # stated on 2 May, swept ten days later, with a half-life of ten days
    assert (now["payload"]["object"], now["confidence"]) == ("Linz", 0.5)
    clock.set(parse_instant("2026-06-01T00:00:00Z"))
    places = [facts(told, as_of=at, predicate="lives_in") for at in instants]
    assert [place["self", "lives_in"] for place in places] == ["Graz", "Vienna", "Linz"]
    past = told.call(
        "GET", "/v1/deltas/facts",
        params={"user": "Mara", "predicate": "lives_in", "as_of": instants[2]},
    ).json()["facts"]  # fmt: skip
    assert [fact["confidence"] for fact in past] == [1.0]
    trains = [facts(told, as_of=at, predicate="arrives_at") for at in instants]
    assert trains == [{}, {}, {}]  # stated and retracted within one pass
    for at, profile in zip(instants, ("default", "stargraph", "stigmem"), strict=True):
        body = {"query": "where does she live", "scope": "local", "as_of": at, "profile": profile}
        answer = told.call("POST", "/v1/recall", json=body).json()
        assert answer["total_scored"] > 0
