"""Peer tokens: short-lived JWTs (EdDSA) that prove who asks, one request each (wire 3.2)."""

from __future__ import annotations

import base64
import json
import threading
from collections import OrderedDict
from typing import Any, cast
from uuid import uuid4

from eventlog.identity import Identity, signed_by
from projections.peers import PeerRow
from replay.federation.declaration import stored_key, unpadded

LEEWAY_MS = 30_000
AGE_MS_MAX = 24 * 3_600_000
LIFETIME_MS = 60_000
NONCES_MAX = 200_000
_HEADER = {"alg": "EdDSA", "typ": "JWT"}


class TokenRefused(Exception):
    """A peer token is not accepted; the text is the protocol's code."""


def issue_token(identity: Identity, audience: str, scopes: list[str], now_us: int) -> str:
    """A token with which this node asks ``audience`` once."""
    now_ms = now_us // 1000
    claims = {
        "iss": identity.node_id,
        "sub": audience,
        "iat": now_ms,
        "exp": now_ms + LIFETIME_MS,
        "nonce": str(uuid4()),
        "scopes": sorted(scopes),
    }
    signed = f"{_part(_HEADER)}.{_part(claims)}"
    signature = base64.urlsafe_b64encode(identity.sign(signed.encode())).rstrip(b"=").decode()
    return f"{signed}.{signature}"


class Nonces:
    """Nonces that were used, for as long as their tokens could be shown again."""

    def __init__(self) -> None:
        self._used: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, nonce: str, expires_ms: int, now_ms: int) -> bool:
        """Whether the nonce is new; it is used now."""
        with self._lock:
            while self._used and (
                next(iter(self._used.values())) < now_ms or len(self._used) >= NONCES_MAX
            ):
                self._used.popitem(last=False)
            if nonce in self._used:
                return False
            self._used[nonce] = expires_ms
            return True


def accept_token(
    text: str, node_id: str, peers: dict[str, PeerRow], nonces: Nonces, now_us: int
) -> tuple[PeerRow, frozenset[str]]:
    """The peer that shows a token, and the scopes it names.

    Args:
        node_id: this node, for which the token must be.
        peers: by node id.

    Raises:
        TokenRefused: with the protocol's code.
    """
    signed, signature, claims = _parsed(text)
    now_ms = now_us // 1000
    peer = peers.get(str(claims.get("iss")))
    if peer is None:
        raise TokenRefused("peer not registered")
    if not peer.active:
        raise TokenRefused("peer_not_approved")
    if not signed_by(stored_key(peer.public_key), signature, signed):
        raise TokenRefused("invalid_signature")
    if claims.get("sub") != node_id:
        raise TokenRefused("invalid_sub")
    issued, expires = claims.get("iat"), claims.get("exp")
    if not isinstance(issued, int) or not isinstance(expires, int) or isinstance(issued, bool):
        raise TokenRefused("malformed token")
    if expires + LEEWAY_MS < now_ms:
        raise TokenRefused("token_expired")
    if issued - LEEWAY_MS > now_ms:
        raise TokenRefused("iat_in_future")
    if now_ms - issued > AGE_MS_MAX or expires - issued > AGE_MS_MAX:
        raise TokenRefused("iat_too_old")
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not nonce:
        raise TokenRefused("missing_nonce")
    if not nonces.take(f"{peer.node_id} {nonce}", expires + LEEWAY_MS, now_ms):
        raise TokenRefused("nonce_already_seen")
    scopes = claims.get("scopes")
    named = cast("list[Any]", scopes) if isinstance(scopes, list) else []
    return peer, frozenset(str(scope) for scope in named)


def _part(value: dict[str, Any]) -> str:
    data = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _parsed(text: str) -> tuple[bytes, bytes, dict[str, Any]]:
    parts = text.split(".")
    if len(parts) != 3:
        raise TokenRefused("malformed token")
    try:
        header = json.loads(unpadded(parts[0]))
        claims = json.loads(unpadded(parts[1]))
        signature = unpadded(parts[2])
    except ValueError as fault:
        raise TokenRefused("malformed token") from fault
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise TokenRefused("malformed token")
    if cast("dict[str, Any]", header).get("alg") != "EdDSA":
        raise TokenRefused("malformed token")
    return f"{parts[0]}.{parts[1]}".encode(), signature, cast("dict[str, Any]", claims)
