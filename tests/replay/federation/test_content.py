"""Peers' events that break a content rule are kept and chained, and have no meaning."""

from collections.abc import Callable

import msgspec

from engramlog.eventlog.codec import encode_payload
from engramlog.eventlog.kinds import FactAsserted, ForeignFact, Value
from engramlog.projections.cid import cid_of
from engramlog.replay.verify import verify
from tests.worlds.federation.forged import stated
from tests.worlds.federation.hostile import HostilePeer
from tests.worlds.federation.network import START_US
from tests.worlds.federation.seen import detail, held, texts
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.waiting import until

Make = Callable[..., HostilePeer]

BAD = {
    "relation must": FactAsserted(
        entity="user:a", relation="tag:\x07", value=Value("string", "x"), source="agent:f",
        scope="company",
    ),
    "boolean must": FactAsserted(
        entity="user:a", relation="tag:x", value=Value("boolean", "maybe"), source="agent:f",
        scope="company",
    ),
    "value has over": FactAsserted(
        entity="user:a", relation="tag:x", value=Value("text", "x" * 3_000_000), source="agent:f",
        scope="company",
    ),
    "the content id": FactAsserted(
        entity="user:a", relation="tag:x", value=Value("string", "x"), source="agent:f",
        scope="company", cid="sha256:" + "0" * 64,
    ),
}  # fmt: skip


def with_cid(fact: FactAsserted) -> bytes:
    return encode_payload(msgspec.structs.replace(fact, cid=fact.cid or cid_of(fact)))


def test_content_that_breaks_a_rule_is_kept_and_reported_and_the_stream_continues(
    live: LiveNode, hostile: Make
) -> None:
    peer = hostile()
    peer.forger.state("before")
    for fact in BAD.values():
        peer.forger.add(with_cid(fact))
    peer.forger.state("after")
    peer_id = peer.befriend(live)
    until(lambda: {"before", "after"} <= texts(live))
    assert texts(live) == {"before", "after"}
    assert held(live, peer_id) == {}
    refused = detail(live, peer_id)["refused"]
    assert [each["stream_seq"] for each in refused] == [5, 4, 3, 2]
    for words, each in zip(BAD, reversed(refused), strict=True):
        assert words in each["reason"]
    assert "engramlog_refused_events 4" in live.call("GET", "/metrics").text
    assert live.node.log.stream_heads()[peer.forger.stream()].stream_seq == 6
    assert verify(live.node.log).fault is None
    exported = live.call("GET", "/v1/export", key=CONTROL_TOKEN)
    assert "maybe" not in exported.text
    assert live.node.rebuild().digest == live.node.reader.digests().local
    assert texts(live) == {"before", "after"}


def test_a_peer_wraps_no_fact_of_ours_and_none_of_the_future(live: LiveNode, hostile: Make) -> None:
    """Such facts would pass for this node's own, or be newer than all others for ever."""
    peer = hostile()
    now_us, skew_us = START_US, 300_000_000
    late = f"{'n' * 2049}"
    wrapped = {
        "of a third node": ForeignFact("node:n", "1", now_us + skew_us, now_us + 2 * skew_us),
        "of ours": ForeignFact(live.node.node_id, "1", now_us, now_us),
        "of its future": ForeignFact("node:n", "2", now_us + skew_us + 1000, now_us),
        "told in its future": ForeignFact("node:n", "3", now_us, now_us + skew_us + 1000),
        "from before all clocks": ForeignFact("node:n", "4", now_us, -1),
        "under a long name": ForeignFact("node:n", late, now_us, now_us),
    }
    for text, foreign in wrapped.items():
        peer.forger.add(encode_payload(stated(text, foreign=foreign)), schema_version=4)
    peer.forger.state("the last")
    peer_id = peer.befriend(live, scopes=["company"])
    until(lambda: "the last" in texts(live))
    assert texts(live) == {"of a third node", "the last"}
    reasons = [each["reason"] for each in reversed(detail(live, peer_id)["refused"])]
    reading = "foreign has a time before 1970, or after that of its event"
    assert reasons == [
        "only this node states its own facts",
        *[reading] * 3,
        "foreign.fact_id must have at most 2048 printable characters",
    ]
    assert live.node.rebuild().compared
