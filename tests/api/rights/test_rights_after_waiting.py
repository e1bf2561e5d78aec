"""A request that waited has the rights of the moment when it continues."""

import json
import socket
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from engramlog.api.node.fair_threads import FairThreads
from engramlog.api.node.service import READ_THREADS
from engramlog.api.routes.time_travel import export
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import PeerDeclared, PeerGrants, PeerStateSet
from engramlog.projections.image.reader import Reader
from tests.worlds.federation.forged import Forger
from tests.worlds.live import CONTROL_TOKEN, LiveNode, fact
from tests.worlds.waiting import until

PLAN = {"entity": "org:acme", "relation": "memory:plan"}


@pytest.fixture
def live(serve: Callable[..., LiveNode]) -> LiveNode:
    return serve(auth_required=True)


class HalfSent:
    """A request whose header has arrived, and half of its body."""

    def __init__(self, live: LiveNode, path: str, key: str, body: Any) -> None:
        self._data = json.dumps(body).encode()
        address = urlsplit(live.url)
        self._socket = socket.create_connection((str(address.hostname), address.port or 0), 60)
        lines = (
            f"POST {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {key}",
            "Content-Type: application/json", f"Content-Length: {len(self._data)}",
            "Expect: 100-continue", "Connection: close", "", "",
        )  # fmt: skip
        self._socket.sendall("\r\n".join(lines).encode())
        assert b"100 Continue" in self._socket.recv(1000)
        self._socket.sendall(self._data[:5])

    def rest(self) -> tuple[int, Any]:
        """Send the rest; the status and the answer."""
        self._socket.sendall(self._data[5:])
        with self._socket, self._socket.makefile("rb") as answer:
            head, _, body = answer.read().partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)


def revoke(live: LiveNode, entity: str) -> None:
    keys = live.call("GET", "/v1/auth/keys?all=true", key=CONTROL_TOKEN).json()
    for each in keys:
        if each["entity_uri"] == entity:
            gone = live.call("DELETE", f"/v1/auth/keys/{each['id']}", key=CONTROL_TOKEN)
            assert gone.status_code < 300, gone.text


def garden_of(live: LiveNode, *members: str) -> str:
    made = live.call(
        "POST", "/v1/gardens", key=CONTROL_TOKEN,
        json={"slug": "board", "name": "Board", "scope": "company"},
    ).json()["id"]  # fmt: skip
    for each in members:
        live.call(
            "POST", f"/v1/gardens/{made}/members", key=CONTROL_TOKEN,
            json={"entity_uri": each, "role": "writer"},
        )  # fmt: skip
    return str(made)


def test_a_key_revoked_while_the_body_arrives_writes_nothing(live: LiveNode) -> None:
    ann = live.key_of("ann")
    sent = HalfSent(live, "/v1/facts", ann, fact())
    revoke(live, "agent:ann")
    head = live.node.log.head().position
    assert sent.rest()[0] == 401
    assert live.node.log.head().position == head


def test_a_key_revoked_while_a_batch_arrives_writes_nothing(live: LiveNode) -> None:
    ann = live.key_of("ann")
    sent = HalfSent(live, "/v1/facts/batch", ann, [fact()])
    revoke(live, "agent:ann")
    assert sent.rest()[0] == 401


def test_a_garden_left_while_the_body_arrives_is_not_recalled(live: LiveNode) -> None:
    ann, bob = live.key_of("ann"), live.key_of("bob")
    garden = garden_of(live, "agent:ann", "agent:bob")
    sent = HalfSent(live, "/v1/recall", ann, {"query": "the plan of acme", "scope": "company"})
    live.call("DELETE", f"/v1/gardens/{garden}/members/agent:ann", key=CONTROL_TOKEN)
    live.state(key=bob, v="a merger", garden_id=garden, **PLAN)
    status, answer = sent.rest()
    assert (status, answer["facts"]) == (200, [])


def test_a_body_that_arrives_slowly_is_answered_if_others_rights_change(live: LiveNode) -> None:
    sent = HalfSent(live, "/v1/facts", live.key_of("ann"), fact())
    live.key_of("bob")
    revoke(live, "agent:bob")
    assert sent.rest()[0] == 201


@contextmanager
def waiting_for(live: LiveNode, path: str, key: str) -> Generator[list[Any]]:
    """A request that waits for a position; its answer is in the list at the end."""
    begun = threading.Event()
    commits = live.service().commits
    original = commits.wait_reading

    async def wait(*args: Any) -> bool:
        begun.set()
        return await original(*args)

    commits.wait_reading = wait  # type: ignore[method-assign]
    found: list[Any] = []
    asking = threading.Thread(target=lambda: found.append(live.call("GET", path, key=key)))
    asking.start()
    until(begun.is_set)
    commits.wait_reading = original  # type: ignore[method-assign]
    yield found
    asking.join(60)


def test_a_key_revoked_before_the_position_is_reached_reads_nothing(live: LiveNode) -> None:
    ann, bob = live.key_of("ann"), live.key_of("bob")
    position = live.node.log.head().position + 2
    with waiting_for(live, f"/v1/facts?scope=company&min_position={position}", ann) as found:
        revoke(live, "agent:ann")
        live.state(key=bob)
    assert found[0].status_code == 401


def test_a_member_from_the_awaited_position_on_reads_the_garden(live: LiveNode) -> None:
    ann, bob = live.key_of("ann"), live.key_of("bob")
    garden = garden_of(live, "agent:bob")
    live.state(key=bob, v="a merger", garden_id=garden, **PLAN)
    position = live.node.log.head().position + 1
    with waiting_for(live, f"/v1/facts?scope=company&min_position={position}", ann) as found:
        live.call(
            "POST", f"/v1/gardens/{garden}/members", key=CONTROL_TOKEN,
            json={"entity_uri": "agent:ann", "role": "reader"},
        )  # fmt: skip
    assert found[0].json()["total"] == 1


def test_a_key_as_new_as_the_awaited_position_is_known(live: LiveNode) -> None:
    """Another node over the log made it, and this one has still to hear of it."""
    new = "a-key-that-is-made-while-it-waits-0123456789"
    position = live.node.log.head().position + 1
    with waiting_for(live, f"/v1/facts?scope=company&min_position={position}", new) as found:
        asked = {"raw_key": new, "entity_uri": "agent:new", "permissions": ["read"]}
        live.call("POST", "/v1/auth/keys", key=CONTROL_TOKEN, json=asked)
    assert found[0].status_code == 200


def test_a_position_is_reached_once_its_rights_hold(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, answers = live.key_of("ann"), list[Any]()
    path = f"/v1/facts?scope=company&min_position={live.node.log.head().position + 1}"
    asking = threading.Thread(target=lambda: answers.append(live.call("GET", path, key=ann)))
    refresh = Reader.refresh

    def late(self: Reader, events: Sequence[Recorded]) -> None:
        asking.start()  # the image shows the revocation
        asking.join(0.3)
        refresh(self, events)

    monkeypatch.setattr(Reader, "refresh", late)
    revoke(live, "agent:ann")
    asking.join(60)
    assert answers[0].status_code == 401


def test_a_key_revoked_while_its_request_waits_for_its_turn_reads_nothing(live: LiveNode) -> None:
    ann = live.key_of("ann")
    long: FairThreads = live.service().long
    free = threading.Event()
    for _ in range(2):
        live.run_soon(long.run("others", free.wait))
    found: list[Any] = []
    asking = threading.Thread(
        target=lambda: found.append(live.call("GET", "/v1/time-travel/timeline", key=ann))
    )
    asking.start()
    until(lambda: long.waiting)
    revoke(live, "agent:ann")
    free.set()
    asking.join(60)
    assert found[0].status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("GET", "/v1/search?q=plan", {}),
        ("POST", "/v1/recall", {"json": {"query": "plan", "scope": "company"}}),
    ],
)
def test_a_key_revoked_while_its_read_waits_for_a_thread_reads_nothing(
    live: LiveNode, method: str, path: str, options: dict[str, Any]
) -> None:
    ann, bob = live.key_of("ann"), live.key_of("bob")
    reads, free = live.service().reads, threading.Event()
    for number in range(READ_THREADS):
        live.run_soon(reads.run(f"other {number}", free.wait))
    found: list[Any] = []
    asking = threading.Thread(
        target=lambda: found.append(live.call(method, path, key=ann, **options))
    )
    asking.start()
    until(lambda: reads.waiting)
    revoke(live, "agent:ann")
    live.state(key=bob)
    free.set()
    asking.join(60)
    assert found[0].status_code == 401


def test_a_key_revoked_while_a_replica_waits_gets_no_event(live: LiveNode) -> None:
    key = live.mint("replicate", entity="agent:copy")
    after = live.node.log.head().position
    with waiting_for(live, f"/v1/replication/events?after={after}&wait_s=30", key) as found:
        revoke(live, "agent:copy")
    assert found[0].status_code == 401


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Exports stop before their second part until it is set."""
    goes_on = threading.Event()
    original = export.export_lines

    def lines(*args: Any, **options: Any) -> Iterator[tuple[int, bytes]]:
        for number, line in enumerate(original(*args, **options)):
            if number == 1:
                goes_on.wait(60)
            yield line

    monkeypatch.setattr(export, "LINES_AT_ONCE", 1)
    monkeypatch.setattr(export, "export_lines", lines)
    return goes_on


def exported_during(
    live: LiveNode, stopped: threading.Event, change: Callable[[], object]
) -> list[str]:
    """The values that ann's export holds if ``change`` happens after the first."""
    ann = live.key_of("ann")
    for name in ("first", "second", "third"):
        live.state(key=ann, entity=f"user:{name}", v=name)
    headers = {"Authorization": f"Bearer {ann}"}
    found = ""
    broken = suppress(httpx.RemoteProtocolError, httpx.ReadError)
    request = httpx.stream("GET", f"{live.url}/v1/export", headers=headers, timeout=60)
    with broken, request as answer:
        for part in answer.iter_text():
            found += part
            if not stopped.is_set():
                change()
                stopped.set()
    return [json.loads(line)["value"]["v"] for line in found.splitlines()]


def test_an_export_ends_when_its_key_is_revoked(live: LiveNode, stopped: threading.Event) -> None:
    told = exported_during(live, stopped, lambda: revoke(live, "agent:ann"))
    assert "third" not in told


def test_an_export_ends_when_a_tombstone_hides_a_part_of_it(
    live: LiveNode, stopped: threading.Event
) -> None:
    hidden = {"entity_uri": "user:third", "reason": "asked"}
    told = exported_during(
        live, stopped, lambda: live.call("POST", "/v1/tombstones", key=CONTROL_TOKEN, json=hidden)
    )
    assert "third" not in told


def test_an_export_is_whole_if_others_write_meanwhile(
    live: LiveNode, stopped: threading.Event
) -> None:
    bob = live.key_of("bob")
    told = exported_during(live, stopped, lambda: live.state(key=bob, v="later"))
    assert told == ["first", "second", "third"]


@pytest.mark.parametrize("path", ["tombstones/ingest", "facts/push"])
def test_a_peer_revoked_while_its_body_arrives_writes_nothing(
    serve: Callable[..., LiveNode], tmp_path: Path, path: str
) -> None:
    live = serve(auth_required=True, federation_enabled=True, federation_push_enabled=True)
    peer = Forger(tmp_path / "peer", FixedClock(live.node.clock.now_us()))
    declared = PeerDeclared(
        peer_id="peer-1", node_id=peer.id, node_url="http://127.0.0.1:9", signed_at="",
        public_key=peer.identity.public_key_b64, allowed_scopes=["company"], signature="",
    )  # fmt: skip
    grants = PeerGrants(scopes=["company"], pull=False)
    live.node.write(declared)
    live.node.write(PeerStateSet(peer_id="peer-1", state="active", grants=grants))
    sent = HalfSent(live, f"/v1/federation/{path}", peer.token(live.node.node_id), {"facts": []})
    live.node.write(PeerStateSet(peer_id="peer-1", state="revoked"))
    assert sent.rest() == (401, {"detail": "peer_not_approved"})
