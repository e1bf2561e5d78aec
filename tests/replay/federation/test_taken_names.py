"""A granted peer's facts in a source's name are not that source's: they neither stand for what it
states nor stand between it."""

from collections.abc import Callable
from typing import Any

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.codec import encode_payload
from engramlog.eventlog.kinds import Attestation, Value
from tests.worlds.federation.forged import stated
from tests.worlds.federation.hostile import HostilePeer
from tests.worlds.federation.seen import texts
from tests.worlds.live import LiveNode
from tests.worlds.waiting import until

Make = Callable[..., HostilePeer]
ANN = "agent:ann"


def arrive(live: LiveNode, peer: HostilePeer, text: str, **fields: Any) -> None:
    """A fact of the peer's, stated by ann as it claims."""
    said = stated(text, source=ANN, value=Value("text", text), **fields)
    peer.forger.add(encode_payload(said), schema_version=4)
    until(lambda: text in texts(live))


def test_a_statement_is_new_although_a_peer_made_it_in_the_sources_name(
    live: LiveNode, hostile: Make
) -> None:
    peer = hostile()
    peer.befriend(live, scopes=["company"])
    arrive(live, peer, "tea")
    said = {"entity": "user:a", "relation": "memory:role", "type": "text", "v": "tea"}
    mine = live.state(source=ANN, **said)
    assert mine["received_from"] is None
    assert live.state(source=ANN, **said)["id"] == mine["id"], "but said twice it is one fact"


def test_a_memory_is_new_although_a_peer_stored_it_in_the_owners_name(
    live: LiveNode, hostile: Make
) -> None:
    peer = hostile()
    peer.befriend(live, scopes=["company"])
    arrive(live, peer, "black tea", entity=ANN, relation="memory:stored")
    body = {"content": "black tea", "source": ANN, "scope": "company"}
    first, again = (live.call("POST", "/v1/memories", json=body).json() for _ in range(2))
    assert first["fact"]["received_from"] is None
    assert (again["id"], again["error"]) == (first["id"], "duplicate (skipped)")


def test_a_peers_facts_stand_in_no_conversation_of_the_sources_own(
    live: LiveNode, hostile: Make, clock: FixedClock
) -> None:
    """Between two facts they would lend their words."""
    peer = hostile()
    peer.befriend(live, scopes=["company"])
    said = {"entity": "person:ann", "relation": "said", "type": "text", "source": ANN}
    clock.advance(1_000_000)
    live.state(v="I play the violin", **said)
    clock.advance(1_000_000)
    arrive(live, peer, "What do zebras eat?", entity="person:ann", relation="said")
    clock.advance(1_000_000)
    last = live.state(v="Since I was six", **said)
    question = {"query": "zebras eat", "scope": "company", "limit": 10, "token_budget": 4000}
    found = live.call("POST", "/v1/recall", json=question).json()["facts"]
    assert [each["fact"]["value"]["v"] for each in found] == ["What do zebras eat?"]
    question["query"] = "violin"
    found = live.call("POST", "/v1/recall", json=question).json()["facts"]
    assert [each["fact"]["id"] for each in found][-1] == last["id"]


def test_short_answers_say_which_facts_came_through_a_peer(live: LiveNode, hostile: Make) -> None:
    peer = hostile()
    peer.befriend(live, scopes=["company"])
    node_id = peer.forger.id
    arrive(live, peer, "tea for two")
    mine = live.state(source=ANN, entity="user:b", type="text", v="tea for three")
    asked = {"query": "tea", "scope": "company"}
    for path, body in (("/v1/recall", asked), ("/v1/facts", None)):
        lines, facts = (
            live.call("POST" if body else "GET", path, params={"fields": fields}, json=body).json()
            for fields in ("compact", "facts")
        )
        shown = {line.split(" | ")[2]: line for line in lines["text"].splitlines()[1:]}
        assert f" | through {node_id} | {ANN} | " in shown['"tea for two"']
        assert shown['"tea for three"'].endswith(f" | {ANN} | {mine['id']}")
        came = {each["value"]["v"]: each.get("received_from", "") for each in facts["facts"]}
        assert came == {"tea for two": node_id, "tea for three": ""}


def test_a_peers_word_is_no_attestation(live: LiveNode, hostile: Make) -> None:
    peer = hostile()
    peer.befriend(live, scopes=["company"])
    arrive(live, peer, "tea", attestation=Attestation("a-key-of-ann", "a signature"))
    (fact,) = live.call("GET", "/v1/facts").json()["facts"]
    assert (fact["attested"], fact["attested_key_id"]) == (False, "a-key-of-ann")
    for wanted, total in ((True, 0), (False, 1)):
        listed = live.call("GET", "/v1/facts", params={"attested": wanted})
        assert listed.json()["total"] == total


def test_the_holder_of_a_name_ends_here_what_a_peer_states_in_it(
    live: LiveNode, hostile: Make
) -> None:
    peer = hostile()
    peer.befriend(live, scopes=["company"])
    arrive(live, peer, "tea")
    (fact,) = live.call("GET", "/v1/facts").json()["facts"]
    path, body = f"/v1/facts/{fact['id']}/retract", {"reason": "not mine"}
    another = live.mint("read", "write", entity="agent:bob", sources=["agent:bob"])
    assert live.call("POST", path, key=another, json=body).status_code == 403
    own = live.mint("read", "write", entity=ANN, sources=[ANN])
    assert live.call("POST", path, key=own, json=body).status_code == 200
    assert texts(live) == set()
