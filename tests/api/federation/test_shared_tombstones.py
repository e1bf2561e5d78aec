"""Tombstones between peers, over real sockets: served, pulled, pushed, and refused."""

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from engramlog.eventlog.kinds import PeerGrants, PeerStateSet
from engramlog.replay.stigmem.peer_token import sign_peer_token
from engramlog.replay.stigmem.tombstones import signed_bytes
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.protocol_peers import declared, own_key
from tests.worlds.reference_node import url64
from tests.worlds.tombstone_requests import ALICE, BOB, bury, ids, listed, revoke
from tests.worlds.waiting import until

PATH = "/v1/federation/tombstones"


@pytest.fixture
def pair(serve: Callable[..., LiveNode]) -> tuple[LiveNode, LiveNode]:
    options: dict[str, Any] = {
        "federation_enabled": True,
        "federation_pull_interval_s": 0.05,
        "federation_insecure": True,
    }
    return serve(**options), serve(**options)


def meet(here: LiveNode, there: LiveNode, *scopes: str, erase: bool = True) -> None:
    """``there`` becomes a peer of ``here``."""
    grants = PeerGrants(scopes=list(scopes), erase_foreign=erase, wire="facts")
    declared(here, there.node.node_id, there.url, own_key(there), grants)


def stones(live: LiveNode) -> list[dict[str, Any]]:
    """Every tombstone that a node knows of."""
    return live.call("GET", "/v1/tombstones", key=CONTROL_TOKEN).json()["tombstones"]


def asked(
    here: LiveNode, there: LiveNode, method: str = "GET", path: str = PATH, **more: Any
) -> Any:
    """A request of ``there`` to ``here``, with its own token."""
    now_ms = there.node.clock.now_us() // 1000
    scopes = ["company", "public", "local", "team"]
    token = sign_peer_token(there.node.identity, here.node.node_id, scopes, now_ms)
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.request(method, here.url + path, headers=headers, **more)


def test_a_peers_tombstone_hides_here_and_its_revocation_shows_again(
    pair: tuple[LiveNode, LiveNode],
) -> None:
    here, there = pair
    meet(here, there, "company", "public")
    meet(there, here, "company", "public")
    mine, local = here.state(v="mine"), here.state(v="local", scope="local")
    stone = bury(there, reason="not to be told")
    until(lambda: ids(listed(here)) == {local["id"]})  # local is not shared, so it stays
    (seen,) = stones(here)
    assert seen["id"] == stone["id"]
    assert seen["node_id"] == there.node.node_id
    assert seen["signature"] == stone["signature"]
    assert seen["reason"] is None
    revoke(there, stone["id"])
    until(lambda: ids(listed(here)) == {mine["id"], local["id"]})
    head = here.node.log.head().position
    time.sleep(0.3)
    assert here.node.log.head().position == head  # known records are not written again


def test_records_signed_before_a_rotation_count_for_a_peer_that_knows_the_new_key(
    pair: tuple[LiveNode, LiveNode],
) -> None:
    here, there = pair
    meet(there, here, "company", "public")
    here.state(v="hidden")
    shown = here.state(v="shown again", entity=BOB)
    bury(there)
    revoke(there, bury(there, BOB)["id"])
    there.node.identity.rotate()
    meet(here, there, "company", "public")  # declared with the new key
    until(lambda: len(stones(here)) == 2)
    until(lambda: ids(listed(here)) == {shown["id"]})


def test_a_node_serves_only_its_own_records_in_shared_scopes(
    pair: tuple[LiveNode, LiveNode],
) -> None:
    here, there = pair
    meet(here, there, "company", "local")
    meet(there, here, "company", "local", erase=False)
    foreign = bury(there)
    until(lambda: bool(stones(here)))
    company = bury(here, BOB, scope="company")
    bury(here, BOB, scope="team")
    bury(here, BOB, scope="local")
    every = bury(here, "user:eve")
    revoke(here, company["id"])
    page = asked(here, there).json()
    assert [each["id"] for each in page["tombstones"]] == [company["id"], every["id"]]
    assert [each["tombstone_id"] for each in page["revocations"]] == [company["id"]]
    assert foreign["id"] not in str(page)
    assert asked(here, there, params={"cursor": page["cursor"]}).json() == {
        "tombstones": [], "revocations": [], "cursor": None,
    }  # fmt: skip
    step = asked(here, there, params={"limit": 1}).json()
    assert [each["id"] for each in step["tombstones"]] == [company["id"]]
    assert stones(there)[0]["id"] == foreign["id"]
    assert len(stones(there)) == 1  # not granted


def test_a_pushed_record_counts_by_grant_scope_and_signature(
    pair: tuple[LiveNode, LiveNode],
) -> None:
    here, there = pair
    meet(here, there, "company")
    meet(there, here, "company", erase=False)
    kept = here.state(v="kept", entity=BOB)
    hidden = here.state(v="hidden")
    stone = bury(there)
    path = f"{PATH}/ingest"
    revoke(there, stone["id"])
    until(lambda: [each["stands"] for each in stones(here)] == [False])
    assert ids(listed(here)) == {kept["id"], hidden["id"]}
    head = here.node.log.head().position
    for record, status, code in (
        ({}, 400, "tombstone_malformed"),
        ({**stone, "created_at": "soon"}, 400, "tombstone_malformed"),
        ({**stone, "entity_uri": BOB}, 400, "tombstone_signature_invalid"),
        ({**stone, "signature": "x"}, 400, "tombstone_signature_invalid"),
        (stone, 409, "tombstone_already_exists"),
    ):
        answer = asked(here, there, "POST", path, json=record)
        detail = answer.json()["detail"]
        told = detail if isinstance(detail, str) else detail["code"]
        assert (answer.status_code, told) == (status, code), record
    assert asked(here, there, "POST", path, content=b"[1]").status_code in (400, 422)
    assert httpx.post(here.url + path, json=stone).status_code == 401
    assert here.node.log.head().position == head
    team = bury(there, scope="team")
    answer = asked(here, there, "POST", path, json=team)
    assert (answer.status_code, answer.json()["detail"]) == (400, "tombstone_invalid_scope")
    grants = PeerGrants(scopes=["company"], wire="facts")
    (done,) = here.node.write(PeerStateSet(peer_id=f"peer-of-{there.node.node_id}", grants=grants))
    assert done is not None
    public = bury(there, BOB, scope="company")
    answer = asked(here, there, "POST", path, json=public)
    assert answer.status_code == 403
    assert answer.json()["detail"]["code"] == "tombstone_not_granted"
    assert ids(listed(here)) == {kept["id"], hidden["id"]}


def test_a_peer_revokes_its_own_alone_and_forbids_no_erasure(
    pair: tuple[LiveNode, LiveNode],
) -> None:
    here, there = pair
    meet(here, there, "company")
    meet(there, here, "company", erase=False)
    mine = bury(here, BOB)
    theirs = bury(there, legal_hold=True)
    fact = here.state(v="x")
    until(lambda: listed(here)["facts"] == [])
    assert here.call("GET", "/v1/legal-holds", key=CONTROL_TOKEN).json()["holds"] == []
    record: dict[str, Any] = {
        "id": "rev_1",
        "tombstone_id": mine["id"],
        "signed_by": "agent:root",
        "key_id": "k",
        "created_at": "2026-01-01T00:00:00Z",
    }
    record["signature"] = url64(there.node.identity.sign(signed_bytes(record)))
    answer = asked(here, there, "POST", f"{PATH}/ingest", json=record)
    assert (answer.status_code, answer.json()["detail"]) == (404, "tombstone_not_found")
    record["signature"] = url64(Ed25519PrivateKey.generate().sign(signed_bytes(record)))
    answer = asked(here, there, "POST", f"{PATH}/ingest", json=record)
    assert answer.json()["detail"]["code"] == "tombstone_signature_invalid"
    assert revoke(here, theirs["id"]).status_code == 200  # an admin here decides here
    assert ids(listed(here)) == {fact["id"]}
    time.sleep(0.3)
    assert ids(listed(here)) == {fact["id"]}  # and it is not taken again


def test_a_tombstone_whose_id_another_peer_took_first_hides_all_the_same(
    pair: tuple[LiveNode, LiveNode], serve: Callable[..., LiveNode]
) -> None:
    here, there = pair
    squatter = serve()
    meet(here, there, "company")
    meet(here, squatter, "company")
    alice, bob = here.state(v="a"), here.state(v="b", entity=BOB)
    stone = bury(there)

    def claim(name: str, **fields: Any) -> Any:
        """The squatter signs its own record with an id that is another's."""
        record: dict[str, Any] = {
            "signed_by": "agent:root", "key_id": "k", "created_at": "2026-01-01T00:00:00Z",
            **fields,
        }  # fmt: skip
        record["signature"] = url64(squatter.node.identity.sign(signed_bytes(record)))
        return asked(here, squatter, "POST", f"{PATH}/{name}", json=record)

    bobs = {"entity_uri": BOB, "scope": "company", "legal_hold": False}
    assert claim("ingest", id=stone["id"], **bobs).status_code == 201
    assert ids(listed(here)) == {alice["id"]}
    meet(there, here, "company", erase=False)  # now the true one can be pulled
    until(lambda: ids(listed(here)) == set())
    assert {(each["id"], each["node_id"]) for each in stones(here)} == {
        (stone["id"], there.node.node_id), (stone["id"], squatter.node.node_id),
    }  # fmt: skip
    # A revocation ends its signer's own, even under an id that another's has.
    assert claim("ingest", id="rev_1", tombstone_id=stone["id"]).status_code == 201
    assert ids(listed(here)) == {bob["id"]}
    (status,) = [
        here.call("GET", f"/v1/tombstones/{name}", key=CONTROL_TOKEN).json() for name in (ALICE,)
    ]
    assert status["revocations"] == []
    assert here.node.rebuild().compared
    assert ids(listed(here)) == {bob["id"]}
    # An admin's revocation ends the tombstone with this id.
    assert claim("ingest", id="again", **bobs).status_code == 201
    assert ids(listed(here)) == set()
    assert revoke(here, "again").status_code == 200
    assert revoke(here, stone["id"]).status_code == 200
    assert ids(listed(here)) == {alice["id"], bob["id"]}
    assert revoke(here, stone["id"]).status_code == 409


def test_peers_do_not_get_hidden_facts(pair: tuple[LiveNode, LiveNode]) -> None:
    here, there = pair
    meet(here, there, "company", erase=False)
    gone, ended, kept = here.state(v="gone"), here.state(v="ended"), here.state(entity=BOB, v="tea")
    assert here.call("POST", f"/v1/facts/{ended['id']}/retract", json={}).status_code == 200

    def handed() -> set[str]:
        return {
            each["entity"]
            for each in asked(here, there, path="/v1/federation/facts").json()["facts"]
        }

    assert handed() == {ALICE, BOB}
    bury(here)
    assert handed() == {BOB}
    assert {gone["entity"], kept["entity"]} == {ALICE, BOB}


def test_a_late_grant_lets_a_tombstone_hide_its_facts(
    pair: tuple[LiveNode, LiveNode],
) -> None:
    here, there = pair
    meet(here, there, "company")
    meet(there, here, "company", "public")
    company, public = here.state(v="c"), here.state(v="p", scope="public")
    bury(there)
    until(lambda: ids(listed(here)) == {public["id"]})
    grants = PeerGrants(scopes=["company", "public"], erase_foreign=True, wire="facts")
    peer_id = f"peer-of-{there.node.node_id}"
    here.node.write(PeerStateSet(peer_id=peer_id, grants=grants))
    until(lambda: ids(listed(here)) == set())
    assert here.node.rebuild().digest == here.node.reader.digests().local
    (stone,) = stones(here)
    assert stone["stands"]
    revoke(there, stone["id"])
    until(lambda: ids(listed(here)) == {company["id"], public["id"]})
    head = here.node.log.head().position
    here.node.write(PeerStateSet(peer_id=peer_id, grants=grants))
    time.sleep(0.3)
    assert here.node.log.head().position == head + 1  # it does not stand again


def granted(here: LiveNode, there: LiveNode, *scopes: str, erase: bool = True) -> None:
    grants = PeerGrants(scopes=list(scopes), erase_foreign=erase, wire="facts")
    here.node.write(PeerStateSet(peer_id=f"peer-of-{there.node.node_id}", grants=grants))


def test_a_narrowed_grant_shrinks_the_reach_of_a_received_tombstone(
    pair: tuple[LiveNode, LiveNode],
) -> None:
    here, there = pair
    meet(here, there, "company", "public")
    meet(there, here, "company", "public")
    company, public = here.state(v="c"), here.state(v="p", scope="public")
    stone, mine = bury(there), bury(here, BOB)
    until(lambda: ids(listed(here)) == set())
    there.stop()  # the node judges its records again, whether the peer answers or not
    granted(here, there, "company")
    assert ids(listed(here)) == {public["id"]}
    granted(here, there, "company", "public", erase=False)
    assert ids(listed(here)) == {company["id"], public["id"]}
    granted(here, there, "public", "team", "local")
    assert ids(listed(here)) == {company["id"]}
    assert here.node.rebuild().digest == here.node.reader.digests().local
    granted(here, there)
    assert ids(listed(here)) == {company["id"], public["id"]}
    assert {each["id"] for each in stones(here) if each["stands"]} == {stone["id"], mine["id"]}


def test_two_tombstones_that_hide_the_same_are_independent(
    pair: tuple[LiveNode, LiveNode],
) -> None:
    here, there = pair
    meet(here, there, "company")
    meet(there, here, "company")
    fact = here.state(v="c")
    narrow = bury(there, scope="company")
    bury(there, scope="all")
    until(lambda: len(stones(here)) == 2)
    revoke(there, narrow["id"])
    until(lambda: sum(each["stands"] for each in stones(here)) == 1)
    assert fact["id"] not in ids(listed(here))


def compared(here: LiveNode, there: LiveNode) -> dict[str, Any]:
    path = f"/v1/federation/peers/{there.node.node_id}/compare"
    return here.call("GET", path, key=CONTROL_TOKEN).json()


def test_compare_covers_tombstones_and_says_the_same_from_both_sides(
    pair: tuple[LiveNode, LiveNode],
) -> None:
    here, there = pair
    for one, other in ((here, there), (there, here)):
        grants = PeerGrants(scopes=["company", "public"], erase_foreign=True)
        declared(one, other.node.node_id, other.url, own_key(other), grants)

    def both() -> tuple[bool, str | None]:
        one, other = compared(here, there), compared(there, here)
        found = [
            [(each.get("stream"), each.get("node_id"), each["equal"], *sorted(
                (str(each["ours"]), str(each["theirs"]))))
             for each in answer["streams"] + answer["tombstones"]]
            for answer in (one, other)
        ]  # fmt: skip
        assert found[0] == found[1]
        assert (one["equal"], one["first_difference"]) == (
            other["equal"],
            other["first_difference"],
        )
        return one["equal"], one["first_difference"]

    here.state(v="a")
    there.state(v="b", scope="public", entity=BOB)

    def agree() -> bool:
        one, other = compared(here, there), compared(there, here)
        return len(one["streams"]) == 2 and one["equal"] and other["equal"]

    until(agree)
    assert both() == (True, None)
    stone = bury(there)
    until(lambda: bool(stones(here)) and agree())
    assert both() == (True, None)
    grants = PeerGrants(scopes=["company", "public"])  # its tombstones hide nothing here now
    here.node.write(PeerStateSet(peer_id=f"peer-of-{there.node.node_id}", grants=grants))
    assert both() == (False, f"tombstones of {there.node.node_id}")
    revoke(there, stone["id"])
    assert both() == (True, None)
