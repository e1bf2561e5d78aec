"""What a subscriber may read decides at the moment of each delivery, and for each key."""

import asyncio
import json
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import httpx
import pytest
from aiohttp import web

from engramlog.api.routes.time_travel import subscriptions
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.waiting import until
from tests.worlds.webhook_receiver import Receiver

OF_FACTS = {"target": "company", "event_types": ["fact_asserted"]}


@pytest.fixture
def live(serve: Callable[..., LiveNode]) -> LiveNode:
    return serve(auth_required=True, webhooks_allow_private=True)


def subscribe(live: LiveNode, key: str, **fields: Any) -> dict[str, Any]:
    answer = live.call("POST", "/v1/subscriptions", json={**OF_FACTS, **fields}, key=key)
    assert answer.status_code == 201, answer.text
    return answer.json()


def busy_with_three(live: LiveNode, receiver: Receiver, **fields: Any) -> list[str]:
    """The ids of three facts in one page of deliveries to ann; the receiver has not answered the
    first yet. ``fields`` are the second's."""
    ann = live.key_of("ann")
    receiver.turns = threading.Semaphore(0)
    subscribe(live, ann, on_change="webhook", delivery_address=receiver.url)
    live.state(key=ann, v="before")
    until(lambda: len(receiver.got) == 1)
    facts = [
        live.state(key=ann, v="first", relation="memory:n1"),
        live.state(key=ann, v="second", relation="memory:n2", **fields),
        live.state(key=ann, v="third", relation="memory:n3"),
    ]
    receiver.turns.release()
    until(lambda: len(receiver.got) == 2)
    return [fact["id"] for fact in facts]


def rest_of(receiver: Receiver) -> list[str]:
    """The ids of the facts told after the one from before."""
    assert receiver.turns is not None
    receiver.turns.release(10)
    until(lambda: receiver.told[-1]["fact"]["value_v"] == "third")
    return list(dict.fromkeys(each["fact"]["id"] for each in receiver.told[1:]))


def test_a_page_under_way_ends_at_a_left_garden(live: LiveNode, receiver: Receiver) -> None:
    asked = {"slug": "secret", "name": "Secret", "scope": "company"}
    garden = live.call("POST", "/v1/gardens", key=CONTROL_TOKEN, json=asked).json()["id"]
    members = f"/v1/gardens/{garden}/members"
    member = {"entity_uri": "agent:ann", "role": "writer"}
    live.call("POST", members, key=CONTROL_TOKEN, json=member)
    first, _, third = busy_with_three(live, receiver, garden_id=garden)
    live.call("DELETE", f"{members}/agent:ann", key=CONTROL_TOKEN)
    assert rest_of(receiver) == [first, third]


def test_a_page_under_way_omits_a_fact_erased_meanwhile(live: LiveNode, receiver: Receiver) -> None:
    first, second, third = busy_with_three(live, receiver)
    asked = {"fact_ids": [second], "wait": True}
    assert live.call("POST", "/v1/erasures", json=asked, key=CONTROL_TOKEN).status_code < 300
    assert rest_of(receiver) == [first, third]


def test_a_page_under_way_omits_a_fact_hidden_meanwhile(live: LiveNode, receiver: Receiver) -> None:
    first, _, third = busy_with_three(live, receiver, entity="user:gone")
    asked = {"entity_uri": "user:gone", "reason": "asked"}
    assert live.call("POST", "/v1/tombstones", json=asked, key=CONTROL_TOKEN).status_code < 300
    assert rest_of(receiver) == [first, third]


def test_another_key_of_the_subscriber_reads_only_what_it_may(live: LiveNode) -> None:
    wide = live.mint("read", "write", entity="agent:ann", scopes=["company", "public"])
    narrow = live.mint("read", entity="agent:ann", scopes=["public"])
    made = subscribe(live, wide, on_change="wake", delivery_address="agent:ann")
    live.state(key=wide, v="for the company")
    path = f"/v1/subscriptions/{made['id']}/events"
    assert live.call("GET", path, key=wide).json()["total"] == 1
    assert live.call("GET", path, key=narrow).json()["total"] == 0


def test_a_new_key_subscribes_again_under_the_same_idempotency_key(live: LiveNode) -> None:
    body = {"on_change": "wake", "delivery_address": "agent:ann", "idempotency_key": "once"}
    old = live.mint("read", entity="agent:ann", scopes=["company"])
    new = live.mint("read", entity="agent:ann", scopes=["company", "team"])
    made = subscribe(live, old, **body)
    assert subscribe(live, old, **body)["id"] == made["id"]
    assert subscribe(live, new, **body)["id"] != made["id"]


def test_a_stream_under_way_omits_a_fact_erased_meanwhile(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = live.key_of("ann")
    made = subscribe(live, ann, on_change="wake", delivery_address="agent:ann")
    path = f"/v1/subscriptions/{made['id']}"
    live.state(key=ann, v="before")
    live.state(key=ann, v="first", relation="memory:n1")
    cursor = live.call("GET", f"{path}/events", params={"limit": 1}, key=ann).json()["cursor"]
    second = live.state(key=ann, v="second", relation="memory:n2")
    live.state(key=ann, v="third", relation="memory:n3")
    reached, erased = threading.Event(), threading.Event()

    async def write(response: web.StreamResponse, data: bytes) -> None:
        if b"first" in data:
            reached.set()
            await asyncio.to_thread(erased.wait)
        await response.write(data)

    monkeypatch.setattr(subscriptions, "_write", write)
    headers = {"Authorization": f"Bearer {ann}", "Last-Event-ID": cursor}
    with httpx.stream("GET", f"{live.url}{path}/stream", headers=headers, timeout=60) as answer:
        until(reached.is_set)
        asked = {"fact_ids": [second["id"]], "wait": True}
        assert live.call("POST", "/v1/erasures", json=asked, key=CONTROL_TOKEN).status_code < 300
        erased.set()
        told: list[str] = []
        for line in answer.iter_lines():
            if line.startswith("data: "):
                told.append(json.loads(line[6:])["payload"]["value_v"])
            if "third" in told:
                break
    assert list(dict.fromkeys(told)) == ["first", "third"]


def test_an_events_id_outlasts_the_erasure_of_others(live: LiveNode) -> None:
    ann = live.key_of("ann")
    types = ["fact_retracted", "contradiction_detected"]
    made = subscribe(live, ann, on_change="wake", delivery_address="agent:ann", event_types=types)
    gone = live.state(key=ann, v="gone", entity="user:a", relation="memory:a")
    stays = live.state(key=ann, v="stays", entity="user:a", relation="memory:a")
    ended = {"entity": "user:a", "relation": "memory:a", "confidence": 0.0, "type": "null"}
    live.state(key=ann, **ended)

    def ids() -> dict[tuple[str, str], str]:
        path = f"/v1/subscriptions/{made['id']}/events"
        events = live.call("GET", path, key=ann).json()["events"]
        named = {(each["event_type"], each["fact_id"]): each["id"] for each in events}
        assert len(set(named.values())) == len(events)
        return named

    before = ids()
    asked = {"fact_ids": [gone["id"]], "wait": True}
    assert live.call("POST", "/v1/erasures", json=asked, key=CONTROL_TOKEN).status_code < 300
    stayed = ("fact_retracted", stays["id"])
    assert ids() == {stayed: before[stayed]}


def test_a_stream_stays_alive_while_others_facts_come_all_the_time(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "HEARTBEAT_SECONDS", 0.1)
    wide = live.mint("read", "write", entity="agent:bob", scopes=["team"])
    ann = live.mint("read", entity="agent:ann", scopes=["company"])
    made = subscribe(live, ann, on_change="wake", delivery_address="agent:ann")
    begun, told = threading.Event(), threading.Event()

    def others() -> None:
        for number in count():
            if told.is_set():
                return
            live.state(key=wide, scope="team", relation="memory:n", v=f"{number}")
            begun.set()

    writing = threading.Thread(target=others)
    writing.start()
    until(begun.is_set)
    url = f"{live.url}/v1/subscriptions/{made['id']}/stream"
    headers = {"Authorization": f"Bearer {ann}"}
    try:
        with httpx.stream("GET", url, headers=headers, timeout=5) as answer:
            assert ": still here" in answer.iter_lines()
    finally:
        told.set()
        writing.join()
