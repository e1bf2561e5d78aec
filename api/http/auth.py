"""Authentication: the caller behind a bearer key or none, compiled once per request into an
Authorization.

The node looks keys up by SHA-256, so a request costs one lookup for any number of keys.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from functools import lru_cache

import msgspec
from aiohttp import web
from msgspec import Struct

from engramlog.api.http.errors import ApiError, coded
from engramlog.projections.authorization import PERMISSIONS, Authorization
from engramlog.projections.moment import LIVE
from engramlog.projections.normalization import SCOPES
from engramlog.projections.rights.capability_grant import VERBS, Grant
from engramlog.projections.rights.capability_token import (
    BEARER_LENGTH_MAX,
    BEARER_PREFIX,
    CapabilityInvalid,
)
from engramlog.projections.tables.declared.capability_ring import CapabilityRing, Issuer
from engramlog.projections.tables.declared.garden_directory import GardenDirectory
from engramlog.projections.tables.declared.keys import KeyRing, KeyRow
from engramlog.projections.writing.held_commands import scope_not_held

ANONYMOUS = Authorization(
    "anon:trusted", frozenset({"read", "write", "federate"}), frozenset(SCOPES)
)
"""The caller if authentication is off and the request has no valid key."""

PRINCIPAL = web.RequestKey("principal", str)
"""The caller, for the access log."""
CONTROL = Authorization(
    "system:control", frozenset(PERMISSIONS), frozenset(SCOPES), every_garden=True
)
"""The command line on the node's own machine, by the token in its data directory. It sees every
garden: a reader of the token can also read the log next to it."""

KEY_LENGTH_MAX = 512
CALLERS_KEPT = 256
"""Callers to remember with their compiled rights."""
CAPABILITY_PRINCIPAL = "capability:"
_CHALLENGE = {"WWW-Authenticate": "Bearer"}


class Caller(Struct, frozen=True):
    """A caller: its rights, and the key that proves them (None if anonymous)."""

    authorization: Authorization
    key_id: str | None = None
    capability: str | None = None
    """The id of the capability that proved the rights, if one did."""
    issuer: str | None = None
    """That capability's issuer: the node charges it for what the holders do."""

    @property
    def principal(self) -> str:
        return self.authorization.principal

    @property
    def charged(self) -> str | None:
        """The principal whose quota the request uses; None if it uses none."""
        return self.authorization.principal if self.key_id is not None else self.issuer


def identify(
    header: str | None,
    ring: KeyRing,
    gardens: GardenDirectory,
    now_us: int,
    *,
    required: bool,
    control_token: str | None = None,
    capabilities: CapabilityRing | None = None,
    issuers: Mapping[str, Issuer] | None = None,
    known: KnownCallers | None = None,
) -> Caller:
    """The caller behind an Authorization header. A request with a capability gets the capability's
    holder or a refusal, even if the node needs no keys. Raises ApiError 401 in the protocol's words
    if the node needs a key and this one is not valid."""
    digest = b""
    if known is not None and header:
        digest = hashlib.sha256(header.encode(errors="surrogateescape")).digest()
        caller = known.find(digest, ring, gardens, now_us)
        if caller is not None:
            return caller
    raw_key = _bearer(header)
    if raw_key is not None and raw_key.startswith(BEARER_PREFIX):
        return holder(raw_key, capabilities or CapabilityRing(), issuers or {}, now_us)
    if raw_key is not None:
        if control_token is not None and hmac.compare_digest(
            raw_key.encode(), control_token.encode()
        ):
            return Caller(CONTROL)
        row = ring.lookup(hashlib.sha256(raw_key.encode()).hexdigest(), now_us)
        if row is not None:
            caller = caller_of_key(row, gardens.of_member(row.entity_uri))
            if known is not None:
                known.keep(digest, caller, row.expires_at_us)
            return caller
    if not required:
        own = gardens.of_member(ANONYMOUS.principal)
        return Caller(msgspec.structs.replace(ANONYMOUS, gardens=own) if own else ANONYMOUS)
    if raw_key is None:
        raise ApiError(401, "Authorization header required", headers=_CHALLENGE)
    raise ApiError(401, "Invalid or expired API key", headers=_CHALLENGE)


@lru_cache(maxsize=CALLERS_KEPT)
def caller_of_key(row: KeyRow, gardens: frozenset[str]) -> Caller:
    """The caller of a key, as a member of these gardens."""
    rights = Authorization(
        row.entity_uri,
        frozenset(row.permissions),
        frozenset(row.scopes),
        gardens,
        sources=(row.entity_uri, *row.sources),
        ceiling=row.max_classification,
    )
    return Caller(rights, row.key_id)


class KnownCallers:
    """Callers by key, valid while keys and gardens are unchanged.

    Issuing or revoking a key replaces the whole key ring; callers of an earlier ring are dropped.
    Headers are kept only as digests. Used in one event loop.
    """

    def __init__(self) -> None:
        self._of: tuple[KeyRing | None, GardenDirectory | None] = (None, None)
        self._callers: dict[bytes, tuple[Caller, int]] = {}

    def find(
        self, digest: bytes, ring: KeyRing, gardens: GardenDirectory, now_us: int
    ) -> Caller | None:
        """The caller of a header with this digest, unless its key has expired."""
        if self._of[0] is not ring or self._of[1] is not gardens:
            self._of, self._callers = (ring, gardens), {}
            return None
        found = self._callers.get(digest)
        return found[0] if found is not None and now_us < found[1] else None

    def keep(self, digest: bytes, caller: Caller, expires_at_us: int | None) -> None:
        """Remember the caller of a valid key, just found in the current ring."""
        if len(self._callers) >= CALLERS_KEPT:
            self._callers.clear()
        self._callers[digest] = (caller, LIVE if expires_at_us is None else expires_at_us)


def holder(text: str, ring: CapabilityRing, issuers: Mapping[str, Issuer], now_us: int) -> Caller:
    """The caller of a capability: the token's rights and nothing else. Its principal is the token,
    not the subject: the holder has neither the subject's keys nor its gardens. It may write as the
    subject. Raises ApiError 401 with the reason."""
    try:
        verified, grant = ring.accept(text, issuers, now_us)
    except CapabilityInvalid as fault:
        code = str(fault.args[0])
        message = f"capability not accepted: {code.removeprefix('token_')}"
        raise ApiError(401, {"code": code, "message": message}, headers=_CHALLENGE) from fault
    rights = Authorization(
        f"{CAPABILITY_PRINCIPAL}{verified.token_id}",
        grant.verbs,
        grant.scopes,
        sources=(verified.subject,),
        entities=grant.entities,
    )
    own = ring.get(verified.token_id) is not None
    issuer = (
        verified.issuer if own else verified.node_id
    )  # names from other nodes mean nothing here
    return Caller(rights, capability=verified.token_id, issuer=issuer)


def own_issuer(node_id: str, public_key: str) -> dict[str, Issuer]:
    """The node believes all claims of its own tokens."""
    return {node_id: Issuer(public_key, Grant(frozenset(VERBS)))}


def of_held_scopes(caller: Caller, held: frozenset[str], permission: str) -> Caller:
    """The caller on a node that holds some scopes of its log: its rights are limited to these.
    Raises ApiError 421 for another node, which needs the whole log."""
    if permission in ("peer", "federate", "replicate"):
        raise coded("scope_not_held", scope_not_held(held, "other nodes"))
    rights = caller.authorization.narrowed(held)
    return msgspec.structs.replace(caller, authorization=rights)


def require(caller: Caller, permission: str) -> None:
    """Raises ApiError 403 unless the caller has the permission."""
    if not caller.authorization.may(permission):
        what = "capability" if "." in permission else "permission"
        raise ApiError(403, f"{permission} {what} required")


def _bearer(header: str | None) -> str | None:
    if not header:
        return None
    scheme, _, token = header.strip().partition(" ")
    token = token.strip()
    longest = BEARER_LENGTH_MAX if token.startswith(BEARER_PREFIX) else KEY_LENGTH_MAX
    if scheme.lower() != "bearer" or not 0 < len(token) <= longest:
        return None
    # Headers may carry any bytes; keys are ASCII, so other bytes are a wrong key.
    return token if token.isascii() else "?"
