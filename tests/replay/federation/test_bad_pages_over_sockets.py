"""Answers of a hostile peer on a real socket: none has an effect."""

import asyncio
import base64
import zlib
from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgspec
import pytest
from aiohttp import web

from engramlog.api.client.event_source import EVENTS_PATH, STREAMS_PATH
from engramlog.api.node.node_status import status_of_node
from engramlog.eventlog.codec import encode_payload
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.kinds import PeerGrants, PeerStateSet
from engramlog.eventlog.signing import SignedHead, SignedHeads, signed_bytes
from engramlog.projections.http_exchange import AnswerLimits
from engramlog.replay.federation.page import PAGE_BYTES_MAX, StreamPage, encode_page
from engramlog.replay.federation.serving import signed_streams
from engramlog.replay.verify import verify
from tests.worlds.federation.hostile import HostilePeer
from tests.worlds.federation.seen import detail, held, texts
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.waiting import until

Make = Callable[..., HostilePeer]
HOUR_US = 3_600_000_000
replace = msgspec.structs.replace


def fault(live: LiveNode, peer_id: str) -> str:
    return (detail(live, peer_id)["replay"] or {}).get("fault") or ""


def sound(live: LiveNode) -> None:
    """The node still serves, verifies, and rebuilds to the same."""
    assert status_of_node(live.node)["degraded"] is None
    assert live.state(v="after all that")["id"]
    assert verify(live.node.log).fault is None
    assert live.node.rebuild().digest == live.node.reader.digests().local


def cut_off(page: StreamPage) -> bytes:
    return encode_page(page)[:-3]


def too_many_bytes(_: StreamPage) -> bytes:
    return zlib.compress(bytes(PAGE_BYTES_MAX + 1), 1)


def too_many_events(page: StreamPage) -> StreamPage:
    return replace(page, events=page.events * 2_001)


def large_payload(page: StreamPage) -> StreamPage:
    header, digest, salt, _ = page.events[0]
    return replace(page, events=[(header, digest, salt, bytes(4 * 1024 * 1024 + 1))])


def other_format(page: StreamPage) -> StreamPage:
    return replace(page, format=2)


def another_stream(page: StreamPage) -> StreamPage:
    return replace(page, stream=page.stream.replace("company", "public"))


def altered(page: StreamPage) -> StreamPage:
    header, digest, salt, payload = page.events[0]
    assert payload is not None
    return replace(page, events=[(header, digest, salt, payload.replace(b"good", b"evil"))])


def withheld(page: StreamPage) -> StreamPage:
    return replace(page, events=[(*page.events[0][:2], None, None)])


def deep(_: StreamPage) -> bytes:
    return zlib.compress(b"\x91" * 1_000_000, 1)


def signs_a_million(page: StreamPage) -> StreamPage:
    heads = page.statement.heads * 1_000
    return replace(page, statement=replace(page.statement, heads=heads))


def test_a_payload_of_too_many_levels_holds_its_stream(live: LiveNode, hostile: Make) -> None:
    """What decodes here may exhaust the stack elsewhere: in a rebuild, in an answer."""
    peer = hostile()
    lists = 950
    payload = (
        b'{"kind":"episode_recorded","user":"u","session":"s","agent":"a","content":"c","at_us":1,'
        b'"scope":"company","metadata":{"x":' + b"[" * lists + b"]" * lists + b"}}"
    )
    peer.forger.add(payload, kind="episode_recorded", schema_version=1)
    peer.forger.state("good", "public")
    peer_id = peer.befriend(live)
    until(lambda: texts(live) == {"good"})
    reasons = until(lambda: held(live, peer_id))
    assert reasons["company"] == "malformed: a payload has over 128 levels"
    sound(live)


@pytest.mark.parametrize(
    ("alter", "reason"),
    [
        (cut_off, "malformed"), (lambda _: b"\x00", "malformed"), (deep, "malformed"),
        (other_format, "malformed"), (too_many_bytes, "oversized"),
        (too_many_events, "oversized"), (large_payload, "oversized"), (altered, "chain"),
        (another_stream, "chain"), (withheld, "withheld"), (signs_a_million, "signature"),
    ],
)  # fmt: skip
def test_a_bad_page_holds_its_stream_and_no_other(
    live: LiveNode, hostile: Make, alter: Callable[[StreamPage], StreamPage | bytes], reason: str
) -> None:
    peer, honest = hostile(), hostile("honest")
    peer.forger.state("good", "company")
    peer.forger.state("also good", "public")
    honest.forger.state("of another peer")
    peer.alter_page = lambda page: alter(page) if page.stream.endswith("company") else page
    peer_id = peer.befriend(live)
    honest.befriend(live)
    until(lambda: {"also good", "of another peer"} <= texts(live))
    reasons = until(lambda: held(live, peer_id))
    assert reasons.keys() == {"company"}
    assert reasons["company"].startswith(reason + ":")
    assert texts(live) == {"also good", "of another peer"}
    # The operator releases the stream, the peer behaves again, and replaying continues.
    peer.alter_page = lambda page: page
    body = {"stream": peer.forger.stream(), "reason": "looked at"}
    path = f"/v1/federation/peers/{peer_id}/release"
    assert live.call("POST", path, key=CONTROL_TOKEN, json=body).status_code == 200
    until(lambda: "good" in texts(live))
    sound(live)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"hlc": 2**63}, "hlc_skew"), ({"hlc": 2**64 - 1}, "hlc_skew"),
        ({"hlc": -5}, "chain"), ({"recorded_at": 2**62}, "hlc_skew"),
        ({"recorded_at": -(2**62)}, "hlc_skew"), ({"format": 7}, "chain"),
        ({"schema_version": 0}, "chain"), ({"schema_version": -1}, "chain"),
        ({"stream_seq": 2**63}, "chain"), ({"origin": "stigmem:node:another"}, "chain"),
        ({"event_id": b"short"}, "chain"), ({"prev_hash": b"p" * 32}, "chain"),
        ({"payload_hash": b"p" * 32}, "chain"), ({"actor": "a" * 20_000}, "oversized"),
        ({"causation_id": b"short"}, "malformed"), ({"causation_id": b""}, "malformed"),
        ({"kind": "peer_declared", "schema_version": 1}, "kind"),
        ({"kind": "fact_retracted", "schema_version": 1}, "malformed"),
        ({"schema_version": 65_536}, "malformed"), ({"schema_version": 2**64 - 1}, "malformed"),
        ({"kind": "fact_dreamt", "schema_version": 2**63}, "malformed"),
    ],
)  # fmt: skip
def test_an_impossible_header_holds_the_stream(
    live: LiveNode, hostile: Make, header: dict[str, Any], reason: str
) -> None:
    peer = hostile()
    peer.forger.state("before")
    peer.forger.state("impossible", **header)
    peer.forger.state("also good", "public")
    peer_id = peer.befriend(live)
    reasons = until(lambda: held(live, peer_id))
    assert reasons.keys() == {"company"}
    assert reasons["company"].startswith(reason + ":"), reasons
    # A page is taken completely or not at all; an oversized one is requested in smaller pages.
    before = {"before"} if reason == "oversized" else set[str]()
    until(lambda: texts(live) == {"also good", *before})
    sound(live)


def test_a_clock_that_is_days_ahead_is_refused_and_ours_is_not_dragged_along(
    live: LiveNode, hostile: Make
) -> None:
    peer = hostile()
    peer.forger.state("soon", hlc=(live.node.clock.now_us() + 25 * HOUR_US) // 1000 * 1000)
    peer_id = peer.befriend(live)
    assert until(lambda: held(live, peer_id))["company"].startswith("hlc_skew:")
    mine = live.state(v="mine")
    position = live.call("GET", f"/v1/facts/{mine['id']}").json()
    assert position["id"] == mine["id"]
    assert live.node.log.head().received_hlc // 1000 < live.node.clock.now_us() // 1000 + 1_000


def test_events_of_a_nodes_own_stream_are_taken_from_no_peer(live: LiveNode, hostile: Make) -> None:
    peer = hostile()
    approval = PeerStateSet(peer_id="p", state="active", grants=PeerGrants(scopes=["public"]))
    peer.forger.add(encode_payload(approval), kind="peer_state_set", schema_version=1)
    peer_id = peer.befriend(live)
    assert until(lambda: held(live, peer_id))["company"].startswith("kind:")


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"[" * 50_000, b'{"kind":"fact_asserted"}', b"\xff\xfe", b"null",
     b'{"kind":"fact_asserted","entity":' + b"[" * 50_000],
)  # fmt: skip
@pytest.mark.parametrize("version", [1, 2, 3])
def test_payloads_that_cannot_be_read_hold_the_stream(
    live: LiveNode, hostile: Make, payload: bytes, version: int
) -> None:
    peer = hostile()
    peer.forger.add(payload, schema_version=version)
    peer_id = peer.befriend(live)
    assert until(lambda: held(live, peer_id))["company"].startswith("malformed:")
    sound(live)


def test_an_event_id_of_ours_holds_the_stream_that_claims_it(live: LiveNode, hostile: Make) -> None:
    mine = live.state(v="mine")["id"]
    peer = hostile()
    peer.forger.state("not mine", event_id=UUID(mine).bytes)
    peer_id = peer.befriend(live)
    reason = until(lambda: held(live, peer_id))["company"]
    assert reason.startswith("scope:"), reason
    assert texts(live) == {"mine"}
    sound(live)


def test_an_event_of_another_stream_than_asked_for_holds_it(live: LiveNode, hostile: Make) -> None:
    peer = hostile()
    peer.forger.state("not granted", "public", stream=peer.forger.stream("company"))
    peer_id = peer.befriend(live, scopes=["public"])
    assert until(lambda: held(live, peer_id))["public"].startswith("scope:")
    assert not [name for name in live.node.log.stream_heads() if name.startswith(peer.forger.id)]
    sound(live)


def test_one_fact_id_for_two_facts_of_a_page_holds_the_stream(
    live: LiveNode, hostile: Make
) -> None:
    peer = hostile()
    peer.forger.state("one", event_id=b"e" * 16)
    peer.forger.state("two", event_id=b"e" * 16)
    peer.forger.state("also good", "public")
    peer_id = peer.befriend(live)
    assert until(lambda: held(live, peer_id))["company"].startswith("refused:")
    until(lambda: texts(live) == {"also good"})
    sound(live)


@pytest.mark.parametrize(
    ("kind", "version"),
    [("fact_dreamt", 1), ("fact_asserted", 99), ("fact_dreamt", 65_535)],
)
def test_kinds_and_versions_of_later_releases_are_kept_chained_and_reported(
    live: LiveNode, hostile: Make, kind: str, version: int
) -> None:
    strange = f'{{"x": [1, 2,3 ], "kind": "{kind}"}}'.encode()
    peer = hostile()
    peer.forger.state("before")
    peer.forger.add(strange, kind=kind, schema_version=version)
    peer.forger.state("behind")
    rows = peer.forger.streams[peer.forger.stream()]
    peer.befriend(live)
    until(lambda: texts(live) == {"before", "behind"})
    stored = [each for each in live.node.log.read_stored() if each.peer == peer.forger.id]
    assert [(each.header, each.hash, each.salt, each.payload) for each in stored] == rows
    sound(live)
    checks = live.call("GET", "/v1/doctor").json()["checks"]
    (events,) = [each for each in checks if each["name"] == "events"]
    assert events["status"] == "warning"
    assert f"1 of kind {kind!r} version {version}" in events["detail"]
    assert "engramlog_unknown_events 1" in live.call("GET", "/metrics").text


@pytest.mark.parametrize("admits", [True, False])
def test_a_stream_that_forks_is_held_with_both_statements(
    live: LiveNode, hostile: Make, admits: bool
) -> None:
    """If the peer admits its other event, with two signatures under one place of the stream."""
    peer = hostile()
    for number in range(3):
        peer.forger.state(f"shown first {number}")
    peer_id = peer.befriend(live)
    until(lambda: len(texts(live)) == 3)
    first = peer.forger.page(peer.forger.stream(), 2, 1)
    assert first is not None
    if not admits:
        peer.alter_page = lambda page: first if len(page.events) == 1 else page
    peer.forger.streams.clear()
    for number in range(5):
        peer.forger.state(f"shown later {number}")
    reason = until(lambda: held(live, peer_id))["company"]
    (evidence,) = detail(live, peer_id)["evidence"]
    (earlier,) = evidence["earlier"]["heads"]
    (later,) = evidence["later"]["heads"]
    assert evidence["sort"] == "equivocation"
    assert earlier["stream_seq"] == 3
    if admits:
        assert "another event 3 than it had: perhaps two copies of the node" in reason
        assert (later["stream"], later["stream_seq"]) == (earlier["stream"], 3)
        assert later["hash"] != earlier["hash"]
    else:
        assert "prev_hash" in reason
        assert later["stream_seq"] == 5
    assert len(texts(live)) == 3
    sound(live)


def test_another_node_at_the_address_of_a_peer_holds_nothing(live: LiveNode, hostile: Make) -> None:
    """As while a replica takes the place of its primary."""
    peer, other = hostile(), hostile("another")
    for each in (peer, other):
        each.forger.state("its own")
    replacing = other.forger.page(other.forger.stream(), 0, 10)
    assert replacing is not None
    peer.alter_page = lambda page: replace(page, statement=replacing.statement)
    peer_id = peer.befriend(live)
    told = until(lambda: str((detail(live, peer_id)["replay"] or {}).get("fault") or ""))
    assert f"{other.forger.id} answers at the address of {peer.forger.id}" in told
    assert held(live, peer_id) == {}
    peer.alter_page = lambda page: page
    until(lambda: texts(live) == {"its own"})


@pytest.mark.parametrize(("count", "sort"), [(3, "equivocation"), (2, "rollback")])
def test_another_or_an_earlier_head_is_held_with_both_statements(
    live: LiveNode, hostile: Make, count: int, sort: str
) -> None:
    peer = hostile()
    for number in range(3):
        peer.forger.state(f"shown first {number}")
    peer_id = peer.befriend(live)
    until(lambda: len(texts(live)) == 3)
    peer.forger.streams.clear()
    for number in range(count):
        peer.forger.state(f"shown later {number}")
    assert "two copies" in until(lambda: held(live, peer_id))["company"]
    (evidence,) = detail(live, peer_id)["evidence"]
    assert evidence["sort"] == sort
    sound(live)


def test_streams_that_are_not_granted_are_passed_over_and_change_nothing(
    live: LiveNode, hostile: Make
) -> None:
    peer = hostile()
    for scope in ("public", "company", "team", "local"):
        peer.forger.state(f"of {scope}", scope)
    foreign = SignedHead(f"{live.node.node_id}/1/scope/public", 9, "00" * 32)

    def with_foreign(heads: SignedHeads) -> SignedHeads:
        found = {each.stream: each for each in heads.heads} | {foreign.stream: foreign}
        unsigned = replace(heads, heads=[found[name] for name in sorted(found)])
        return resigned(peer, unsigned)

    peer.alter_heads = with_foreign
    peer_id = peer.befriend(live, scopes=["public"])
    until(lambda: texts(live) == {"of public"})
    position = live.node.log.head().position
    peer.forger.state("more of public", "public")
    until(lambda: texts(live) == {"of public", "more of public"})
    assert live.node.log.head().position <= position + 3  # receipt, event: nothing for the rest
    assert held(live, peer_id) == {}
    passed_over = set(detail(live, peer_id)["replay"]["passed_over"])
    assert passed_over == {
        foreign.stream, *(peer.forger.stream(scope) for scope in ("company", "team", "local")),
    }  # fmt: skip
    granted = {"scopes": ["public", "company"]}
    path = f"/v1/federation/peers/{peer_id}/grants"
    assert live.call("PUT", path, key=CONTROL_TOKEN, json=granted).status_code == 200
    until(lambda: "of company" in texts(live))


def resigned(peer: HostilePeer, heads: SignedHeads) -> SignedHeads:
    signature = peer.forger.identity.sign(signed_bytes(replace(heads, signature="")))
    return replace(heads, signature=base64.b64encode(signature).decode())


def test_an_event_of_another_scope_in_a_granted_stream_holds_it(
    live: LiveNode, hostile: Make
) -> None:
    peer = hostile()
    peer.forger.state("public in company's stream", "public")
    _, _, _, payload = peer.forger.streams.pop(peer.forger.stream("public"))[0]
    assert payload is not None
    peer.forger.add(payload, scope="company")
    peer_id = peer.befriend(live)
    assert until(lambda: held(live, peer_id))["company"].startswith("scope:")
    assert texts(live) == set()


def test_unbelievable_heads_are_requested_again_and_hold_nothing(
    live: LiveNode, hostile: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramlog.api.node.tasks.peering.BACKOFF_SECONDS_MAX", 0.3)
    peer, honest = hostile(), hostile("honest")
    peer.forger.state("good")
    other = hostile("other").forger
    other.state("x")
    crafted: list[Any] = [
        b"{", b"[" * 100_000, b'{"node_id":' + b"[" * 100_000,
        lambda heads: replace(heads, position=7),
        lambda _: other.heads(),
        lambda heads: replace(heads, public_key=other.identity.public_key_b64),
        lambda _: signed_streams(other.identity, {}, 0),
    ]  # fmt: skip
    now: Any = crafted[0]

    def crafted_now(heads: SignedHeads) -> Any:
        return now(heads) if callable(now) else now

    peer.alter_heads = crafted_now
    peer_id = peer.befriend(live)
    for craft in crafted:
        now, before = craft, len(peer.asked)
        until(lambda before=before: len(peer.asked) >= before + 2)
        assert until(lambda: fault(live, peer_id)).startswith(("malformed:", "signature:"))
    honest.forger.state("of another peer")
    honest.befriend(live)
    until(lambda: "of another peer" in texts(live))
    assert texts(live) == {"of another peer"}
    assert held(live, peer_id) == {}
    peer.alter_heads = lambda heads: heads
    until(lambda: "good" in texts(live))
    sound(live)


def test_a_replaced_key_is_refused(
    live: LiveNode, hostile: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engramlog.api.node.tasks.peering.BACKOFF_SECONDS_MAX", 0.3)
    peer = hostile()
    stolen = Identity.restore(peer.forger.identity.folder, peer.forger.identity.folder / "stolen")
    peer.forger.state("under the first key")
    peer_id = peer.befriend(live)
    until(lambda: "under the first key" in texts(live))
    peer.forger.identity.rotate()
    peer.forger.state("under the second")
    until(lambda: "under the second" in texts(live))
    peer.forger.identity = stolen
    peer.forger.state("of a thief")
    assert "replaced" in until(lambda: fault(live, peer_id))
    assert "of a thief" not in texts(live)
    sound(live)


def test_a_page_whose_connection_breaks_is_asked_again_and_holds_nothing(
    live: LiveNode, hostile: Make
) -> None:
    peer = hostile()
    peer.forger.state("good")
    broken = 0

    async def break_off(request: web.Request) -> web.StreamResponse:
        nonlocal broken
        broken += 1
        found = peer.forger.page(peer.forger.stream(), 0, 10)
        assert found is not None
        body = encode_page(found)
        response = web.StreamResponse(headers={"Content-Length": str(len(body))})
        await response.prepare(request)
        await response.write(body[:20])
        assert request.transport is not None
        request.transport.abort()
        return response

    peer.answers[EVENTS_PATH] = break_off
    peer_id = peer.befriend(live)
    until(lambda: broken >= 2)
    assert held(live, peer_id) == {}
    del peer.answers[EVENTS_PATH]
    until(lambda: "good" in texts(live))


@pytest.mark.parametrize(("count", "pages"), [(4_500, 3), (4_000, 3), (1_999, 1)])
def test_a_long_stream_is_asked_for_page_by_page_each_of_them_once(
    live: LiveNode, hostile: Make, count: int, pages: int
) -> None:
    peer = hostile()
    for number in range(count):
        peer.forger.state(f"fact {number}")
    peer.forger.state("also good", "public")
    peer_id = peer.befriend(live)
    until(lambda: texts(live, scope="public") == {"also good"})
    last = {each["stream"]: each["last_seq"] for each in detail(live, peer_id)["streams"]}
    assert last == {peer.forger.stream(): count, peer.forger.stream("public"): 1}
    # After a full last page the node requests one more, which is empty.
    assert peer.asked.count(EVENTS_PATH) == pages + 1
    assert held(live, peer_id) == {}


WHOLE = AnswerLimits(silence_seconds=0.5, whole_seconds=2.0, bytes_per_second=2_000.0)
SILENCE = msgspec.structs.replace(WHOLE, whole_seconds=10_000.0)


@pytest.mark.parametrize("slow", ["silent", "headers", "drip", "chunks", "just fast enough"])
@pytest.mark.parametrize("path", [STREAMS_PATH, EVENTS_PATH])
def test_a_peer_that_sends_slowly_for_ever_holds_no_other(
    live: LiveNode, hostile: Make, slow: str, path: str
) -> None:
    # Only the rule under test can end it before the test's own time limit.
    live.service().peers.limits = WHOLE if slow == "just fast enough" else SILENCE
    peer, honest = hostile(), hostile("honest")
    peer.forger.state("good")
    honest.forger.state("of another peer")
    ended: list[str] = []

    async def for_ever(request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        try:
            await drip(transport, slow)
        finally:
            ended.append(path)
        return web.Response()

    peer.answers[path] = for_ever
    peer_id = peer.befriend(live)
    honest.befriend(live)
    until(lambda: "of another peer" in texts(live))
    until(lambda: len(ended) >= 2)
    assert fault(live, peer_id).startswith("cannot reach")
    assert held(live, peer_id) == {}
    del peer.answers[path]
    until(lambda: "good" in texts(live))


async def drip(transport: Any, slow: str) -> None:
    """Send as slowly as the test wants, until the other side closes."""
    begin = {
        "silent": b"", "headers": b"HTTP/1.1 200 OK\r\nX-A: ",
        "drip": b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
        "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "just fast enough": b"HTTP/1.1 200 OK\r\nContent-Length: 60000000\r\n\r\n",
    }[slow]  # fmt: skip
    part = {"silent": b"", "chunks": b"1\r\nx\r\n", "just fast enough": b"x" * 20_000}
    transport.write(begin)
    while not transport.is_closing():
        await asyncio.sleep(0.1)
        transport.write(part.get(slow, b"x"))
