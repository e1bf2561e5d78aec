"""A peer that repeats a fact gives its children no other ancestors."""

from collections.abc import Callable
from typing import Any

import numpy as np

from engramlog.eventlog.codec import encode_payload
from engramlog.eventlog.kinds import ForeignFact, Parent
from engramlog.projections.authorization import everything
from engramlog.projections.recall.factors.features import derivation_depth
from engramlog.projections.recall.request import RecallRequest
from engramlog.projections.recall.request_facts import Gate, survey
from tests.worlds.federation.forged import Forger, stated
from tests.worlds.federation.hostile import HostilePeer
from tests.worlds.federation.network import START_US
from tests.worlds.federation.seen import texts
from tests.worlds.live import LiveNode, fact
from tests.worlds.waiting import until

Make = Callable[..., HostilePeer]


def said(forger: Forger, text: str, *parents: str, **fields: Any) -> str:
    """The content hash of a fact of the peer."""
    fact = stated(text, derived_from=[Parent(each) for each in parents], **fields)
    forger.add(encode_payload(fact), schema_version=4)
    return fact.cid.removeprefix("sha256:")


def depth(live: LiveNode, fact: str) -> int:
    """The hops that recall counts from a fact to an underived one."""
    view = live.node.reader.pin()
    asked = RecallRequest(query="x")
    found = survey(view, asked, everything(), live.node.moment(), gate=Gate(0.0, True), depth=0)
    slot = live.node.reader.slot_of(fact)
    return int(derivation_depth(found, np.array([slot], dtype=np.int32))[0])


def test_a_peers_copy_of_a_parent_is_not_the_parent(live: LiveNode, hostile: Make) -> None:
    place: dict[str, Any] = {"entity": "user:y", "source": "agent:ann"}
    parent = live.state(**place, v="coughing")
    child = live.state(entity="user:x", source="agent:ann", v="unwell", relation="memory:mood",
                       derived_from=[{"hash": parent["cid"]}])  # fmt: skip
    path = f"/v1/facts/{child['id']}/provenance"
    before = live.call("GET", path).json()
    assert [each["fact_id"] for each in before["nodes"]] == [child["id"], parent["id"]]
    assert depth(live, child["id"]) == 1
    peer = hostile()
    chain = said(peer.forger, "made up")
    for text in ("one", "two", "three"):
        chain = said(peer.forger, text, chain)
    copy = said(peer.forger, "coughing", chain, **place, relation="memory:role")
    assert f"sha256:{copy}" == parent["cid"]
    own = said(peer.forger, "their own child", copy)
    peer.forger.state("the last")
    peer.befriend(live, scopes=["company"])
    until(lambda: "the last" in texts(live))
    assert live.call("GET", path).json() == before
    assert depth(live, child["id"]) == 1
    question = {
        "query": "unwell",
        "scope": "company",
        "token_budget": 500,
        "relation": "memory:mood",
    }
    results = live.call("POST", "/v1/recall", json=question).json()["results"]
    beside = {each.get("provenance_of"): each["fact"]["id"] for each in results}
    assert beside == {None: child["id"], child["id"]: parent["id"]}
    (theirs,) = [
        each
        for each in live.call("GET", "/v1/facts", params={"include_contradicted": True}).json()[
            "facts"
        ]
        if each["cid"] == f"sha256:{own}"
    ]
    assert depth(live, theirs["id"]) == 5, "the peer's own children keep its chain"


def test_a_copy_that_a_peer_wraps_as_another_nodes_is_not_the_parent(
    live: LiveNode, hostile: Make
) -> None:
    """A fact of a node without a log comes wrapped, and names that node itself."""
    honest, forging = hostile("honest"), hostile("forging")
    place: dict[str, Any] = {"entity": "user:y", "source": "agent:ann", "relation": "memory:role"}
    parent = said(honest.forger, "coughing", **place)
    child = said(honest.forger, "unwell", parent)
    chain = said(forging.forger, "made up")
    for text in ("one", "two"):
        chain = said(forging.forger, text, chain)
    wrapped = ForeignFact(honest.forger.id, "x", START_US // 1000 * 1000 + 200_000_000, START_US)
    assert said(forging.forger, "coughing", chain, foreign=wrapped, **place) == parent
    forging.forger.state("the last")
    for peer, last in ((honest, "unwell"), (forging, "the last")):
        peer.befriend(live, scopes=["company"])
        until(lambda last=last: last in texts(live))
    listed = live.call("GET", "/v1/facts", params={"include_contradicted": True}).json()["facts"]
    assert sum(each["cid"] == f"sha256:{parent}" for each in listed) == 2
    (theirs,) = [each["id"] for each in listed if each["cid"] == f"sha256:{child}"]
    assert depth(live, theirs) == 1
    assert live.call("GET", f"/v1/facts/{theirs}/provenance").json()["nodes"][2:] == []


def test_a_peers_copy_of_a_parent_refuses_no_child(live: LiveNode, hostile: Make) -> None:
    """Their chain leads from the parent to the child, which is no fact of ours yet."""
    parent = live.state(entity="user:y", source="agent:ann", v="coughing")
    child = fact(entity="user:x", source="agent:ann", v="unwell")
    peer = hostile()
    copied: dict[str, Any] = {"relation": child["relation"], "source": "agent:ann"}
    ahead = said(peer.forger, "unwell", entity="user:x", **copied)
    assert said(peer.forger, "coughing", ahead, entity="user:y", **copied) in parent["cid"]
    own = said(peer.forger, "their own", ahead)
    peer.forger.state("the last")
    peer.befriend(live, scopes=["company"])
    until(lambda: "the last" in texts(live))
    for hash_, status in ((parent["cid"], 201), (f"sha256:{own}", 400)):
        body = {**child, "derived_from": [{"hash": hash_}]}
        answer = live.call("POST", "/v1/facts", json=body)
        assert answer.status_code == status, answer.text
