"""Agents' public keys: registered once, revoked once."""

from __future__ import annotations

from uuid import uuid4

from eventlog.kinds import AgentKeySet
from projections import intents as ask
from projections.database import query_one
from projections.deciding.context import Context, Decision
from projections.intents import Refused

_KEY = "SELECT entity_uri, public_key, description, status FROM agent_keys WHERE key_id=?"


def register_agent_key(intent: ask.RegisterAgentKey, context: Context) -> Decision:
    """A new key of an entity."""
    key_id = str(uuid4())
    payload = AgentKeySet(
        key_id=key_id,
        entity_uri=intent.entity_uri,
        public_key=intent.public_key,
        description=intent.description,
    )
    return Decision([context.draft(payload)], detail={"key_id": key_id})


def revoke_agent_key(intent: ask.RevokeAgentKey, context: Context) -> Decision | Refused:
    """What the key signs from here on is no attestation."""
    context.flush()
    row = query_one(context.db, _KEY, (intent.key_id,))
    if row is None:
        return Refused("agent_key_not_found", "agent key not found", "key_id")
    entity_uri, public_key, description, status = row
    if status == "revoked":
        return Refused("agent_key_revoked", "key is already revoked", "key_id")
    payload = AgentKeySet(
        key_id=intent.key_id,
        entity_uri=entity_uri,
        public_key=public_key,
        description=description,
        status="revoked",
    )
    return Decision([context.draft(payload)])
