"""Who is asking: a bearer key or nobody, compiled once a request into an Authorization.

Keys are found by their SHA-256, so one request costs one lookup however many keys exist.
"""

from __future__ import annotations

import hashlib
import hmac

import msgspec
from msgspec import Struct

from api.errors import ApiError
from projections.authorization import PERMISSIONS, Authorization
from projections.garden_directory import GardenDirectory
from projections.keys import KeyRing
from projections.normalization import SCOPES

ANONYMOUS = Authorization(
    "anon:trusted", frozenset({"read", "write", "federate"}), frozenset(SCOPES)
)
"""Who asks when authentication is off and no valid key came."""

CONTROL = Authorization(
    "system:control", frozenset(PERMISSIONS), frozenset(SCOPES), every_garden=True
)
"""The command line on the node's own machine, by the token in its data directory. It sees
every garden: whoever can read the token can read the log beside it."""

KEY_LENGTH_MAX = 512
_CHALLENGE = {"WWW-Authenticate": "Bearer"}


class Caller(Struct, frozen=True):
    """The one who asks: rights, and the key that proved them (None for anonymous)."""

    authorization: Authorization
    key_id: str | None = None
    tenant_id: str = "default"

    @property
    def principal(self) -> str:
        return self.authorization.principal


def identify(
    header: str | None,
    ring: KeyRing,
    gardens: GardenDirectory,
    now_us: int,
    *,
    required: bool,
    control_token: str | None = None,
) -> Caller:
    """The caller behind an Authorization header.

    Raises:
        ApiError: 401 in the protocol's words, where a key is required and none is good.
    """
    raw_key = _bearer(header)
    if raw_key is not None:
        if control_token is not None and hmac.compare_digest(
            raw_key.encode(), control_token.encode()
        ):
            return Caller(CONTROL)
        row = ring.lookup(hashlib.sha256(raw_key.encode()).hexdigest(), now_us)
        if row is not None:
            rights = Authorization(
                row.entity_uri,
                frozenset(row.permissions),
                frozenset(row.scopes),
                gardens.of_member(row.entity_uri),
                sources=(row.entity_uri, *row.sources),
            )
            return Caller(rights, row.key_id, row.tenant_id)
    if not required:
        own = gardens.of_member(ANONYMOUS.principal)
        return Caller(msgspec.structs.replace(ANONYMOUS, gardens=own) if own else ANONYMOUS)
    if raw_key is None:
        raise ApiError(401, "Authorization header required", headers=_CHALLENGE)
    raise ApiError(401, "Invalid or expired API key", headers=_CHALLENGE)


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
    if scheme.lower() != "bearer" or not 0 < len(token) <= KEY_LENGTH_MAX:
        return None
    # Headers may carry any bytes; keys are ASCII, so anything else is just a wrong key.
    return token if token.isascii() else "?"
