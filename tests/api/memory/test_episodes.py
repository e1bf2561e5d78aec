"""Episodes over HTTP: written with three names, read by the first one, two or three."""

from collections.abc import Callable
from typing import Any

import pytest

from engramlog.eventlog.clock import FixedClock
from tests.worlds.live import LiveNode
from tests.worlds.memory_requests import put

ADVERSARIES = ("Alice", "alice", "Al_ce", "Alice2", "%", "Bob", "Bob/session/S9", "Bob%2Fsession")


def ids(live: LiveNode, key: str | None = None, **query: Any) -> list[str]:
    answer = live.call("GET", "/v1/episodes", params=query, key=key)
    assert answer.status_code == 200, answer.text
    return [episode["id"] for episode in answer.json()["episodes"]]


def test_an_episode_comes_back_from_its_session(live: LiveNode) -> None:
    made = put(live, id="ep-1", metadata={"subject": "self"}, run_id="run-1", step=2)
    assert made["scope_key"] == "/user/Alice/session/S1/agent/rag/"
    found = live.call(
        "GET", "/v1/episodes", params={"user": "Alice", "session": "S1", "limit": 10}
    ).json()["episodes"]
    assert [each["id"] for each in found] == ["ep-1"]
    assert (found[0]["metadata"], found[0]["run_id"], found[0]["step"]) == (
        {"subject": "self"}, "run-1", 2,
    )  # fmt: skip


def test_omitted_names_widen_the_read(live: LiveNode) -> None:
    put(live, session="S1", agent="rag", id="ep-a")
    put(live, session="S2", agent="summarizer", id="ep-b")
    assert set(ids(live, user="Alice", limit=10)) == {"ep-a", "ep-b"}
    assert ids(live, user="Alice", agent="summarizer") == ["ep-b"]
    assert ids(live, user="Alice", session="S1", agent="summarizer") == []
    assert live.call("GET", "/v1/episodes").status_code == 422


@pytest.mark.parametrize("user", ADVERSARIES)
def test_each_user_reads_exactly_its_own(live: LiveNode, user: str) -> None:
    for name in ADVERSARIES:
        put(live, user=name, id=f"of {name}")
    assert ids(live, user=user) == [f"of {user}"]


def test_episodes_are_in_order_of_instant_not_of_text(live: LiveNode) -> None:
    put(live, id="noon", timestamp="2026-01-01T12:00:00Z")
    put(live, id="eight", timestamp="2026-01-01T13:00:00+05:00")
    assert ids(live, user="Alice") == ["noon", "eight"]


def test_a_repetition_is_known_and_another_body_is_refused(live: LiveNode) -> None:
    first = put(live, id="ep-1", timestamp="2026-01-01T12:00:00Z")
    again = put(live, id="ep-1", timestamp="2026-01-01T12:00:00Z", status=200)
    assert again["key"] == first["key"]
    answer = live.call(
        "POST",
        "/v1/episodes",
        json={"user": "Bob", "session": "S1", "agent": "rag", "content": "x", "id": "ep-1"},
    )
    assert answer.status_code == 409
    assert answer.json()["detail"]["code"] == "episode_conflict"
    assert ids(live, user="Bob") == []
    assert ids(live, user="Alice") == ["ep-1"]


def test_an_undated_episode_sent_again_is_the_same_episode(
    serve: Callable[..., LiveNode],
) -> None:
    clock = FixedClock(1_800_000_000_000_000)
    live = serve(clock=clock)
    first = put(live, id="retried")
    clock.advance(5_000_000)
    again = put(live, id="retried", status=200)
    assert again["key"] == first["key"]
    dated = {"user": "Alice", "session": "S1", "agent": "rag", "content": "hello", "id": "retried"}
    other = live.call("POST", "/v1/episodes", json={**dated, "timestamp": "2020-01-01T00:00:00Z"})
    assert other.json()["detail"]["code"] == "episode_conflict"


def test_an_id_of_another_scope_is_another_episodes(live: LiveNode) -> None:
    put(live, id="ep-1", scope="team")
    put(live, id="ep-1", scope="local", content="other")
    assert ids(live, user="Alice", scope="team") == ["ep-1"]


@pytest.mark.parametrize("name", ["", "a\x07b", "x" * 257])
def test_names_must_be_usable(live: LiveNode, name: str) -> None:
    body = {"user": name, "session": "S", "agent": "a", "content": "x"}
    answer = live.call("POST", "/v1/episodes", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "user"]


def test_names_are_compared_in_normal_form(live: LiveNode) -> None:
    put(live, user="Zoe\u0308", id="ep-1")
    assert ids(live, user="Zoë") == ["ep-1"]


def test_unknown_fields_are_refused(live: LiveNode) -> None:
    body = {"user": "A", "session": "S", "agent": "a", "content": "x", "mood": 3}
    assert live.call("POST", "/v1/episodes", json=body).status_code == 422
    assert live.call("GET", "/v1/episodes", params={"user": "A", "mood": 3}).status_code == 422


def test_a_batch_is_recorded_in_order_and_pages_continue(live: LiveNode) -> None:
    batch = [
        {"user": "Alice", "session": "S1", "agent": "rag", "content": str(n), "id": f"ep-{n}",
         "timestamp": f"2026-01-01T00:00:0{n // 2}Z"}
        for n in range(6)
    ]  # fmt: skip
    answer = live.call("POST", "/v1/episodes/batch", json={"episodes": batch})
    assert (answer.status_code, answer.json()["recorded"]) == (201, 6)
    seen: list[str] = []
    query: dict[str, Any] = {"user": "Alice", "limit": 4}
    page = live.call("GET", "/v1/episodes", params=query).json()
    seen += [each["id"] for each in page["episodes"]]
    put(live, id="late")  # does not change a walk in progress
    page = live.call("GET", "/v1/episodes", params={**query, "cursor": page["cursor"]}).json()
    seen += [each["id"] for each in page["episodes"]]
    assert seen == ["ep-5", "ep-4", "ep-3", "ep-2", "ep-1", "ep-0"]
    assert page["cursor"] is None
    again = live.call("POST", "/v1/episodes/batch", json={"episodes": batch})
    assert (again.status_code, again.json()["known"]) == (200, 6)


def test_a_batch_that_repeats_an_id_records_it_once_or_is_refused(live: LiveNode) -> None:
    one = {"user": "Alice", "session": "S1", "agent": "rag", "content": "hello", "id": "ep-1",
           "timestamp": "2026-01-01T00:00:00Z"}  # fmt: skip
    other = {**one, "content": "bye"}
    answer = live.call("POST", "/v1/episodes/batch", json={"episodes": [one, other]})
    assert answer.status_code == 409
    assert answer.json()["detail"]["code"] == "episode_conflict"
    assert ids(live, user="Alice") == []
    answer = live.call("POST", "/v1/episodes/batch", json={"episodes": [one, one]})
    assert (answer.json()["recorded"], answer.json()["known"]) == (1, 1)
    assert ids(live, user="Alice") == ["ep-1"]


def test_accesses_are_events_and_the_past_does_not_know_them(live: LiveNode) -> None:
    made = put(live, id="ep-1")
    before = live.node.log.head().position
    answer = live.call("POST", "/v1/episodes/accesses", json={"episodes": ["ep-1"]})
    assert answer.json() == {"accessed": [made["key"]]}
    now = live.call("GET", "/v1/episodes/ep-1").json()
    assert now["access_count"] == 1
    assert now["last_accessed_at"] is not None
    then = live.call("GET", "/v1/episodes/ep-1", params={"as_of": f"position:{before}"}).json()
    assert (then["access_count"], then["last_accessed_at"]) == (0, None)
    answer = live.call("POST", "/v1/episodes/accesses", json={"episodes": ["ep-2"]})
    assert answer.status_code == 404


def test_an_episode_is_unknown_before_it_is_recorded(live: LiveNode) -> None:
    put(live, id="ep-1")
    before = live.node.log.head().position
    put(live, id="ep-2")
    assert ids(live, user="Alice", as_of=f"position:{before}") == ["ep-1"]
    answer = live.call("GET", "/v1/episodes/ep-2", params={"as_of": f"position:{before}"})
    assert answer.status_code == 404


def test_episodes_of_a_scope_or_garden_are_its_readers_alone(
    serve: Callable[..., LiveNode],
) -> None:
    live = serve(auth_required=True)
    team = live.mint("read", "write", entity="agent:team", scopes=["team"])
    local = live.mint("read", "write", entity="agent:local", scopes=["local"])
    member = live.mint("read", "write", entity="agent:member", scopes=["team"])
    put(live, id="secret", scope="team", key=team)
    assert ids(live, key=local, user="Alice") == []
    absent = live.call("GET", "/v1/episodes/nothing", key=local)
    hidden = live.call("GET", "/v1/episodes/secret", key=local)
    assert (hidden.status_code, hidden.json()) == (absent.status_code, absent.json())
    body = {"user": "A", "session": "S", "agent": "a", "content": "x", "scope": "team"}
    answer = live.call("POST", "/v1/episodes", key=local, json=body)
    assert answer.status_code == 403
    garden = live.call(
        "POST", "/v1/gardens", key=member, json={"slug": "g", "name": "G", "scope": "team"}
    ).json()
    put(live, id="in garden", scope="team", garden_id="g", key=member)
    assert ids(live, key=member, user="Alice") == ["in garden", "secret"]
    assert ids(live, key=team, user="Alice") == ["secret"]
    assert live.call("GET", "/v1/episodes/in garden", key=team).status_code == 404
    body["garden_id"] = garden["id"]
    assert live.call("POST", "/v1/episodes", key=team, json=body).status_code == 404
