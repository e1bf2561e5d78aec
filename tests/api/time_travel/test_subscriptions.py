"""Subscriptions: who receives which events, by webhook, by page and as a stream."""

import hashlib
import hmac
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from engramlog.api.client.webhook_addresses import address_fault, is_public
from engramlog.api.node.node import Node
from engramlog.api.node.tasks import webhook_delivery
from engramlog.api.routes.time_travel import subscriptions
from engramlog.projections.tables.declared.subscriptions import (
    LEDGER_NAME,
    DeliveryLedger,
    SubscriptionRow,
)
from tests.worlds.failing_storage import Failing
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.waiting import until
from tests.worlds.webhook_receiver import Receiver

ENTITY = "stigmem://t.example/user/alice"


@pytest.fixture
def open_node(serve: Callable[..., LiveNode]) -> LiveNode:
    return serve(webhooks_allow_private=True)


def subscribe(live: LiveNode, key: str | None = None, **body: Any) -> dict[str, Any]:
    asked = {"target": "company", "on_change": "wake", "delivery_address": "agent:me", **body}
    answer = live.call("POST", "/v1/subscriptions", json=asked, key=key)
    assert answer.status_code == 201, answer.text
    return answer.json()


def events(live: LiveNode, made: dict[str, Any], key: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        params = {"limit": 2} | ({} if cursor is None else {"cursor": cursor})
        answer = live.call("GET", f"/v1/subscriptions/{made['id']}/events", params=params, key=key)
        assert answer.status_code == 200, answer.text
        found += answer.json()["events"]
        cursor = answer.json()["cursor"]
        if cursor is None:
            return found


def types(found: list[dict[str, Any]]) -> list[str]:
    return [each["event_type"] for each in found]


def test_every_kind_of_change_is_delivered_once(live: LiveNode) -> None:
    live.state(v="before")
    made = subscribe(live)
    first = live.state(relation="memory:role", v="CEO")
    live.state(relation="memory:role", v="CFO", source="agent:other")
    live.state(relation="memory:elsewhere", v="x", scope="local")
    live.call("POST", f"/v1/facts/{first['id']}/retract", json={})
    found = events(live, made)
    assert types(found) == [
        "fact_asserted", "contradiction_detected", "card_refreshed",
        "fact_asserted", "contradiction_detected", "card_refreshed",
        "fact_retracted", "card_refreshed",
    ]  # fmt: skip
    assert found[0]["fact_id"] == first["id"]
    assert found[0]["payload"]["value_v"] == "CEO"
    assert found[0]["delivery_status"] == "pending"
    assert len({each["id"] for each in found}) == len(found)
    assert [each["id"] for each in events(live, made)] == [each["id"] for each in found]


def test_an_entity_and_some_types_alone(live: LiveNode) -> None:
    made = subscribe(live, target=ENTITY, event_types=["fact_asserted"])
    live.state(entity="stigmem://t.example/user/bob", v="x")
    mine = live.state(v="y")
    assert [each["fact_id"] for each in events(live, made)] == [mine["id"]]


def test_an_alias_means_its_entity(live: LiveNode) -> None:
    alias = {"raw_uri": "user:al", "canonical_uri": ENTITY}
    assert live.call("POST", "/v1/aliases", json=alias, key=CONTROL_TOKEN).status_code == 201
    made = subscribe(live, target="User:Al", event_types=["fact_asserted"])
    fact = live.state(entity="user:al")
    assert made["target"] == ENTITY
    assert [each["fact_id"] for each in events(live, made)] == [fact["id"]]


def test_a_subscription_is_made_once_listed_and_ended(live: LiveNode) -> None:
    made = subscribe(live, idempotency_key="once")
    assert {name: made[name] for name in ("target_kind", "on_change", "circuit_open")} == {
        "target_kind": "scope", "on_change": "wake", "circuit_open": False,
    }  # fmt: skip
    assert subscribe(live, idempotency_key="once")["id"] == made["id"]
    listed = live.call("GET", "/v1/subscriptions").json()
    assert (listed["total"], listed["subscriptions"][0]["id"]) == (1, made["id"])
    assert "signing_secret" not in listed["subscriptions"][0]
    path = f"/v1/subscriptions/{made['id']}"
    assert live.call("GET", path).json()["id"] == made["id"]
    assert live.call("DELETE", path).status_code == 204
    assert live.call("GET", path).status_code == 404
    assert live.call("DELETE", path).json()["detail"]["code"] == "subscription_not_found"


def test_an_idempotency_key_of_another_subscription_is_refused(live: LiveNode) -> None:
    made = subscribe(live, idempotency_key="once")
    other = subscribe(live, target="team")
    for body in ({"target": "local"}, {"target": "team"}):
        same = {"on_change": "wake", "delivery_address": "agent:me", "idempotency_key": "once"}
        answer = live.call("POST", "/v1/subscriptions", json=same | body)
        assert answer.status_code == 409
        assert answer.json()["detail"]["code"] == "idempotency_conflict"
    listed = live.call("GET", "/v1/subscriptions").json()["subscriptions"]
    assert {each["id"] for each in listed} == {made["id"], other["id"]}


def test_the_same_subscription_twice_is_one(live: LiveNode) -> None:
    made = subscribe(live)
    assert subscribe(live)["id"] == made["id"]
    assert subscribe(live, idempotency_key="new")["id"] == made["id"]
    types = ["fact_retracted", "fact_asserted"]
    some = subscribe(live, event_types=types)
    assert some["id"] != made["id"]
    assert subscribe(live, event_types=types[::-1])["id"] == some["id"]
    others = [{"target": "team"}, {"delivery_address": "agent:you"}]
    ids = {subscribe(live, **other)["id"] for other in others}
    assert len(ids | {made["id"], some["id"]}) == 4
    assert live.call("DELETE", f"/v1/subscriptions/{made['id']}").status_code == 204
    assert subscribe(live)["id"] != made["id"]


def test_events_since_an_instant(live: LiveNode) -> None:
    made = subscribe(live, event_types=["fact_asserted"])
    live.state(relation="memory:a", v="before")
    second = live.state(relation="memory:b", v="after")
    path = f"/v1/subscriptions/{made['id']}/events"

    def told(since: str) -> list[str]:
        answer = live.call("GET", path, params={"since": since})
        assert answer.status_code == 200, answer.text
        return [each["fact_id"] for each in answer.json()["events"]]

    assert told(second["timestamp"]) == [second["id"]]
    assert told(second["timestamp"].replace("+", " ")) == [second["id"]]
    assert len(told("2020-01-01T00:00:00Z")) == 2
    assert told("2099-01-01T00:00:00Z") == []
    assert live.call("GET", path, params={"since": "yesterday"}).status_code == 422


def test_a_subscription_is_its_owners(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    ann, bob = live.key_of("ann"), live.key_of("bob")
    made = subscribe(live, ann)
    for path in ("", "/events", "/stream"):
        found = live.call("GET", f"/v1/subscriptions/{made['id']}{path}", key=bob)
        absent = live.call("GET", f"/v1/subscriptions/none{path}", key=bob)
        assert (found.status_code, found.content) == (404, absent.content)
    assert live.call("DELETE", f"/v1/subscriptions/{made['id']}", key=bob).status_code == 404
    assert live.call("GET", "/v1/subscriptions", key=bob).json()["total"] == 0


def test_rights_at_delivery_decide(serve: Callable[..., LiveNode]) -> None:
    live = serve(auth_required=True)
    ann = live.key_of("ann")
    garden = live.call(
        "POST", "/v1/gardens", key=CONTROL_TOKEN,
        json={"slug": "secret", "name": "Secret", "scope": "company"},
    ).json()["id"]  # fmt: skip
    member = {"entity_uri": "agent:ann", "role": "writer"}
    live.call("POST", f"/v1/gardens/{garden}/members", key=CONTROL_TOKEN, json=member)
    made = subscribe(live, ann, event_types=["fact_asserted"])
    open_fact = live.state(key=ann, v="open")
    hidden = live.state(key=ann, v="hidden", garden_id=garden, relation="memory:other")
    assert [e["fact_id"] for e in events(live, made, ann)] == [open_fact["id"], hidden["id"]]
    live.call("DELETE", f"/v1/gardens/{garden}/members/agent:ann", key=CONTROL_TOKEN)
    assert [e["fact_id"] for e in events(live, made, ann)] == [open_fact["id"]]


def test_a_webhook_gets_changes_in_order_and_signed(
    open_node: LiveNode, receiver: Receiver
) -> None:
    made = subscribe(
        open_node, on_change="webhook", delivery_address=receiver.url,
        event_types=["fact_asserted", "fact_retracted"],
    )  # fmt: skip
    facts = [open_node.state(relation=f"memory:n{n}", v=str(n)) for n in range(5)]
    until(lambda: len(receiver.got) == 5)
    assert [each["fact"]["id"] for each in receiver.told] == [each["id"] for each in facts]
    for headers, body in receiver.got:
        mac = hmac.new(made["signing_secret"].encode(), body, hashlib.sha256).hexdigest()
        assert headers["X-Engramlog-Signature"] == f"sha256={mac}"
        assert headers["X-Stigmem-Event-Id"] == json.loads(body)["event_id"]
    path = f"/v1/subscriptions/{made['id']}"
    until(lambda: open_node.call("GET", path).json()["last_delivered_at"] is not None)
    assert {each["delivery_status"] for each in events(open_node, made)} == {"delivered"}


def test_wake_says_only_that_events_exist(open_node: LiveNode, receiver: Receiver) -> None:
    subscribe(open_node, delivery_address=receiver.url, event_types=["fact_asserted"])
    open_node.state(v="secret of the house")
    until(lambda: len(receiver.got) == 1)
    assert "fact" not in receiver.told[0]
    assert b"secret" not in receiver.got[0][1]


def test_a_failing_receiver_gets_a_retry_with_the_same_id(
    open_node: LiveNode, receiver: Receiver
) -> None:
    receiver.answers = [500, 302, 204]
    made = subscribe(
        open_node, on_change="webhook", delivery_address=receiver.url,
        event_types=["fact_asserted"],
    )  # fmt: skip
    open_node.state(v="x")
    until(lambda: len(receiver.got) == 3)
    assert len({each["event_id"] for each in receiver.told}) == 1
    path = f"/v1/subscriptions/{made['id']}"
    until(lambda: open_node.call("GET", path).json()["consecutive_failures"] == 0)


def test_the_circuit_opens_after_ten_failures(
    open_node: LiveNode, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramlog.api.node.tasks.webhook_delivery.BACKOFF_SECONDS_MAX", 0.01)
    receiver.answers = [503]
    made = subscribe(open_node, on_change="webhook", delivery_address=receiver.url)
    open_node.state(v="x")
    path = f"/v1/subscriptions/{made['id']}"
    until(lambda: bool(open_node.call("GET", path).json()["circuit_open"]))
    count = len(receiver.got)
    assert count == 10
    time.sleep(0.5)
    assert len(receiver.got) == count


def test_a_name_that_cannot_be_looked_up_is_a_failure(open_node: LiveNode) -> None:
    made = subscribe(open_node, on_change="webhook", delivery_address="http://a..b/")
    open_node.state(v="x")
    path = f"/v1/subscriptions/{made['id']}"
    until(lambda: open_node.call("GET", path).json()["consecutive_failures"])


def test_the_scheme_of_an_address_has_any_case(open_node: LiveNode, receiver: Receiver) -> None:
    subscribe(open_node, on_change="webhook", delivery_address=receiver.url.replace("http", "HTTP"))
    open_node.state(v="x")
    until(lambda: receiver.got)


def test_deliveries_outlast_a_full_disk(
    open_node: LiveNode, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramlog.api.node.tasks.webhook_delivery.RETRY_SECONDS", 0.05)
    deliverer = open_node.service().deliverer
    disk = Failing(deliverer.ledger._db)
    monkeypatch.setattr(deliverer.ledger, "_db", disk)
    told: dict[str, Any] = {
        "on_change": "webhook", "delivery_address": receiver.url, "event_types": ["fact_asserted"],
    }  # fmt: skip
    ended = subscribe(open_node, target="team", **told)
    subscribe(open_node, **told)
    until(lambda: len(deliverer.children) == 3)  # and one that reads for both
    disk.error = apsw.FullError
    assert open_node.call("DELETE", f"/v1/subscriptions/{ended['id']}").status_code == 204
    open_node.state(v="x")
    until(lambda: deliverer.status().state == "failing")
    until(lambda: ended["id"] not in deliverer.children)
    disk.error = None
    open_node.state(v="y", relation="memory:y")
    until(lambda: receiver.got and receiver.told[-1]["fact"]["value_v"] == "y")
    until(lambda: deliverer.status().state == "running")


def test_gone_ends_the_subscription(open_node: LiveNode, receiver: Receiver) -> None:
    receiver.answers = [410]
    made = subscribe(open_node, on_change="webhook", delivery_address=receiver.url)
    open_node.state(v="x")
    path = f"/v1/subscriptions/{made['id']}"
    until(lambda: open_node.call("GET", path).status_code == 404)


def test_a_revoked_key_gets_nothing_more(
    serve: Callable[..., LiveNode], receiver: Receiver
) -> None:
    live = serve(auth_required=True, webhooks_allow_private=True)
    ann, bob = live.key_of("ann"), live.key_of("bob")
    subscribe(
        live, ann, on_change="webhook", delivery_address=receiver.url,
        event_types=["fact_asserted"],
    )  # fmt: skip
    live.state(key=bob, v="one")
    until(lambda: len(receiver.got) == 1)
    (of_ann,) = [row.key_id for row in live.node.reader.keys.list("agent:ann")]
    assert live.call("DELETE", f"/v1/auth/keys/{of_ann}", key=CONTROL_TOKEN).status_code < 300
    live.state(key=bob, v="two", relation="memory:two")
    time.sleep(0.5)
    assert len(receiver.got) == 1


def test_an_unnoted_delivery_repeats_after_a_restart(tmp_path: Path, receiver: Receiver) -> None:
    first = LiveNode(tmp_path / "node", webhooks_allow_private=True)
    made = subscribe(
        first, on_change="webhook", delivery_address=receiver.url, event_types=["fact_asserted"]
    )
    first.state(v="x")
    until(lambda: len(receiver.got) == 1)
    deliverer = first.service().deliverer
    until(lambda: deliverer.ledger.get(made["id"]))
    deliverer._unnoted.clear()  # as if killed before it noted the delivery
    first.close()
    ledger = DeliveryLedger(tmp_path / "node" / LEDGER_NAME)
    ledger.forget(made["id"])
    ledger.close()
    second = LiveNode(tmp_path / "node", webhooks_allow_private=True)
    second.state(v="y", relation="memory:y")
    until(lambda: len(receiver.got) == 3)
    second.close()
    first_time, again, _ = receiver.told
    assert again["event_id"] == first_time["event_id"]


def test_a_write_reads_the_log_for_no_webhook_that_it_does_not_concern(
    open_node: LiveNode, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook: dict[str, Any] = {"on_change": "webhook", "delivery_address": receiver.url}
    others = [subscribe(open_node, target=f"user:other{n}", **hook) for n in range(5)]
    mine = subscribe(open_node, target=ENTITY, event_types=["fact_asserted"], **hook)
    deliverer = open_node.service().deliverer
    until(lambda: {made["id"] for made in (*others, mine)} <= set(deliverer.children))
    until(lambda: all(each.position >= head(open_node) for each in deliverer.progress()))
    looked: list[str] = []
    look = webhook_delivery.notices_after

    def counted(node: Node, row: SubscriptionRow, *rest: Any) -> Any:
        looked.append(row.id)
        return look(node, row, *rest)

    monkeypatch.setattr(webhook_delivery, "notices_after", counted)
    open_node.state(v="x")
    until(lambda: receiver.told)
    until(lambda: all(each.position >= head(open_node) for each in deliverer.progress()))
    assert set(looked) == {mine["id"]}


def head(live: LiveNode) -> int:
    return live.node.log.head().position


def test_a_webhook_gets_what_its_pages_show(open_node: LiveNode, receiver: Receiver) -> None:
    hook: dict[str, Any] = {"on_change": "webhook", "delivery_address": receiver.url}
    made = [subscribe(open_node, target=target, **hook) for target in ("company", ENTITY)]
    deliverer = open_node.service().deliverer
    until(lambda: {each["id"] for each in made} <= set(deliverer.children))
    until(lambda: all(each.position >= head(open_node) for each in deliverer.progress()))
    open_node.state(entity="user:bob", scope="local")
    first = open_node.state(relation="memory:role", v="CEO")
    second = open_node.state(relation="memory:role", v="CFO", source="agent:other")
    (conflict,) = open_node.call("GET", "/v1/conflicts").json()["conflicts"]
    path = f"/v1/conflicts/{conflict['conflict_id']}/resolve"
    settled = open_node.call("POST", path, json={"winning_fact_id": second["id"]})
    assert settled.status_code == 200, settled.text
    open_node.state(relation="memory:role", v="CEO", source="agent:third", confidence=0.0)
    open_node.state(relation="memory:ends", v="x", valid_until="2020-01-01T00:00:00Z")
    assert open_node.call("POST", "/v1/decay/sweep", json={}).status_code == 200
    open_node.call("POST", f"/v1/facts/{first['id']}/retract", json={})
    until(lambda: all(each.position >= head(open_node) for each in deliverer.progress()))
    for each in made:
        told = [one for one in receiver.told if one["subscription_id"] == each["id"]]
        shown = events(open_node, each)
        assert [one["event_id"] for one in told] == [one["id"] for one in shown]
        assert {"fact_asserted", "fact_retracted", "contradiction_resolved"} <= set(types(shown))


def test_a_stream_resumes_after_its_last_event(live: LiveNode) -> None:
    made = subscribe(live, event_types=["fact_asserted"])
    path = f"/v1/subscriptions/{made['id']}/stream"

    def read(count: int, last: str | None, act: Callable[[], None]) -> list[dict[str, str]]:
        headers = {} if last is None else {"Last-Event-ID": last}
        found: list[dict[str, str]] = []
        with httpx.stream("GET", live.url + path, headers=headers, timeout=60) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            part: dict[str, str] = {}
            for line in response.iter_lines():
                if line == ": subscribed":
                    act()
                elif line == "" and part:
                    found.append(part)
                    part = {}
                    if len(found) == count:
                        return found
                elif line and not line.startswith(":"):
                    name, _, text = line.partition(": ")
                    part[name] = text
        return found

    def write(*values: str) -> None:
        live.node.write(*_asserts(*values))

    first = read(1, None, lambda: write("a"))
    assert json.loads(first[0]["data"])["payload"]["value_v"] == "a"
    write("b", "c")
    rest = read(2, first[0]["id"], lambda: None)
    assert [json.loads(each["data"])["payload"]["value_v"] for each in rest] == ["b", "c"]


def test_of_several_streams_each_gets_every_event(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "PAGE_EVENTS", 6)
    made = subscribe(live, event_types=["fact_asserted"])
    url = f"{live.url}/v1/subscriptions/{made['id']}/stream"
    told = [str(n) for n in range(7)]
    with ExitStack() as opened:
        streams = [opened.enter_context(httpx.stream("GET", url, timeout=60)) for _ in range(3)]
        lines = [each.iter_lines() for each in streams]
        assert {next(each) for each in lines} == {": subscribed"}
        live.node.write(*_asserts(*told))  # each stream reads two events at a time
        for each in lines:
            data = (line.removeprefix("data: ") for line in each if line.startswith("data: "))
            got = [json.loads(next(data))["payload"]["value_v"] for _ in told]
            assert got == told


def _asserts(*values: str) -> list[Any]:
    from engramlog.eventlog.kinds import Value
    from tests.worlds.histories import asserted

    return [asserted(value=Value("string", each), scope="company") for each in values]


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example/", "ftp://hooks.example/", "https://127.0.0.1/", "https://[::1]/",
        "https://169.254.169.254/latest", "https://10.1.2.3/", "https://192.168.1.1/",
        "https://[::ffff:10.0.0.1]/", "https://0.0.0.0/", "https://user:pw@hooks.example/",
        "https://[fe80::1]/", "no url", "https://１２７.0.0.1/", "https://127。0。0。1/",
    ],
)  # fmt: skip
def test_private_and_plain_addresses_are_refused(refusing: LiveNode, url: str) -> None:
    asked = {"target": "company", "on_change": "webhook", "delivery_address": url}
    answer = refusing.call("POST", "/v1/subscriptions", json=asked)
    assert answer.status_code == 422
    assert answer.json()["detail"]["code"] == "delivery_address_refused"
    assert refusing.call("GET", "/v1/subscriptions").json()["total"] == 0


def test_names_that_resolve_to_private_addresses_are_refused() -> None:
    import asyncio

    from engramlog.api.client.webhook_addresses import AddressRefused, PublicResolver

    async def resolve() -> None:
        await PublicResolver(private=False).resolve("localhost", 443)

    with pytest.raises(AddressRefused):
        asyncio.run(resolve())
    assert address_fault("https://hooks.example/x", private=False) is None


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True), ("2606:2800:21f::1", True), ("::ffff:127.0.0.1", False),
        ("64:ff9b::5db8:d822", True), ("64:ff9b::a9fe:a9fe", False), ("64:ff9b:1::1", False),
        ("::10.0.0.1", False), ("::1", False), ("::", False), ("fec0::1", False),
        ("2002:a00:1::1", False), ("fe80::1%eth0", False), ("ff02::1", False),
    ],
)  # fmt: skip
def test_ipv6_addresses_that_lead_to_private_ones_are_not_public(
    address: str, public: bool
) -> None:
    assert is_public(address) is public


def test_the_number_of_subscriptions_is_limited(serve: Callable[..., LiveNode]) -> None:
    live = serve(subscriptions_max=2)
    subscribe(live)
    subscribe(live, target="team")
    asked = {"target": "public", "on_change": "wake", "delivery_address": "agent:me"}
    refused = live.call("POST", "/v1/subscriptions", json=asked)
    assert (refused.status_code, refused.json()["detail"]["code"]) == (
        409, "too_many_subscriptions",
    )  # fmt: skip
