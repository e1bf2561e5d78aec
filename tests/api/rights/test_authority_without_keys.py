"""The table of ``docs/ending-facts.md`` on a node without keys. The source of a write decides;
routes by id belong to the operator; ``admin`` routes need the operator's token."""

from collections.abc import Callable, Generator
from itertools import count
from typing import Any

import pytest

from tests.worlds.live import CONTROL_TOKEN, LiveNode

ANN, MAX = "agent:ann", "agent:max"
_number = count()


class Desk:
    """A node without keys, and its own subject for each test."""

    def __init__(self, live: LiveNode) -> None:
        self.live = live
        self.entity = f"user:u{next(_number)}"

    def say(self, source: str, v: str, **fields: Any) -> dict[str, Any]:
        return self.live.state(entity=self.entity, source=source, v=v, **fields)

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        return self.live.call(method, path, json=body, **options)

    def listed(self) -> list[str]:
        found = self.ask("GET", "/v1/facts", params={"entity": self.entity}).json()
        return [each["value"]["v"] for each in found["facts"]]


@pytest.fixture(scope="module")
def open_node(tmp_path_factory: pytest.TempPathFactory) -> Generator[LiveNode]:
    live = LiveNode(tmp_path_factory.mktemp("open") / "data")
    yield live
    live.close()


@pytest.fixture
def desk(open_node: LiveNode) -> Desk:
    return Desk(open_node)


def test_a_write_of_confidence_0_ends_its_sources_fact(desk: Desk) -> None:
    desk.say(ANN, "CEO")
    desk.say(MAX, "retracted", confidence=0.0)
    assert desk.listed() == ["CEO"]
    desk.say(ANN, "retracted", confidence=0.0)
    assert desk.listed() == []


def test_a_batch_retracts_by_id(desk: Desk) -> None:
    said = desk.say(ANN, "CEO")
    items = [{"op": "retract", "id": said["id"]}]
    (result,) = desk.ask("POST", "/v1/facts/batch", items).json()["results"]
    assert result["status"] == 200
    assert desk.listed() == []


def test_a_conflict_can_be_settled(desk: Desk) -> None:
    desk.say(ANN, "CEO")
    other = desk.say(MAX, "CTO")
    (conflict,) = [
        each
        for each in desk.ask("GET", "/v1/conflicts").json()["conflicts"]
        if each["fact_a"]["entity"] == desk.entity
    ]
    path = f"/v1/conflicts/{conflict['conflict_id']}/resolve"
    assert desk.ask("POST", path, {"winning_fact_id": other["id"]}).status_code == 200
    assert desk.listed() == ["CTO"]


def test_attributes_can_be_set_and_memories_merged(desk: Desk) -> None:
    one, other = (desk.say(ANN, v, relation="rel:m") for v in ("a b c", "a b d"))
    path = f"/v1/facts/{one['id']}/attributes"
    assert desk.ask("PATCH", path, {"relevance": -20}).status_code == 200
    merged = desk.ask("POST", "/v1/memories/merge", {"ids": [one["id"], other["id"]]})
    assert merged.status_code == 200, merged.text


def test_memories_and_summaries_can_have_any_owner(desk: Desk) -> None:
    memory = {"content": "drinks black tea", "source": ANN}
    assert desk.ask("POST", "/v1/memories", memory).status_code in (200, 201)
    written = [{"name": "daily/daily_2026-06-15.md", "text": "tea"}]
    body = {"summaries": written, "scope": "company", "source": ANN}
    assert desk.ask("POST", "/v1/summaries", body).status_code in (200, 201)


def test_a_delta_replaces_another_sources_fact(desk: Desk) -> None:
    def apply(name: str, source: str, kind: str, **more: Any) -> Any:
        payload = {"id": name, "subject": "self", "predicate": "lives_in", "object": name}
        origin = {"rule_id": "by-hand", "source_episode_ids": ["e"], "confidence": 1.0}
        stamp = {"promotion_ts": "2026-01-01T00:00:00Z"}
        delta = {"kind": kind, "fact_payload": payload, **origin, **stamp, **more}
        place = {"user": "mara", "agent": "rag", "scope": "company", "source": source}
        return desk.ask("POST", "/v1/deltas", {**place, "deltas": [delta]}).json()["results"]

    (first,) = apply("Graz", ANN, "add")
    (second,) = apply("Linz", MAX, "update", replaces=["Graz"])
    assert (first["status"], second["status"]) == ("applied", "applied")


def test_feedback_needs_no_receipt(desk: Desk) -> None:
    body = {"rejected": [desk.say(ANN, "CEO")["id"]]}
    assert desk.ask("POST", "/v1/recall/feedback", body).status_code == 200


def test_decay_aliases_and_relations_are_the_operators(desk: Desk) -> None:
    for method, path, body, status in (
        ("PUT", "/v1/decay/policies/p", {"mode": "retract", "ttl_s": 10**9}, 200),
        ("POST", "/v1/decay/sweep", {"ttl_seconds": 10**9}, 200),
        ("DELETE", "/v1/decay/policies/p", None, 204),
        ("PUT", "/v1/relations/set-valued", {"relations": ["memory:tag"]}, 200),
        ("POST", "/v1/aliases", {"raw_uri": desk.entity, "canonical_uri": "user:x"}, 201),
        ("DELETE", f"/v1/aliases/{desk.entity}", None, 204),
        ("PUT", "/v1/consolidation/rules/r", {"cadence": {"every": 1}}, 201),
        ("DELETE", "/v1/consolidation/rules/r", None, 204),
    ):
        answer = desk.ask(method, path, body)
        assert answer.status_code == status, (path, answer.text)


def test_who_made_a_garden_moderates_it(desk: Desk) -> None:
    garden = {"slug": "q", "name": "Q", "scope": "company", "quarantine": True}
    assert desk.ask("POST", "/v1/gardens", garden).status_code == 201
    for path in ("/v1/gardens/q/reject", "/v1/quarantine/{id}/reject"):
        said = desk.say(ANN, path, garden_id="q")
        body = {"fact_id": said["id"], "reason": "no"} if path.startswith("/v1/gardens") else None
        answer = desk.ask("POST", path.format(id=said["id"]), body)
        assert answer.status_code == 200, answer.text


ADMINS: list[tuple[str, str, Callable[[str], Any], int]] = [
    ("POST", "/v1/tombstones", lambda name: {"entity_uri": name, "scope": "all"}, 201),
    ("PUT", "/v1/legal-holds", lambda name: {"entity": name, "held": True}, 200),
    ("POST", "/v1/erasures", lambda name: {"entity": name}, 423),
    ("PUT", "/v1/trust/sources", lambda name: {"source": name, "trust": 0.5}, 200),
]


def test_admin_routes_need_the_operators_token(desk: Desk) -> None:
    desk.say(ANN, "CEO")
    for method, path, body, status in ADMINS:
        refused = desk.ask(method, path, body(desk.entity))
        assert refused.status_code == 403, (path, refused.text)
        answer = desk.ask(method, path, body(desk.entity), key=CONTROL_TOKEN)
        assert answer.status_code == status, (path, answer.text)
