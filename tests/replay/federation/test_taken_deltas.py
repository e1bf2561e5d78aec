"""Deltas of a granted peer affect no fact that others state, and take none of their names."""

from collections.abc import Callable
from typing import Any

from engramlog.eventlog.codec import encode_payload
from engramlog.eventlog.identifiers import IdentifierSource, id_text
from engramlog.eventlog.kinds import AppliedDelta, DeltaApplied, Value
from tests.worlds.federation.forged import Forger, stated
from tests.worlds.federation.hostile import HostilePeer
from tests.worlds.federation.network import START_US
from tests.worlds.federation.seen import held, texts
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.memory_requests import apply, delta, objects, put
from tests.worlds.waiting import until

Make = Callable[..., HostilePeer]
HERE = {"user": "Alice", "agent": "rag"}


def applied(forger: Forger, fact_id: str | None = None, **fields: Any) -> None:
    made = AppliedDelta(
        delta_id=fields.pop("delta_id", "theirs"), delta="add", user="Alice", agent="rag",
        rule_id="by-hand", source_episode_ids=fields.pop("sources", ["ep-1"]),
        promotion_us=START_US, name=fields.pop("name", "f-1"), subject="self",
        predicate="drinks", fact_id=fact_id,
    )  # fmt: skip
    payload = encode_payload(DeltaApplied(scope="company", deltas=[made]))
    forger.add(payload, kind="delta_applied", schema_version=1)


def drinks(forger: Forger, what: str, event_id: bytes) -> None:
    fact = stated(what, entity="memory:alice", relation="drinks")
    forger.add(encode_payload(fact), schema_version=4, event_id=event_id)


def test_a_peers_delta_does_not_replace_ours_with_the_same_id(
    live: LiveNode, hostile: Make
) -> None:
    mine = delta("add", id="f-1")
    probe = apply(live, mine, scope="company").json()["results"][0]
    gone = {"fact_ids": [probe["fact_id"]], "wait": True}
    assert live.call("POST", "/v1/erasures", key=CONTROL_TOKEN, json=gone).is_success
    peer = hostile()
    applied(peer.forger, delta_id=probe["delta_id"])
    peer.forger.state("its own")
    peer.befriend(live, scopes=["company"])
    until(lambda: "its own" in texts(live))
    result = apply(live, mine, scope="company").json()["results"][0]
    assert (result["status"], objects(live)) == ("applied", ["tea"])
    assert apply(live, mine, scope="company").json()["results"][0]["status"] == "known"
    assert live.node.rebuild().compared


def test_a_delta_of_a_peer_takes_no_fact_from_anothers(live: LiveNode, hostile: Make) -> None:
    honest, squatter = hostile("honest"), hostile("squatter")
    fact = IdentifierSource(honest.forger.id).next(START_US)
    applied(honest.forger, id_text(fact), delta_id="honest")
    drinks(honest.forger, "tea", fact)
    put(live, user="Bob", scope="company", id="ep-9")
    applied(squatter.forger, id_text(fact), name="other", sources=["ep-9"])
    squatter.forger.state("its own")
    squatter.befriend(live, scopes=["company"])
    until(lambda: "its own" in texts(live))
    honest_id = honest.befriend(live, scopes=["company"])
    until(lambda: "tea" in texts(live))
    assert held(live, honest_id) == {}
    rows = live.call("GET", "/v1/deltas/facts", params={"user": "Alice"}).json()["facts"]
    assert [(row["id"], row["version"], row["delta_id"]) for row in rows] == [("f-1", 1, "honest")]
    body = {"fact_ids": [id_text(fact)], "episodes": True, "wait": True}
    erased = live.call("POST", "/v1/erasures", key=CONTROL_TOKEN, json=body)
    assert erased.is_success, erased.text
    assert erased.json()["episode_ids"] == [], "only the honest delta names its source"
    assert live.node.rebuild().compared


def test_a_name_is_ours_before_it_is_a_peers(live: LiveNode, hostile: Make) -> None:
    """A peer states a fact under a name of ours, with a later id than all others."""
    assert apply(live, delta("add", id="f-1"), scope="company").is_success
    peer = hostile()
    later = IdentifierSource(peer.forger.id).next(START_US * 2)
    applied(peer.forger, id_text(later))
    drinks(peer.forger, "bleach", later)
    drinks(peer.forger, "its own", IdentifierSource(peer.forger.id).next(START_US))
    peer.befriend(live, scopes=["company"])
    until(lambda: "its own" in texts(live))
    changed = delta("update", id="f-1b", replaces=["f-1"], object="coffee")
    assert apply(live, changed, scope="company").is_success
    assert "tea" not in texts(live)
    assert "coffee" in texts(live)


def test_a_peers_earlier_equal_fact_does_not_prevent_ours(live: LiveNode, hostile: Make) -> None:
    """A peer's equal fact under our name is the peer's to retract."""
    (probe,) = apply(live, delta("add", id="f-1"), scope="company").json()["results"]
    record = live.call("GET", f"/v1/facts/{probe['fact_id']}").json()
    gone = {"fact_ids": [probe["fact_id"]], "wait": True}
    assert live.call("POST", "/v1/erasures", key=CONTROL_TOKEN, json=gone).is_success
    peer = hostile()
    theirs = IdentifierSource(peer.forger.id).next(START_US)
    applied(peer.forger, id_text(theirs))
    said = Value(record["value"]["type"], record["value"]["v"])
    fact = stated("", entity=record["entity"], relation=record["relation"], value=said)
    peer.forger.add(encode_payload(fact), schema_version=4, event_id=theirs)
    peer.befriend(live, scopes=["company"])
    until(lambda: "tea" in texts(live))
    again = delta("add", id="f-1", at="2026-02-01T00:00:00Z")
    (result,) = apply(live, again, scope="company").json()["results"]
    assert result["status"] == "applied"
    assert result["fact_id"] != id_text(theirs)
