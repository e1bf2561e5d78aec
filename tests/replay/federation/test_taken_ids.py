"""Ids belong to their origin: a granted peer's event under another's id blocks nothing."""

from collections.abc import Callable

from msgspec.structs import replace

from engramlog.eventlog.clock import parse_hlc
from engramlog.eventlog.codec import decode_header, encode_payload
from engramlog.eventlog.kinds import EpisodeRecorded, ForeignFact, PeerGrants
from tests.worlds.federation.forged import stated
from tests.worlds.federation.hostile import HostilePeer
from tests.worlds.federation.network import START_US
from tests.worlds.federation.seen import held, texts
from tests.worlds.live import LiveNode
from tests.worlds.protocol_peers import declared, own_key
from tests.worlds.reference_node import ReferenceNode
from tests.worlds.waiting import until

Make = Callable[..., HostilePeer]


def test_an_event_under_the_id_of_anothers_keeps_that_one_out_of_nothing(
    live: LiveNode, hostile: Make
) -> None:
    """A peer sees another's event and sends its own under the same id, earlier."""
    honest, squatter = hostile("honest"), hostile("squatter")
    honest.forger.state("true")
    honest.forger.state("and more")
    taken = decode_header(honest.forger.streams[honest.forger.stream()][0][0]).event_id
    squatter.forger.state("its own", "public")
    squatter.forger.state("made up", event_id=taken)
    squatter_id = squatter.befriend(live)
    assert until(lambda: held(live, squatter_id))["company"].startswith("scope:")
    honest_id = honest.befriend(live)
    until(lambda: texts(live) == {"its own", "true", "and more"})
    assert held(live, honest_id) == {}
    assert live.node.rebuild().compared


def test_a_peers_wrapping_does_not_replace_anothers_fact(live: LiveNode, hostile: Make) -> None:
    other = ReferenceNode()
    try:
        other.wall_ms = START_US // 1000
        true = other.state("true")
        peer = hostile()
        foreign = ForeignFact(other.node_id, true["id"], parse_hlc(true["hlc"]), 1)
        payload = encode_payload(replace(stated("made up"), foreign=foreign))
        peer.forger.add(payload, schema_version=4)
        peer.befriend(live, scopes=["company"])
        until(lambda: "made up" in texts(live))
        other.peers[live.node.node_id] = own_key(live)
        grants = PeerGrants(scopes=["company"], wire="facts")
        declared(live, other.node_id, other.url, other.public_key, grants)
        until(lambda: "true" in texts(live))
        assert live.node.rebuild().compared
    finally:
        other.close()


def test_an_episode_of_a_peer_takes_no_id_from_those_recorded_here(
    live: LiveNode, hostile: Make
) -> None:
    peer = hostile()
    theirs = EpisodeRecorded(
        user="user:a", session="s", agent="agent:f", content="made up", at_us=START_US,
        scope="company", id="episode-1",
    )  # fmt: skip
    peer.forger.add(encode_payload(theirs), kind="episode_recorded", schema_version=1)
    peer.forger.state("its own")
    peer.befriend(live, scopes=["company"])
    until(lambda: "its own" in texts(live))
    ours = {"user": "user:b", "session": "s", "agent": "agent:b", "content": "true",
            "id": "episode-1", "scope": "company"}  # fmt: skip
    answer = live.call("POST", "/v1/episodes", json=ours)
    assert answer.status_code == 201, answer.text
    again = live.call("POST", "/v1/episodes", json=ours)
    assert again.status_code in (200, 201), again.text


def test_a_fact_arrives_although_another_peer_used_its_id_first(
    live: LiveNode, hostile: Make
) -> None:
    """A peer sees the id of another's fact and states its own under it, earlier."""
    honest, squatter = hostile("honest"), hostile("squatter")
    taken = "0190a5b6-0000-7000-8000-000000000001"
    honest.forger.add(
        encode_payload(stated("true")), schema_version=4,
        event_id=bytes.fromhex(taken.replace("-", "")),
    )  # fmt: skip
    squatter.forger.add(encode_payload(replace(stated("made up"), id=taken)), schema_version=4)
    squatter.forger.state("its own")
    squatter_id = squatter.befriend(live, scopes=["company"])
    until(lambda: "its own" in texts(live))
    honest_id = honest.befriend(live, scopes=["company"])
    until(lambda: "true" in texts(live))
    assert held(live, honest_id) == held(live, squatter_id) == {}
    assert "made up" not in texts(live)
    assert live.node.rebuild().compared
