"""Peer tokens (wire 3.2): JWTs signed with a node's federation key, one per request.

Times are in milliseconds, as in the protocol. A node that rotated its key adds the proof
(``rotations``), so that a peer accepts the new key although it never asked this node for its heads.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from engramlog.eventlog.identity import Identity, Rotation, current_key
from engramlog.projections.rights.capability_token import from_url_text, signs, to_url_text
from engramlog.projections.tables.peers.peers import PeerRow
from engramlog.replay.federation.declaration import wire_key

LIFETIME_MS = 60_000
LEEWAY_MS = 30_000
AGE_MS_MAX = 24 * 3_600_000
TOKEN_LENGTH_MAX = 4096
ROTATIONS_CARRIED = 8
"""The newest rotations in a token: more would not fit."""
NONCE_LENGTH_MAX = 200
NONCES_MAX = 50_000
"""The most nonces kept per peer; a peer that sends more locks out only itself."""
_HEADER = {"alg": "EdDSA", "typ": "JWT"}


_CLOCKS = "the clocks of both nodes differ by over 30 s: correct the wrong clock"
_REMEDIES = {
    "iat_in_future": _CLOCKS,
    "token_expired": _CLOCKS,
    "invalid_signature": f"if this node rotated its key over {ROTATIONS_CARRIED} times since the "
    "other knew it, revoke this node there, add and approve it again; its streams continue",
    "invalid_sub": "another node answers there: if it has taken the peer's place, add it as a peer "
    "of its own",
    "peer_not_approved": "it can go on once its operator approves this node",
}


class PeerTokenError(Exception):
    """The token is invalid; ``code`` is the protocol's word for the reason."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def explained(refusal: str) -> str:
    """A peer's refusal of a token, with what operators can do about it."""
    return next((f"{refusal} ({what})" for code, what in _REMEDIES.items() if code in refusal),
                refusal)  # fmt: skip


class PeerClaims(Struct, frozen=True):
    """The claims of a token."""

    iss: str
    sub: str
    iat: int
    exp: int
    nonce: str = ""
    scopes: list[str] = []
    rotations: list[Rotation] | UnsetType = UNSET


class Nonces:
    """Used nonces. One nonce is one request. A token signed before this memory began is refused,
    because it may have been used. Where the clock was set back, the memory began at that moment."""

    def __init__(self, began_ms: int) -> None:
        self._began_ms = began_ms
        self._seen: dict[str, dict[str, int]] = {}
        self._lock = threading.Lock()

    def use(self, claims: PeerClaims, now_ms: int) -> None:
        """Raises PeerTokenError if the nonce was used, or may have been."""
        self._began_ms = min(self._began_ms, now_ms)
        if claims.iat < self._began_ms - LEEWAY_MS:
            raise PeerTokenError("iat_too_old")
        with self._lock:
            seen = self._seen.setdefault(claims.iss, {})
            if len(seen) >= NONCES_MAX:
                seen = self._seen[claims.iss] = {n: at for n, at in seen.items() if at >= now_ms}
            if claims.nonce in seen or len(seen) >= NONCES_MAX:
                raise PeerTokenError("nonce_already_seen")
            seen[claims.nonce] = claims.exp + LEEWAY_MS


def sign_peer_token(
    identity: Identity, target: str, scopes: Sequence[str], now_ms: int, *, nonce: str = ""
) -> str:
    """A token for one request to the node ``target``."""
    rotations = [*identity.rotations[-ROTATIONS_CARRIED:]] or UNSET
    nonce = nonce or str(uuid4())
    until_ms = now_ms + LIFETIME_MS
    claims = PeerClaims(identity.node_id, target, now_ms, until_ms, nonce, [*scopes], rotations)
    parts = (msgspec.json.encode(_HEADER), msgspec.json.encode(claims))
    signed = ".".join(to_url_text(part) for part in parts)
    return f"{signed}.{to_url_text(identity.sign(signed.encode()))}"


def check_peer_token(
    text: str,
    own_id: str,
    now_ms: int,
    peers: Mapping[str, PeerRow],
    nonces: Nonces | None,
) -> tuple[PeerRow, PeerClaims]:
    """The peer that signed a token for this node, with its current key, and its claims. Without
    ``nonces``, for another look at a token in use. Raises PeerTokenError: in the protocol's
    words."""
    claims = _parse_token(text)
    peer = peers.get(claims.iss)
    if peer is None:
        raise PeerTokenError("peer not registered")
    if not peer.active:
        raise PeerTokenError("peer_not_approved")
    peer = replace(peer, public_key=_key_now(peer, claims))
    signed, _, signature = text.rpartition(".")
    if not signs(wire_key(peer.public_key), signature, signed.encode()):
        raise PeerTokenError("invalid_signature")
    if claims.sub != own_id:
        raise PeerTokenError("invalid_sub")
    if claims.exp + LEEWAY_MS <= now_ms:
        raise PeerTokenError("token_expired")
    if claims.iat > now_ms + LEEWAY_MS:
        raise PeerTokenError("iat_in_future")
    if claims.iat < now_ms - AGE_MS_MAX - LEEWAY_MS or claims.exp > claims.iat + AGE_MS_MAX:
        raise PeerTokenError("iat_too_old")
    if not 0 < len(claims.nonce) <= NONCE_LENGTH_MAX:
        raise PeerTokenError("missing_nonce")
    if nonces is not None:
        nonces.use(claims, now_ms)
    return peer, claims


def _key_now(peer: PeerRow, claims: PeerClaims) -> str:
    """The peer's key after the rotations in its token. Raises PeerTokenError."""
    if not claims.rotations:
        return peer.public_key
    try:
        return current_key(peer.node_id, peer.public_key, claims.rotations)
    except ValueError as fault:
        raise PeerTokenError("invalid_signature") from fault


def _parse_token(text: str) -> PeerClaims:
    parts = text.split(".")
    if len(text) > TOKEN_LENGTH_MAX or len(parts) != 3:
        raise PeerTokenError("malformed token")
    try:
        header: dict[str, Any] = msgspec.json.decode(from_url_text(parts[0]), type=dict[str, Any])
        claims = msgspec.json.decode(from_url_text(parts[1]), type=PeerClaims)
        from_url_text(parts[2])  # else the token is malformed, not just wrongly signed
    except (ValueError, msgspec.MsgspecError, RecursionError) as fault:
        raise PeerTokenError("malformed token") from fault
    if header.get("alg") != "EdDSA":
        raise PeerTokenError("malformed token")
    return claims
