"""Callers with their rights: of a key, of the machine's own command line, without either."""

from functools import lru_cache

from aiohttp import web
from msgspec import Struct

from engramlog.api.http.errors import ApiError
from engramlog.projections.authorization import PERMISSIONS, Authorization
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.declared.keys import KeyRow

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

CALLERS_KEPT = 256
"""Callers to remember with their compiled rights."""


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

    @property
    def queued_as(self) -> str:
        """In whose turn it gets a thread, a job or the writer: tokens share their issuer's."""
        return self.issuer or self.authorization.principal


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


def require(caller: Caller, permission: str) -> None:
    """Raises ApiError 403 unless the caller has the permission."""
    if not caller.authorization.may(permission):
        what = "capability" if "." in permission else "permission"
        raise ApiError(403, f"{permission} {what} required")
