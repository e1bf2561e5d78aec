"""A peer receives the same bytes whether or not facts exist that it has no grant for. The twin
worlds come from ``private_worlds``; here both have one signing key and one peer."""

import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from unittest import mock

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given

from engramlog.eventlog.event import scope_partition, stream_name
from engramlog.eventlog.kinds import PeerDeclared, PeerGrants, PeerStateSet
from tests.worlds.busy_life import BUSY
from tests.worlds.federation.forged import Forger
from tests.worlds.private_questions import QUICK
from tests.worlds.private_steps import Step, histories
from tests.worlds.private_vectors import embedded_to_the_end
from tests.worlds.private_worlds import Life, private_texts

GRANTED = ["company", "public"]
TIMELESS = frozenset({"date"})
"""Headers of the moment of the request."""


class Peered:
    """A life with a peer that may have these scopes, and no garden."""

    def __init__(self, life: Life, peer: Forger, scopes: list[str]) -> None:
        self.life = life
        self._peer = peer
        self._requests = 0
        declared = PeerDeclared(
            peer_id="peer-1",
            node_id=peer.id,
            node_url="http://127.0.0.1:9",
            public_key=peer.identity.public_key_b64,
            allowed_scopes=scopes,
            signed_at="",
            signature="",
        )
        grants = PeerGrants(scopes=scopes, pull=False, erase_foreign=True)
        life.node.write(declared)
        life.node.write(PeerStateSet(peer_id="peer-1", state="active", grants=grants))

    def asked(self, path: str, **params: Any) -> tuple[int, dict[str, str], bytes]:
        """What the peer receives."""
        self._requests += 1
        self._peer.clock.set(self.life.clock.now_us())
        scopes = ("company", "public", "team", "local")
        token = self._peer.token(self.life.node.node_id, *scopes, nonce=f"n{self._requests}")
        found = self.life.live.call("GET", path, key=token, params=params)
        headers = {k.lower(): v for k, v in found.headers.items() if k.lower() not in TIMELESS}
        return found.status_code, headers, found.content

    def everything(self, streams: Sequence[str]) -> dict[str, Any]:
        """Every answer that the peer can get, by request."""
        told: dict[str, Any] = {}
        for path in ("declaration", "streams", "digests"):
            told[path] = self.asked(f"/v1/federation/{path}")
        for stream in streams:
            for after, limit in ((0, 500), (0, 1), (2, 2), (10_000, 5)):
                told[f"{stream} {after} {limit}"] = self.asked(
                    "/v1/federation/events", stream=stream, after=after, limit=limit
                )
        for scope in (None, *GRANTED, "team", "local"):
            for limit in (1, 3, 500):
                wanted = {} if scope is None else {"scope": scope}
                told[f"tombstones {limit}"] = self.asked("/v1/federation/tombstones", limit=limit)
                for page in range(60):
                    answer = self.asked("/v1/federation/facts", limit=limit, **wanted)
                    told[f"facts {scope} {limit} {page}"] = answer
                    cursor = msgspec.json.decode(answer[2]).get("cursor")
                    if not cursor or cursor == wanted.get("cursor"):
                        break
                    wanted["cursor"] = cursor
        return told


@contextmanager
def two_peered_lives(
    path: Path, history: list[Step], scopes: list[str] = GRANTED
) -> Generator[tuple[Peered, Peered]]:
    """The history, lived with its private steps and without them, before the eyes of a peer."""
    settings = {"federation_enabled": True, "federation_insecure": True}
    settings["federation_allow_team"] = "team" in scopes
    key = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
    lives: list[Peered] = []
    try:
        for name in ("told", "untold"):
            with mock.patch.object(Ed25519PrivateKey, "generate", return_value=key):
                life = Life(path / name, private=name == "told", **settings)
            chain = cast("Any", life.node.log).chain
            chain._entropy = lambda size, of=chain: of.position.to_bytes(size)
            lives.append(Peered(life, _peer(path / f"peer of {name}", life), scopes))
        told, untold = lives
        for step in history:
            assert untold.life.take(step, recorded := told.life.take(step, 0)) == recorded
        yield told, untold
    finally:
        for each in lives:
            each.life.close()


def _peer(folder: Path, life: Life) -> Forger:
    key = Ed25519PrivateKey.from_private_bytes(b"p" * 32)
    with mock.patch.object(Ed25519PrivateKey, "generate", return_value=key):
        return Forger(folder, life.clock)


def streams_of(peered: Peered) -> list[str]:
    """All streams of a node, and some that it does not have."""
    node = peered.life.node
    made = [stream_name(node.node_id, 1, scope_partition(scope)) for scope in ("team", "public")]
    return sorted({*node.log.stream_heads(), *made})


def different(told: Peered, untold: Peered) -> list[str]:
    """The requests that the peer gets different answers to."""
    streams = streams_of(told)
    ours, theirs = told.everything(streams), untold.everything(streams)
    return [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]


@given(histories())
@QUICK
def test_a_peer_gets_the_bytes_of_a_world_without_private_facts(history: list[Step]) -> None:
    with (
        tempfile.TemporaryDirectory() as path,
        two_peered_lives(Path(path), history) as (told, untold),
    ):
        assert different(told, untold) == []


def test_a_busy_garden_is_nothing_to_a_peer(tmp_path: Path) -> None:
    with two_peered_lives(tmp_path, BUSY) as (told, untold):
        assert len(private_texts(told.life)) >= 6
        assert different(told, untold) == []


def test_the_meaning_of_private_facts_is_nothing_to_a_peer(tmp_path: Path) -> None:
    with two_peered_lives(tmp_path, BUSY) as (told, untold):
        for each in (told, untold):
            assert embedded_to_the_end(each.life)
        assert different(told, untold) == []


def test_a_peer_with_the_grant_gets_more(tmp_path: Path) -> None:
    """The worlds differ where they should: otherwise the law above would be empty."""
    with two_peered_lives(tmp_path, BUSY, [*GRANTED, "team"]) as (told, untold):
        found = different(told, untold)
    assert {"streams", "digests"} <= set(found)
