"""Ids of episodes belong to their recorder: another's episode under the same id neither blocks nor
hides one's own, nor stands in the lineage of its facts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.live import LiveNode
from tests.worlds.memory_requests import apply, delta, facts, put
from tests.worlds.portable import exported, read_back

ANN, MAX = "agent:ann", "agent:max"
WHERE = {"scope": "company", "timestamp": "2026-01-01T00:00:00Z"}


class Recorders:
    """A node of two recorders of one user, agent and scope; Max takes the id first."""

    def __init__(self, live: LiveNode) -> None:
        self.live = live
        self.ann = live.mint("read", "write", entity=ANN, sources=None)
        self.max = live.mint("read", "write", entity=MAX, sources=None)
        self.admin = live.mint("read", "write", "admin", entity="agent:root", sources=None)
        self.taken = self.put(self.max, "rum")
        self.own = self.put(self.ann, "tea")

    def put(self, key: str, what: str, **more: Any) -> Any:
        metadata = {"subject": "self", "predicate": "drinks", "object": what}
        fields: dict[str, Any] = {
            "id": "ep-1",
            "content": what,
            "metadata": metadata,
            **WHERE,
            **more,
        }
        return put(self.live, key=key, **fields)

    def get(self, key: str, name: str = "ep-1") -> Any:
        answer = self.live.call("GET", f"/v1/episodes/{name}", key=key)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def consolidate(self, **body: Any) -> Any:
        rule = {"cadence": {"every": 1_000_000}, "scope": "company"}
        path = "/v1/consolidation/rules/r"
        answer = self.live.call("PUT", path, key=self.admin, json=rule)
        assert answer.status_code in (200, 201), answer.text
        return self.live.call("POST", f"{path}/run", key=self.admin, json=body).json()

    def parents(self, fact_id: str) -> list[str]:
        fact = self.live.call("GET", f"/v1/facts/{fact_id}", key=self.ann).json()
        return [each["hash"] for each in fact["derived_from"]]


@pytest.fixture
def recorders(serve: Callable[..., LiveNode]) -> Recorders:
    return Recorders(serve(auth_required=True))


def test_an_id_that_another_used_is_free_and_ones_own_is_kept(recorders: Recorders) -> None:
    assert recorders.own["key"] != recorders.taken["key"]
    again = recorders.put(recorders.ann, "tea", status=200)
    assert again["key"] == recorders.own["key"]
    answer = recorders.live.call(
        "POST", "/v1/episodes", key=recorders.ann,
        json={"user": "Alice", "session": "S1", "agent": "rag", "id": "ep-1", "content": "milk",
              "scope": "company"},
    )  # fmt: skip
    assert answer.json()["detail"]["code"] == "episode_conflict"


def test_the_own_episode_is_read_and_a_key_is_exact(recorders: Recorders) -> None:
    assert recorders.get(recorders.ann)["content"] == "tea"
    assert recorders.get(recorders.max)["content"] == "rum"
    assert recorders.get(recorders.admin)["content"] == "rum", "of others, the oldest"
    recorders.put(recorders.max, "a disguise", id=recorders.own["key"])
    assert recorders.get(recorders.max, recorders.own["key"])["content"] == "tea"


def test_an_access_counts_for_the_own_episode(recorders: Recorders) -> None:
    path = "/v1/episodes/accesses"
    answer = recorders.live.call("POST", path, key=recorders.ann, json={"episodes": ["ep-1"]})
    assert answer.json() == {"accessed": [recorders.own["key"]]}


def test_a_rule_makes_a_fact_of_each_and_each_names_its_own(recorders: Recorders) -> None:
    report = recorders.consolidate()
    assert report["kinds"]["add"] == 2
    assert len({each["delta_id"] for each in report["deltas"]}) == 2
    made = {each["payload"]["object"]: each["fact_id"] for each in facts(recorders.live,
            key=recorders.ann)}  # fmt: skip
    assert set(made) == {"rum", "tea"}
    rum, tea = (recorders.parents(made[what]) for what in ("rum", "tea"))
    assert len(rum) == len(tea) == 1
    assert rum != tea
    for key, what in ((recorders.ann, "tea"), (recorders.max, "rum")):
        assert [each["fact_id"] for each in recorders.get(key)["deltas"]] == [made[what]]
    again = recorders.consolidate(from_position=1)
    assert (again["applied"], again["known"]) == (0, 2)


def test_reading_again_misses_none_whose_namesake_was_promoted(recorders: Recorders) -> None:
    noop = {"intent": "noop"}
    recorders.put(recorders.max, "x", id="ep-2", metadata=noop)
    recorders.consolidate()
    recorders.put(recorders.ann, "water", id="ep-2")
    assert recorders.consolidate(from_position=1)["applied"] == 1


def test_a_delta_by_hand_derives_from_its_callers_episode(recorders: Recorders) -> None:
    made: list[str] = []
    for key, what in ((recorders.ann, "tea"), (recorders.max, "rum")):
        said = delta("add", id="f", object=what)
        answer = apply(recorders.live, said, key=key, scope="company")
        made.append(answer.json()["results"][0]["fact_id"])
    assert recorders.parents(made[0]) != recorders.parents(made[1])
    assert [each["fact_id"] for each in recorders.get(recorders.ann)["deltas"]] == made[:1]


def test_an_erasure_takes_no_episode_of_another_under_the_same_id(recorders: Recorders) -> None:
    recorders.consolidate()
    (tea,) = (each for each in facts(recorders.live, key=recorders.ann)
              if each["payload"]["object"] == "tea")  # fmt: skip
    body = {"fact_ids": [tea["fact_id"]], "episodes": True, "reason": "request"}
    answer = recorders.live.call("POST", "/v1/erasures", key=recorders.admin, json=body)
    assert answer.status_code < 300, answer.text
    assert recorders.get(recorders.max)["content"] == "rum"
    key = recorders.own["key"]
    gone = recorders.live.call("GET", f"/v1/episodes/{key}", key=recorders.admin)
    assert gone.status_code == 404


def test_both_survive_export_and_import(recorders: Recorders, tmp_path: Path) -> None:
    recorders.consolidate()
    lines = exported(recorders.live.node)
    with read_back(lines, tmp_path / "copy") as (copy, _), copy.reader.pool.connection() as db:
        rows = set(db.execute("SELECT actor, content FROM episodes WHERE id='ep-1'"))
        assert rows == {(ANN, "tea"), (MAX, "rum")}
        same = db.execute(
            "SELECT f.source, e.actor FROM derivations v JOIN episodes e ON e.hash=v.parent_hash"
            " JOIN fact_rows f ON f.from_position=v.from_position"
        )
        assert set(same) == {(ANN, ANN), (MAX, MAX)}
