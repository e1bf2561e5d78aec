"""Deltas of other sources: they neither block a source's own, nor stand for them, nor end what it
said, also where a rule makes them of episodes that any writer may record."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.live import LiveNode
from tests.worlds.memory_requests import apply, delta, facts, put
from tests.worlds.portable import exported, read_back

ANN, MAX = "agent:ann", "agent:max"


class Shared:
    """A node of two sources, which share a user, an agent and a scope."""

    def __init__(self, live: LiveNode) -> None:
        self.live = live
        self.ann = live.mint("read", "write", entity=ANN, sources=None)
        self.max = live.mint("read", "write", entity=MAX, sources=None)
        self.admin = live.mint("read", "write", "admin", entity="agent:root", sources=None)

    def apply(self, key: str, *deltas: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
        answer = apply(self.live, *deltas, key=key, scope="company", **fields)
        assert answer.status_code == 200, answer.text
        return answer.json()["results"]

    def promote(self, key: str, what: str) -> dict[str, Any]:
        row = {"subject": "self", "predicate": "drinks", "object": what, "triple_id": "t"}
        body = {"rule_id": "kg", "user": "Alice", "agent": "rag", "scope": "company"}
        path = "/v1/consolidation/triples"
        answer = self.live.call("POST", path, key=key, json={**body, "triples": [row]})
        return answer.json()["results"][0]

    def said(self) -> set[tuple[str, str]]:
        """Source and value of every live fact of a delta."""
        found: set[tuple[str, str]] = set()
        for each in facts(self.live, key=self.ann):
            path = f"/v1/facts/{each['fact_id']}"
            fact = self.live.call("GET", path, key=self.ann).json()
            found.add((fact["source"], fact["value"]["v"]))
        return found

    def rule(self, **fields: Any) -> None:
        document = {"cadence": {"every": 1_000_000}, "scope": "company", **fields}
        path = "/v1/consolidation/rules/r"
        answer = self.live.call("PUT", path, key=self.admin, json=document)
        assert answer.status_code in (200, 201), answer.text

    def run(self) -> dict[str, Any]:
        path = "/v1/consolidation/rules/r/run"
        answer = self.live.call("POST", path, key=self.max, json={})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def episode(self, key: str, name: str, **metadata: Any) -> None:
        put(self.live, key=key, id=name, scope="company", metadata=metadata)


@pytest.fixture
def shared(serve: Callable[..., LiveNode]) -> Shared:
    return Shared(serve(auth_required=True))


@pytest.mark.parametrize("earlier", ["tea", "hemlock"])
def test_a_name_that_another_source_used_is_free(shared: Shared, earlier: str) -> None:
    shared.apply(shared.max, delta("add", id="f", object=earlier))
    (made,) = shared.apply(shared.ann, delta("add", id="f", object="tea", confidence=0.9))
    assert made["status"] == "applied"
    assert shared.said() == {(MAX, earlier), (ANN, "tea")}
    shared.apply(shared.max, delta("add", id="f", object="poison"))
    update = delta("update", id="g", object="milk", replaces=["f"], expected_version=2)
    shared.apply(shared.ann, update)
    assert shared.said() == {(MAX, "poison"), (ANN, "milk")}


def test_a_name_that_only_a_fact_above_the_caller_has_is_missing(shared: Shared) -> None:
    (secret,) = shared.apply(shared.max, delta("add", id="f", object="hemlock"))
    path = f"/v1/facts/{secret['fact_id']}/attributes"
    answer = shared.live.call("PATCH", path, key=shared.max, json={"classification": 2})
    assert answer.status_code == 200, answer.text
    for name in ("f", secret["fact_id"], "nothing"):
        ends = delta("delete", replaces=[name])
        answer = apply(shared.live, ends, key=shared.ann, scope="company")
        assert (answer.status_code, answer.json()["detail"]["reason"]) == (409, "missing")


def test_what_another_source_said_first_is_said_again(shared: Shared) -> None:
    both = [shared.apply(key, delta("add", id="f"))[0] for key in (shared.max, shared.ann)]
    assert [each["status"] for each in both] == ["applied", "applied"]
    assert shared.apply(shared.ann, delta("add", id="f"))[0]["status"] == "known"
    assert shared.promote(shared.max, "tea")["status"] == "applied"
    assert shared.promote(shared.ann, "tea")["status"] == "applied"
    assert shared.promote(shared.ann, "tea")["status"] == "known"
    path = f"/v1/facts/{both[0]['fact_id']}/retract"
    assert shared.live.call("POST", path, key=shared.max, json={}).status_code == 200
    assert (ANN, "tea") in shared.said()


def test_another_sources_triple_under_the_same_id_blocks_none(shared: Shared) -> None:
    shared.promote(shared.max, "hemlock")
    assert shared.promote(shared.ann, "tea")["status"] == "applied"
    assert shared.said() == {(MAX, "hemlock"), (ANN, "tea")}


def test_another_sources_value_is_no_second_one(shared: Shared) -> None:
    shared.apply(shared.max, delta("add", id="f", object="hemlock"))
    shared.apply(shared.ann, delta("add", id="g"), single_valued=["drinks"])
    answer = apply(
        shared.live, delta("add", id="h", object="milk"), key=shared.ann, scope="company",
        single_valued=["drinks"],
    )  # fmt: skip
    assert answer.json()["detail"]["reason"] == "contradiction"


def test_a_delta_of_several_sources_survives_export_and_import(
    shared: Shared, tmp_path: Path
) -> None:
    for key in (shared.max, shared.ann):
        shared.apply(key, delta("add", id="f"))
    lines = exported(shared.live.node)
    with read_back(lines, tmp_path / "copy") as (copy, _), copy.reader.pool.connection() as db:
        rows = db.execute("SELECT f.source FROM deltas d JOIN fact_rows f ON f.id=d.fact_id")
        assert {row[0] for row in rows} == {ANN, MAX}


@pytest.mark.parametrize("intent", ["delete", "update", None])
def test_a_rule_ends_nothing_of_another_source(shared: Shared, intent: str | None) -> None:
    shared.rule()
    shared.apply(shared.ann, delta("add", id="f"))
    said = {} if intent is None else {"intent": intent, "replaces": ["f"]}
    shared.episode(shared.max, "mine", subject="self", predicate="drinks", object="rum", **said)
    shared.episode(shared.max, "f", subject="self", predicate="eats", object="rum")
    shared.run()
    assert (ANN, "tea") in shared.said()


def test_a_rule_replaces_what_the_same_source_said(shared: Shared) -> None:
    shared.rule()
    drinks = {"subject": "self", "predicate": "drinks"}
    shared.episode(shared.ann, "one", object="tea", **drinks)
    shared.episode(shared.max, "two", object="rum", **drinks)
    shared.episode(shared.ann, "three", object="milk", **drinks)
    shared.run()
    assert shared.said() == {(ANN, "milk"), (MAX, "rum")}


def test_a_rule_with_a_source_replaces_what_it_said_of_any_episode(shared: Shared) -> None:
    shared.rule(source="agent:clerk")
    drinks = {"subject": "self", "predicate": "drinks"}
    shared.episode(shared.ann, "one", object="tea", **drinks)
    shared.run()
    shared.episode(shared.max, "two", object="milk", **drinks)
    shared.run()
    assert shared.said() == {("agent:clerk", "milk")}
