"""Webhooks when another node delivers them: it continues where the log says that the one before
was, and repeats at most what came since."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from engramlog.api.node.node import Node
from engramlog.api.node.replicating import prepare
from engramlog.api.node.tasks import webhook_delivery
from engramlog.eventlog.kinds import WebhookProgress, WebhooksDelivered
from engramlog.projections.tables.declared.subscriptions import LEDGER_NAME, DeliveryLedger
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.waiting import until
from tests.worlds.webhook_receiver import Receiver


def subscribe(live: LiveNode, receiver: Receiver) -> str:
    body = {"target": "company", "on_change": "webhook", "delivery_address": receiver.url,
            "event_types": ["fact_asserted"]}  # fmt: skip
    answer = live.call("POST", "/v1/subscriptions", json=body, key=CONTROL_TOKEN)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def state(live: LiveNode, *values: str) -> None:
    for v in values:
        live.state(relation=f"memory:{v}", v=v, key=CONTROL_TOKEN)


def told(receiver: Receiver) -> list[str]:
    return [each["fact"]["value_v"] for each in receiver.told]


def notes(live: LiveNode) -> list[WebhooksDelivered]:
    payloads = [event.payload for event in live.node.log.iterate()]
    return [each for each in payloads if isinstance(each, WebhooksDelivered)]


def last_of(live: LiveNode) -> int:
    """The position of the last fact."""
    events = live.node.log.iterate()
    return max(event.position for event in events if event.kind == "fact_asserted")


def copied(primary: LiveNode, to: Path) -> LiveNode:
    """A replica with all that the primary has."""
    key = primary.key_of("copy", "replicate")
    prepare(to, primary.url, key, lambda *_: None)
    return LiveNode(to, webhooks_allow_private=True)


def test_the_next_to_lead_goes_on_where_the_one_before_stopped(
    tmp_path: Path, postgres_url: str, receiver: Receiver
) -> None:
    options: dict[str, Any] = {
        "log": postgres_url, "log_durability": "server", "webhooks_allow_private": True,
    }  # fmt: skip
    first = LiveNode(tmp_path / "first", **options)
    first.node.identity.backup(tmp_path / "second" / "identity")
    subscribe(first, receiver)
    state(first, "a", "b", "c")
    until(lambda: len(receiver.got) == 3)
    second = LiveNode(tmp_path / "second", **options)
    assert second.service().deliverer.progress() == []  # it does not deliver
    first.close()
    until(lambda: second.node.leads)
    state(second, "d")
    until(lambda: "d" in told(receiver))
    second.close()
    assert told(receiver) == ["a", "b", "c", "d"]


def test_a_promoted_replica_repeats_what_came_since_the_last_note(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_delivery, "NOTE_SECONDS", 0.0)
    primary = LiveNode(tmp_path / "primary", webhooks_allow_private=True)
    subscribe(primary, receiver)
    state(primary, "a", "b")
    until(lambda: len(receiver.got) == 2)
    until(lambda: [last.progress[0].position for last in notes(primary)[-1:]] >= [last_of(primary)])
    monkeypatch.setattr(webhook_delivery, "NOTE_SECONDS", 1e9)
    state(primary, "c")
    until(lambda: len(receiver.got) == 3)
    replica = copied(primary, tmp_path / "copy")
    try:
        assert replica.service().deliverer.status().state == "off"
        promoted = replica.call("POST", "/v1/replication/promote", key=CONTROL_TOKEN)
        assert promoted.status_code == 200, promoted.text
        state(replica, "d")
        until(lambda: "d" in told(receiver))
        assert told(receiver) == ["a", "b", "c", "c", "d"]
        assert replica.service().deliverer.status().state == "running"
    finally:
        primary.close()
        replica.close()


def test_notes_come_with_deliveries_or_after_many_events(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_delivery, "NOTE_SECONDS", 0.0)
    monkeypatch.setattr(webhook_delivery, "NOTE_POSITIONS", 20)
    monkeypatch.setattr(webhook_delivery, "LOOK_SECONDS", 0.01)
    live = LiveNode(tmp_path / "node", webhooks_allow_private=True)
    try:
        name = subscribe(live, receiver)
        began = live.node.log.head().position

        def read_to() -> int:
            known = live.service().deliverer.ledger.get(name)
            return 0 if known is None else known.position

        for n in range(15):
            live.state(relation=f"memory:n{n}", scope="local", key=CONTROL_TOKEN)
        until(lambda: read_to() == began + 15)
        live.run(asyncio.sleep(0.2))
        assert notes(live) == []
        for n in range(15, 25):
            live.state(relation=f"memory:n{n}", scope="local", key=CONTROL_TOKEN)
        until(lambda: notes(live))
        until(lambda: read_to() == live.node.log.head().position)
        live.run(asyncio.sleep(0.2))
        assert len(notes(live)) == 1
    finally:
        live.close()


def test_a_log_that_was_cut_back_loses_no_delivery(tmp_path: Path, receiver: Receiver) -> None:
    data = tmp_path / "node"
    first = LiveNode(data, webhooks_allow_private=True)
    subscribe(first, receiver)
    first.close()
    shutil.copy(data / "log.db", tmp_path / "earlier.db")
    second = LiveNode(data, webhooks_allow_private=True)
    state(second, *"abcdefgh")
    until(lambda: len(receiver.got) == 8)
    second.close()
    shutil.copy(tmp_path / "earlier.db", data / "log.db")
    Node.open(data, accept_rollback=True).close()
    third = LiveNode(data, webhooks_allow_private=True)
    try:
        state(third, "i")
        until(lambda: "i" in told(receiver))
    finally:
        third.close()


def test_an_earlier_note_that_comes_late_takes_nothing_back(
    tmp_path: Path, receiver: Receiver
) -> None:
    data = tmp_path / "node"
    live = LiveNode(data, webhooks_allow_private=True)
    name = subscribe(live, receiver)
    state(live, "a", "b")
    until(lambda: len(receiver.got) == 2)
    position = last_of(live)
    live.close()
    ledger = DeliveryLedger(data / LEDGER_NAME)
    ledger.forget(name)  # as on a node that has never led
    ledger.close()
    live = LiveNode(data, webhooks_allow_private=True)
    try:
        live.node.write(WebhooksDelivered([WebhookProgress(name, position - 1)]))
        state(live, "c")
        until(lambda: "c" in told(receiver))
        assert told(receiver) == ["a", "b", "c"]
    finally:
        live.close()


def test_a_node_without_webhooks_has_no_file_of_them(tmp_path: Path) -> None:
    LiveNode(tmp_path / "node").close()
    assert not (tmp_path / "node" / LEDGER_NAME).exists()
