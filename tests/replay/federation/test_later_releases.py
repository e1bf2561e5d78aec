"""What a peer of a later release writes takes effect once this node runs that release."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.codec import encode_payload
from engramlog.eventlog.kinds import KINDS, SCHEMA_VERSIONS, FactRetracted, KeyIssued
from engramlog.projections.tables.declared.keys import load_keys
from engramlog.projections.writing.commands import Done
from tests.worlds.federation.forged import stated
from tests.worlds.federation.hostile import HostilePeer
from tests.worlds.federation.network import Link, Member
from tests.worlds.federation.seen import held, texts
from tests.worlds.histories import asserted
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.waiting import until

Make = Callable[..., HostilePeer]


@pytest.fixture
def start(tmp_path: Path, clock: FixedClock) -> Iterator[Callable[[], LiveNode]]:
    """Start the node, again if it runs."""
    running: list[LiveNode] = []

    def run() -> LiveNode:
        end()
        peers = {"federation_enabled": True, "federation_insecure": True}
        running.append(LiveNode(tmp_path / "node", clock=clock, **peers))
        return running[0]

    def end() -> None:
        while running:
            running.pop().close()

    yield run
    end()


def test_events_of_a_later_release_take_effect_after_the_upgrade(
    pair: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair
    (said,) = a.submit([asserted(source="agent:t", scope="company")]).outcomes
    assert isinstance(said, Done)
    fact = said.fact_id
    assert fact is not None
    with monkeypatch.context() as earlier:
        earlier.setitem(SCHEMA_VERSIONS, "fact_asserted", 1)
        b.restart()
        assert b.pull(Link(b, a)).faults == {}
        assert b.node.reader.slot_of(fact) is None
        taken = b.node.snapshot()
    b.restart()
    assert b.node.reader.slot_of(fact) is not None
    assert b.digests().shared == a.digests().shared
    (passed,) = b.node.rebuild().passed_over
    assert passed.position == taken.position
    assert passed.reason == "an earlier release ignored what this one reads: fact_asserted 4"


def test_a_retraction_of_a_later_release_ends_its_fact_after_the_upgrade(
    start: Callable[[], LiveNode], hostile: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the peer is gone."""
    peer = hostile()
    peer.forger.state("ended later")
    with monkeypatch.context() as earlier:
        earlier.setitem(SCHEMA_VERSIONS, "fact_retracted", 0)
        live = start()
        peer.befriend(live)
        until(lambda: texts(live) == {"ended later"})
        (fact,) = live.call("GET", "/v1/facts").json()["facts"]
        ended = encode_payload(FactRetracted(fact_ids=[fact["id"]]))
        peer.forger.add(ended, kind="fact_retracted", schema_version=1)
        peer.forger.state("behind")
        until(lambda: texts(live) == {"ended later", "behind"})
        live.close()
    live = start()
    until(lambda: texts(live) == {"behind"})


def test_a_key_that_a_peer_issues_opens_nothing(
    start: Callable[[], LiveNode], hostile: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its kind is new, or a later version of one that never leaves its node."""
    key = KeyIssued(key_id="k", entity_uri="agent:f", permissions=["admin"], key_sha256="a" * 64)
    version = SCHEMA_VERSIONS["key_issued"]
    peer = hostile()
    for scope in ("company", "public"):
        peer.forger.add(encode_payload(key), kind="key_issued", schema_version=version, scope=scope)
    with monkeypatch.context() as earlier:
        earlier.setitem(SCHEMA_VERSIONS, "key_issued", 1)
        live = start()
        peer_id = peer.befriend(live, scopes=["company"])
        reason = until(lambda: held(live, peer_id))["company"]
        assert reason.endswith("event 1: key_issued never leaves its node")
        earlier.delitem(KINDS, "key_issued")
        earlier.delitem(SCHEMA_VERSIONS, "key_issued")
        grants = f"/v1/federation/peers/{peer_id}/grants"
        answer = live.call("PUT", grants, key=CONTROL_TOKEN, json={"scopes": ["public"]})
        assert answer.status_code == 200, answer.text
        until(lambda: "engramlog_unknown_events 1" in live.call("GET", "/metrics").text)
        live.close()
    live = start()
    assert "engramlog_unknown_events 0" in live.call("GET", "/metrics").text
    assert live.node.reader.ask(load_keys) == []


def test_a_fact_of_another_scope_than_its_stream_is_none_in_a_later_release(
    start: Callable[[], LiveNode], hostile: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = hostile()
    peer.forger.add(encode_payload(stated("misplaced")), scope="public", schema_version=4)
    peer.forger.state("behind", "public")
    with monkeypatch.context() as earlier:
        earlier.setitem(SCHEMA_VERSIONS, "fact_asserted", 3)
        live = start()
        peer.befriend(live, scopes=["public"])
        until(lambda: texts(live) == {"behind"})
        live.close()
    live = start()
    assert live.node.writer.store.outdated == []
    assert texts(live) == {"behind"}


@pytest.mark.parametrize(
    "payload",
    [b"", b"[1]", b'{"kind":"fact_sung","x":"\\ud800"}', b'{"kind":"fact_sung","\xff":1}',
     b'{"kind":"fact_asserted"}', b'{"x":1}'],
)  # fmt: skip
def test_a_kind_of_a_later_release_has_an_object_that_names_it(
    live: LiveNode, hostile: Make, payload: bytes
) -> None:
    peer = hostile()
    peer.forger.add(payload, kind="fact_sung", schema_version=1)
    peer_id = peer.befriend(live)
    assert until(lambda: held(live, peer_id))["company"].startswith("malformed: ")


def test_what_a_later_release_wrote_stops_no_statement_over_the_log(
    live: LiveNode, hostile: Make
) -> None:
    """Its events may lack any field, hold other things there, and name facts hidden here."""
    peer = hostile()
    peer.forger.state("hidden")
    later = [
        {"kind": "fact_asserted"},
        {"kind": "fact_asserted", "entity": ["a"], "value": {"type": 1}, "confidence": "high"},
        {"kind": "fact_asserted", "entity": "user:b", "value": "x", "confidence": True},
    ]
    for each in later:
        peer.forger.add(msgspec.json.encode(each), schema_version=99)
    peer.befriend(live)
    until(lambda: texts(live) == {"hidden"})
    (fact,) = live.call("GET", "/v1/facts").json()["facts"]
    naming = {"kind": "fact_sung", "fact_ids": [fact["id"], {}], "fact_id": {}, "loser_ids": [1]}
    peer.forger.add(msgspec.json.encode(naming), kind="fact_sung", schema_version=1)
    peer.forger.add(b'{"kind":"episode_recorded"}', kind="episode_recorded", schema_version=99)
    peer.forger.state("behind")
    until(lambda: texts(live) == {"hidden", "behind"})
    stone = {"entity_uri": fact["entity"]}
    assert live.call("POST", "/v1/tombstones", key=CONTROL_TOKEN, json=stone).status_code == 201
    sql = "SELECT kind, entity, detail FROM events WHERE peer IS NOT NULL ORDER BY position"
    told = live.call("POST", "/v1/time-travel/sql", key=CONTROL_TOKEN, json={"sql": sql})
    assert told.status_code == 200, told.text
    assert [row[:2] for row in told.json()["rows"]] == [
        ["fact_asserted", None],
        ["fact_asserted", None],
        ["fact_asserted", "user:b"],
    ]
    assert fact["id"] not in told.text
