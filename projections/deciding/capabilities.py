"""Capability tokens: noted when signed, revoked in every stream that their holders read."""

from __future__ import annotations

from eventlog.event import Draft, scope_partition
from eventlog.kinds import CapabilityIssued, CapabilityRevoked
from projections import intents as ask
from projections.capabilities.grant import parse_grant
from projections.database import query, query_one
from projections.deciding.context import Context, Decision
from projections.intents import Refused
from projections.normalization import SCOPES


def issue_capability(intent: ask.IssueCapability, context: Context) -> Decision:
    """Note a token that was signed."""
    payload = CapabilityIssued(
        token_id=intent.token_id,
        issuer=intent.issuer,
        subject=intent.subject,
        verb=intent.verb,
        object=intent.object,
        expires_at_us=intent.expires_at_us,
        token_sha256=intent.token_sha256,
        key_id=intent.key_id,
        description=intent.description,
    )
    return Decision([context.draft(payload)], detail={"token_id": intent.token_id})


def revoke_capability(intent: ask.RevokeCapability, context: Context) -> Decision | Refused:
    """The token, and whatever was derived from it, allows nothing from here on."""
    context.flush()
    row = query_one(
        context.db, "SELECT object FROM capabilities WHERE token_id=?", (intent.token_id,)
    )
    if row is None:
        return Refused("capability_not_found", "capability not found", "token_id")
    revocation_id = intent.revocation_id or intent.token_id
    already = query_one(
        context.db,
        "SELECT 1 FROM capability_revocations WHERE node_id=? AND revocation_id=?",
        (intent.node_id, revocation_id),
    )
    if already is not None:
        return Refused("capability_revoked", "the capability is revoked already", "token_id")
    return Decision(_revocations(context, revocation_id, str(row[0]), intent.reason))


def revocations_of_key(context: Context, key_id: str) -> list[Draft]:
    """What ends with an API key: every capability that was asked for with it."""
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
