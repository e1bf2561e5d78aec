"""Peers' events that break a content rule are kept and chained, and have no meaning."""

from collections.abc import Callable

import msgspec

from engramlog.eventlog.codec import encode_payload
from engramlog.eventlog.kinds import FactAsserted, Value
from engramlog.projections.cid import compute_cid
from engramlog.replay.verify import verify
from tests.worlds.federation.hostile import HostilePeer
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
    cid = fact.cid or compute_cid(
        entity=fact.entity, relation=fact.relation, value=fact.value, source=fact.source,
        confidence=fact.confidence, scope=fact.scope,
    )  # fmt: skip
    return encode_payload(msgspec.structs.replace(fact, cid=cid))


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
