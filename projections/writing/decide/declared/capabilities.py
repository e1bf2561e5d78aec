"""Capability tokens: a revocation goes into every stream that their holders read."""

from engramlog.eventlog.event import Draft, scope_partition
from engramlog.eventlog.kinds import CapabilityRevoked
from engramlog.projections.normalization import SCOPES
from engramlog.projections.rights.capability_grant import parse_grant
from engramlog.projections.tables.database import query, query_one
from engramlog.projections.writing import commands as ask
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.context import Context, Decision


def revoke_capability(command: ask.RevokeCapability, context: Context) -> Decision | Refused:
    """Revoke a token and every token derived from it."""
    row = query_one(
        context.db, "SELECT object FROM capabilities WHERE token_id=?", (command.token_id,)
    )
    if row is None:
        return Refused("capability_not_found", "capability not found", "token_id")
    revocation_id = command.revocation_id or command.token_id
    already = query_one(
        context.db,
        "SELECT 1 FROM capability_revocations WHERE node_id=? AND revocation_id=?",
        (command.node_id, revocation_id),
    )
    if already is not None:
        return Refused("capability_revoked", "the capability is revoked already", "token_id")
    return Decision(_revocations(context, revocation_id, str(row[0]), command.reason))


def revocations_of_key(context: Context, key_id: str) -> list[Draft]:
    """Revocations that follow an API key's: every capability that it requested."""
    rows = query(
        context.db,
        "SELECT token_id, object FROM capabilities WHERE key_id=? AND expires_at_us>?"
        " AND token_id NOT IN (SELECT revocation_id FROM capability_revocations)"
        " ORDER BY from_position",
        (key_id, context.now_us),
    )
    return [
        draft
        for token_id, words in rows
        for draft in _revocations(context, str(token_id), str(words), "its key was revoked")
    ]


def _revocations(context: Context, revocation_id: str, words: str, reason: str) -> list[Draft]:
    scopes = parse_grant("read", words).scopes
    return [
        context.draft(
            CapabilityRevoked(
                revocation_id=revocation_id,
                scope=scope,  # pyright: ignore[reportArgumentType]
                reason=reason,
            ),
            scope_partition(scope),
        )
        for scope in SCOPES
        if scope in scopes
    ]
