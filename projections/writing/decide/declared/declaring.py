"""What operators declare: keys, policies, sweeps, set-valued relations, the embedding model."""

import msgspec

from engramlog.eventlog.kinds import (
    AgentKeySet,
    DecaySwept,
    EmbeddingModelPinned,
    KeyIssued,
    KeyRevoked,
    PolicySet,
    SetValuedDeclared,
    TrustPolicySet,
)
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import query
from engramlog.projections.tables.declared.policies import pinned_model, set_valued_relations
from engramlog.projections.tables.declared.trust import trust_policy
from engramlog.projections.tables.struct_rows import rows_as
from engramlog.projections.writing import commands as ask
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.decide.declared.capabilities import revocations_of_key


def sweep_decay(command: ask.SweepDecay, context: Context) -> Decision:
    """One event per scope, with the current policies."""
    gardens, policies = sorted(command.gardens), list(command.policies)
    sweeps = [
        DecaySwept(scope=scope, at_us=context.now_us, policies=policies, gardens=gardens)
        for scope in command.scopes
    ]
    return Decision([context.draft(sweep) for sweep in sweeps])


def issue_key(command: KeyIssued, context: Context) -> Decision | Refused:
    """A new API key; the same raw key twice is refused."""
    if query(context.db, "SELECT 1 FROM api_keys WHERE key_sha256=?", (command.key_sha256,)):
        return Refused("key_exists", "raw_key already exists; choose another", "raw_key")
    payload = msgspec.structs.replace(command, permissions=sorted(command.permissions))
    return Decision([context.draft(payload)], detail={"key_id": command.key_id})


def revoke_key(command: KeyRevoked, context: Context) -> Decision | Refused:
    """Revoke a key, and the capabilities that it requested."""
    live = "SELECT 1 FROM api_keys WHERE key_id=? AND to_position=?"
    if not query(context.db, live, (command.key_id, LIVE)):
        return Refused("key_not_found", "key not found", "key_id")
    revoked = context.draft(command)
    return Decision([revoked, *revocations_of_key(context, command.key_id)])


def revoke_agent_key(command: ask.RevokeAgentKey, context: Context) -> Decision | Refused:
    """Revoke a key once: later signatures with it are not attestations."""
    found = rows_as(AgentKeySet, context.db, "FROM agent_keys WHERE key_id=?", (command.key_id,))
    if not found:
        return Refused("agent_key_not_found", "agent key not found", "key_id")
    if found[0].status == "revoked":
        return Refused("agent_key_revoked", "key is already revoked", "key_id")
    return Decision([context.draft(msgspec.structs.replace(found[0], status="revoked"))])


def set_policy(command: PolicySet, context: Context) -> Decision | Refused:
    """Install or remove a decay policy."""
    live = "SELECT 1 FROM declarations WHERE sort='decay' AND name=? AND to_position=?"
    if command.policy is None and not query(context.db, live, (command.policy_id, LIVE)):
        return Refused("policy_not_found", "decay policy not found", "id")
    return Decision([context.draft(command)])


def declare_set_valued(command: SetValuedDeclared, context: Context) -> Decision:
    """Replace the list of set-valued relations; records nothing without a change."""
    wanted = sorted(set(command.relations))
    if wanted == sorted(set_valued_relations(context.db, LIVE - 1)):
        return Decision([], created=False)
    return Decision([context.draft(SetValuedDeclared(relations=wanted))])


def set_trust_policy(command: TrustPolicySet, context: Context) -> Decision:
    """Change how trust is computed; records nothing without a change."""
    if command.policy == trust_policy(context.db, LIVE - 1):
        return Decision([], created=False)
    return Decision([context.draft(command)])


def pin_embedding_model(command: EmbeddingModelPinned, context: Context) -> Decision:
    """Record the model that embeds facts; records nothing without a change."""
    if command == pinned_model(context.db, LIVE - 1):
        return Decision([], created=False)
    return Decision([context.draft(command)])
