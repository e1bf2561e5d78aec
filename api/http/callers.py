"""Authentication: the caller behind a bearer key, a capability or neither, by the keys, gardens and
capabilities of this moment.

The node looks keys up by SHA-256, so a request costs one lookup for any number of keys.
"""

from __future__ import annotations

import hashlib
import hmac

import msgspec

from engramlog.api.http.auth import ANONYMOUS, CALLERS_KEPT, CONTROL, Caller, caller_of_key
from engramlog.api.http.errors import ApiError, coded
from engramlog.api.node.issuers import issuers_of
from engramlog.api.node.node import Node
from engramlog.eventlog.held_scopes import EVERY_SCOPE
from engramlog.projections.authorization import Authorization
from engramlog.projections.moment import LIVE
from engramlog.projections.rights.capability_token import (
    BEARER_LENGTH_MAX,
    BEARER_PREFIX,
    CapabilityInvalid,
)
from engramlog.projections.tables.declared.garden_directory import GardenDirectory
from engramlog.projections.tables.declared.keys import KeyRing
from engramlog.projections.writing.held_commands import scope_not_held

KEY_LENGTH_MAX = 512
CAPABILITY_PRINCIPAL = "capability:"
_CHALLENGE = {"WWW-Authenticate": "Bearer"}


class RightsChanged(ApiError):
    """The caller has other rights than those with which the request began."""

    def __init__(self) -> None:
        message = "your rights changed while the request waited: repeat it"
        super().__init__(409, {"code": "rights_changed", "message": message})


class Callers:
    """The callers of a node's requests. ``control_token``: of the machine's own command line."""

    def __init__(self, node: Node, *, keys_required: bool, control_token: str | None) -> None:
        self.keys_required = keys_required
        self._node = node
        self._held = node.log.held
        self._control_token = control_token
        self._known = KnownCallers()

    def caller_of(self, header: str | None, permission: str) -> Caller:
        """The caller of a request with this Authorization header to a route with this permission.
        Used in the event loop alone. Raises ApiError 401 in the protocol's words if the route needs
        a key and this one is not valid; as ``_of_held_scopes``."""
        required = self.keys_required and permission not in ("none", "peer")
        caller = self._identified(header, required, self._known)
        if self._held != EVERY_SCOPE:
            caller = _of_held_scopes(caller, self._held, permission)
        return caller

    def check(self, caller: Caller, header: str | None) -> None:
        """Look again after a wait, in any thread. Raises ApiError 401 if the key is no longer
        valid, RightsChanged if its rights are no longer those of ``caller``."""
        proven = caller.key_id is not None or caller.capability is not None
        present = self._identified(header, self.keys_required and proven, None)
        if self._held != EVERY_SCOPE:
            present = _of_held_scopes(present, self._held, "read")
        if present != caller:
            raise RightsChanged

    def _identified(self, header: str | None, required: bool, known: KnownCallers | None) -> Caller:
        """The caller behind an Authorization header. A request with a capability gets the
        capability's holder or a refusal, even if the node needs no keys. Raises ApiError 401."""
        reader, now_us = self._node.reader, self._node.clock.now_us()
        keys, gardens, digest = reader.keys, reader.gardens, b""
        if known is not None and header:
            digest = hashlib.sha256(header.encode(errors="surrogateescape")).digest()
            caller = known.find(digest, keys, gardens, now_us)
            if caller is not None:
                return caller
        raw_key, token = _bearer(header), self._control_token
        if raw_key is not None and raw_key.startswith(BEARER_PREFIX):
            return self._holder(raw_key, now_us)
        if raw_key is not None:
            if token is not None and hmac.compare_digest(raw_key.encode(), token.encode()):
                return Caller(CONTROL)
            row = keys.lookup(hashlib.sha256(raw_key.encode()).hexdigest(), now_us)
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

    def _holder(self, text: str, now_us: int) -> Caller:
        """The caller of a capability: the token's rights and nothing else. Its principal is the
        token, not the subject: the holder has neither the subject's keys nor its gardens. It may
        write as the subject. Raises ApiError 401 with the reason."""
        ring = self._node.reader.capabilities
        try:
            verified, grant = ring.accept(text, issuers_of(self._node), now_us)
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
        # Names from other nodes mean nothing here.
        issuer = verified.issuer if own else verified.node_id
        return Caller(rights, capability=verified.token_id, issuer=issuer)


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


def _of_held_scopes(caller: Caller, held: frozenset[str], permission: str) -> Caller:
    """The caller on a node that holds some scopes of its log: its rights are limited to these.
    Raises ApiError 421 for another node, which needs the whole log."""
    if permission in ("peer", "federate", "replicate"):
        raise coded("scope_not_held", scope_not_held(held, "other nodes"))
    rights = caller.authorization.narrowed(held)
    return msgspec.structs.replace(caller, authorization=rights)


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
