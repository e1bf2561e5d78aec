"""Agents' public keys: each is revoked once."""

from engramlog.eventlog.kinds import AgentKeySet
from engramlog.projections.tables.database import query_one
from engramlog.projections.writing import commands as ask
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.context import Context, Decision

_KEY = "SELECT entity_uri, public_key, description, status FROM agent_keys WHERE key_id=?"


def revoke_agent_key(command: ask.RevokeAgentKey, context: Context) -> Decision | Refused:
    """Revoke a key: later signatures with it are not attestations."""
    row = query_one(context.db, _KEY, (command.key_id,))
    if row is None:
        return Refused("agent_key_not_found", "agent key not found", "key_id")
    entity_uri, public_key, description, status = row
    if status == "revoked":
        return Refused("agent_key_revoked", "key is already revoked", "key_id")
    payload = AgentKeySet(
        key_id=command.key_id,
        entity_uri=entity_uri,
        public_key=public_key,
        description=description,
        status="revoked",
    )
    return Decision([context.draft(payload)])
