"""Who may request streams: the socket refuses every invalid token."""

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web

from engramlog.api.client.event_source import DIGESTS_PATH, EVENTS_PATH, STREAMS_PATH
from engramlog.eventlog.identity import Identity, Rotation, rotation_message
from engramlog.projections.rights.capability_token import to_url_text
from engramlog.replay.federation.declaration import fingerprint
from tests.worlds.federation.forged import Forger
from tests.worlds.federation.hostile import HostilePeer
from tests.worlds.federation.seen import detail
from tests.worlds.live import CONTROL_TOKEN, LiveNode
from tests.worlds.waiting import until

Make = Callable[..., HostilePeer]
ROUTES = (STREAMS_PATH, EVENTS_PATH, DIGESTS_PATH)
SECOND_MS = 1_000


def ask(live: LiveNode, path: str, token: str | None) -> tuple[int, Any]:
    """Status and detail of one request that only peers may make."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    wanted = {"stream": f"{live.node.node_id}/1/scope/company", "after": 0, "limit": 10}
    query = wanted if path == EVENTS_PATH else {}
    answer = live.call("GET", path, headers=headers, params=query)
    return answer.status_code, answer.json().get("detail") if answer.status_code > 299 else None


@pytest.mark.parametrize("path", ROUTES)
def test_only_a_fresh_token_of_an_approved_peer_for_this_node_is_let_in(
    live: LiveNode, hostile: Make, path: str
) -> None:
    peer, stranger = hostile(), hostile("stranger").forger
    peer.befriend(live, pull=False)
    live.state(scope="company")
    forger, own_id = peer.forger, live.node.node_id
    assert ask(live, path, forger.token(own_id)) == (200, None)
    for token, reason in (
        (None, "peer token required"),
        ("a.b", "malformed token"),
        ("x" * 5_000, "malformed token"),
        (forger.token(own_id)[:-20], "invalid_signature"),
        (forger.token(own_id, ahead_ms=-91 * SECOND_MS), "token_expired"),
        (forger.token(own_id, ahead_ms=31 * SECOND_MS), "iat_in_future"),
        (forger.token("stigmem:node:another"), "invalid_sub"),
        (forger.token(forger.id), "invalid_sub"),
        (forger.token(own_id, nonce="n" * 201), "missing_nonce"),
        (stranger.token(own_id), "peer not registered"),
        (in_the_name_of(forger, stranger, own_id), "invalid_signature"),
        (unsigned(forger, own_id), "malformed token"),
    ):
        assert ask(live, path, token) == (401, reason)
    assert ask(live, path, forger.token(own_id)) == (200, None)


def in_the_name_of(forger: Forger, signer: Forger, target: str) -> str:
    """A token in the forger's name with another's signature."""
    head, claims, _ = forger.token(target).split(".")
    signature = signer.identity.sign(f"{head}.{claims}".encode())
    return f"{head}.{claims}.{to_url_text(signature)}"


def unsigned(forger: Forger, target: str) -> str:
    """The old trick: a header that claims that no signature is needed."""
    _, claims, _ = forger.token(target).split(".")
    head = to_url_text(msgspec.json.encode({"alg": "none", "typ": "JWT"}))
    return f"{head}.{claims}."


@pytest.mark.parametrize("path", ROUTES)
def test_a_token_is_good_for_one_request(live: LiveNode, hostile: Make, path: str) -> None:
    peer = hostile()
    peer.befriend(live, pull=False)
    live.state(scope="company")
    token = peer.forger.token(live.node.node_id)
    assert ask(live, path, token) == (200, None)
    for again in ROUTES:
        assert ask(live, again, token) == (401, "nonce_already_seen")
    same_nonce = peer.forger.token(live.node.node_id, nonce="one")
    assert ask(live, path, same_nonce)[0] == 200
    other = peer.forger.token(live.node.node_id, "public", nonce="one")
    assert ask(live, path, other) == (401, "nonce_already_seen")


@pytest.mark.parametrize("path", ROUTES)
def test_neither_an_unapproved_nor_a_revoked_peer_gets_anything(
    live: LiveNode, hostile: Make, path: str
) -> None:
    waiting, gone = hostile("waiting"), hostile("gone")
    waiting.register(live)
    peer_id = gone.befriend(live, pull=False)
    live.state(scope="company")
    own_id = live.node.node_id
    assert ask(live, path, waiting.forger.token(own_id)) == (401, "peer_not_approved")
    assert ask(live, path, gone.forger.token(own_id)) == (200, None)
    earlier = gone.forger.token(own_id)
    revoked = live.call(
        "POST", f"/v1/federation/peers/{peer_id}/revoke", key=CONTROL_TOKEN, json={"reason": "x"}
    )
    assert revoked.status_code == 200, revoked.text
    assert ask(live, path, earlier) == (401, "peer_not_approved")
    assert ask(live, path, gone.forger.token(own_id)) == (401, "peer_not_approved")


def test_a_token_opens_no_more_than_it_names_and_is_granted(live: LiveNode, hostile: Make) -> None:
    peer = hostile()
    peer.befriend(live, pull=False, scopes=["public"])
    for scope in ("company", "public", "team", "local"):
        live.state(scope=scope)
    own_id = live.node.node_id

    def streams(*scopes: str) -> list[str]:
        headers = {"Authorization": f"Bearer {peer.forger.token(own_id, *scopes)}"}
        body = live.call("GET", STREAMS_PATH, headers=headers).json()
        return [head["stream"].rpartition("/")[2] for head in body["heads"]]

    assert streams("public", "company", "team", "local") == ["public"]
    assert streams("company") == []
    for scope in ("company", "team", "local"):
        headers = {"Authorization": f"Bearer {peer.forger.token(own_id, scope)}"}
        stream = f"{own_id}/1/scope/{scope}"
        refused = live.call("GET", EVENTS_PATH, headers=headers, params={"stream": stream})
        assert refused.status_code == 404
        assert refused.json()["detail"]["code"] == "stream_not_found"


@pytest.mark.parametrize("times", [1, 3, 30])
def test_a_token_proves_a_rotated_key_and_the_replaced_one_ends(
    live: LiveNode, hostile: Make, times: int
) -> None:
    peer = hostile()
    peer_id = peer.befriend(live, pull=False)  # this node never sees the peer's signed heads
    forger, own_id = peer.forger, live.node.node_id
    stolen = Identity.restore(forger.identity.folder, forger.identity.folder / "stolen")

    def known() -> bool:
        # While an earlier key is being recorded, a token's key waits for the next token.
        assert ask(live, STREAMS_PATH, forger.token(own_id)) == (200, None)
        return bool(detail(live, peer_id)["pubkey_fingerprint"] == fingerprint(forger.wire_key))

    for turn in range(times):
        forger.identity.rotate()
        if turn % 5 == 0:  # one token carries the newest eight
            until(known)
    until(known)
    shown = fingerprint(forger.wire_key)
    current, forger.identity = forger.identity, stolen
    assert ask(live, STREAMS_PATH, forger.token(own_id)) == (401, "invalid_signature")
    stolen.rotate()  # the thief's rotation begins at a key that was replaced
    assert ask(live, STREAMS_PATH, forger.token(own_id)) == (401, "invalid_signature")
    forger.identity = current
    assert ask(live, STREAMS_PATH, forger.token(own_id)) == (200, None)
    assert detail(live, peer_id)["pubkey_fingerprint"] == shown


def test_a_false_rotation_proves_nothing(live: LiveNode, hostile: Make) -> None:
    peer, thief = hostile(), hostile("thief").forger
    peer.befriend(live, pull=False)
    forger, own_id = peer.forger, live.node.node_id
    known, wanted = forger.identity.public_key_b64, thief.identity.public_key_b64
    message = rotation_message(forger.id, wanted)
    for signature in (
        base64.b64encode(thief.identity.sign(message)).decode(),
        base64.b64encode(forger.identity.sign(message + b"x")).decode(),
        "no base64",
        "",
    ):
        claims: dict[str, Any] = {
            "iss": forger.id, "sub": own_id, "iat": forger.clock.now_us() // 1000,
            "exp": forger.clock.now_us() // 1000 + 60_000, "nonce": f"n{signature}",
            "rotations": [Rotation(known, wanted, signature)],
        }  # fmt: skip
        parts = ({"alg": "EdDSA", "typ": "JWT"}, claims)
        signed = ".".join(to_url_text(msgspec.json.encode(part)) for part in parts)
        token = f"{signed}.{to_url_text(thief.identity.sign(signed.encode()))}"
        assert ask(live, STREAMS_PATH, token) == (401, "invalid_signature")


def test_a_granted_garden_leaves_only_if_its_scope_may(
    live: LiveNode, hostile: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    gardens: dict[str, str] = {}
    for scope in ("local", "team", "company"):
        body = {"slug": scope, "name": scope, "scope": scope}
        made = live.call("POST", "/v1/gardens", key=CONTROL_TOKEN, json=body)
        gardens[made.json()["id"]] = scope
        live.state(scope=scope, garden_id=scope, key=CONTROL_TOKEN)
    peer = hostile()
    peer.befriend(live, pull=False, scopes=["company"], gardens=list(gardens))
    own_id = live.node.node_id

    def leaving() -> list[str]:
        headers = {"Authorization": f"Bearer {peer.forger.token(own_id, 'company')}"}
        heads = live.call("GET", STREAMS_PATH, headers=headers).json()["heads"]
        return sorted(gardens[head["stream"].rpartition("/")[2]] for head in heads)

    assert leaving() == ["company"]
    for garden, scope in gardens.items():
        headers = {"Authorization": f"Bearer {peer.forger.token(own_id)}"}
        query = {"stream": f"{own_id}/1/garden/{garden}"}
        answer = live.call("GET", EVENTS_PATH, headers=headers, params=query)
        assert answer.status_code == (200 if scope == "company" else 404)
    allowed = frozenset({"company", "public", "team"})
    monkeypatch.setattr(live.service().peers, "open_scopes", lambda: allowed)
    assert leaving() == ["company", "team"]
    # Peers still get what ends the facts of a deleted garden.
    gone = live.call("DELETE", "/v1/gardens/company", key=CONTROL_TOKEN)
    assert gone.status_code < 300, gone.text
    assert leaving() == ["company", "team"]


def test_a_key_of_this_node_is_no_peer_token(live: LiveNode) -> None:
    for key in (CONTROL_TOKEN, live.mint("read", "federate", "admin")):
        for path in ROUTES:
            assert ask(live, path, key)[0] == 401


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [
        ("iat_in_future", "correct the wrong clock"),
        ("token_expired", "correct the wrong clock"),
        ("invalid_signature", "revoke this node there, add and approve it again"),
        ("peer_not_approved", "its operator approves this node"),
        ("nonce_already_seen", ""),
    ],
)
def test_a_refused_token_says_what_to_do(
    live: LiveNode, hostile: Make, refusal: str, remedy: str
) -> None:
    async def refused(_: web.Request) -> web.Response:
        return web.json_response({"detail": refusal}, status=401)

    peer = hostile()
    peer.answers[STREAMS_PATH] = refused
    peer_id = peer.befriend(live)
    told = until(lambda: str((detail(live, peer_id)["replay"] or {}).get("fault") or ""))
    assert f"answered 401: {refusal}" in told
    assert remedy in told
