"""What operators and agents declare: keys, capabilities and manifests; policies, sweeps, set-valued
relations and the embedding model; aliases and subscriptions.

A revocation of a capability goes into every stream that the holders of the token read. Manifests
are limited in rate, never an older one, a new key only by rotation.
"""

import msgspec

from engramlog.eventlog.event import Draft, scope_partition
from engramlog.eventlog.kinds import (
    AgentKeySet,
    AliasSet,
    CapabilityRevoked,
    DecaySwept,
    EmbeddingModelPinned,
    KeyIssued,
    KeyRevoked,
    PolicySet,
    SetValuedDeclared,
    SubscriptionSet,
    TrustPolicySet,
)
from engramlog.projections.moment import HOUR_US, LIVE
from engramlog.projections.normalization import SCOPES, is_reserved
from engramlog.projections.rights.capability_grant import parse_grant
from engramlog.projections.rights.manifest_document import rotation_fault
from engramlog.projections.tables.database import query, query_one, query_value
from engramlog.projections.tables.declared.aliases import live_alias
from engramlog.projections.tables.declared.manifests import load_manifest, puts_since
from engramlog.projections.tables.declared.policies import pinned_model, set_valued_relations
from engramlog.projections.tables.declared.trust import trust_policy
from engramlog.projections.tables.struct_rows import rows_as
from engramlog.projections.writing import commands as ask
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.peer_commands import PutManifest


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


PUTS_AN_HOUR = 10


def put_manifest(command: PutManifest, context: Context) -> Decision | Refused:
    """Replace the entity's last manifest."""
    manifest = command.manifest
    if puts_since(context.db, manifest.entity_uri, context.now_us - HOUR_US) >= PUTS_AN_HOUR:
        return Refused("manifest_rate", f"at most {PUTS_AN_HOUR} manifests an hour and entity")
    last = load_manifest(context.db, manifest.entity_uri)
    if last is not None:
        if manifest.issued_at_us < last.issued_at_us:
            return Refused("manifest_outdated", "a newer manifest is here already", "issued_at")
        wanted = (manifest.key_id, manifest.public_key)
        if (last.key_id, last.public_key) != wanted:
            fault = rotation_fault(last.key_id, last.public_key, wanted, command.rotations)
            if fault is not None:
                return Refused("manifest_rotation", fault, "rotation_events")
    return Decision([context.draft(manifest)])


def set_alias(command: AliasSet, context: Context) -> Decision | Refused:
    """Set an alias, or remove it (null). Only ``alias_kind`` migration changes or removes an alias
    of that kind."""
    raw, canonical = command.raw_uri, command.canonical_uri
    if canonical is None:
        return _remove_alias(command, context)
    if is_reserved(raw) or is_reserved(canonical):
        message = "the protocol's own records have no other names"
        return Refused("alias_reserved", message, "raw_uri")
    standing = live_alias(context.db, raw)
    if standing == (canonical, command.alias_kind):
        return Decision([], created=False)
    if standing is not None and standing[1] == "migration" and command.alias_kind != "migration":
        return Refused("alias_is_migration", f"{raw} is an alias of a migration")
    if canonical == raw:
        return Refused("alias_cycle", f"{raw} is no other name of itself", "canonical_uri")
    end: str = canonical
    while end != raw:
        further = live_alias(context.db, end)
        if further is None:
            return Decision([context.draft(command)])
        end = further[0]
    return Refused("alias_cycle", f"{canonical} is {raw} under another name", "canonical_uri")


def _remove_alias(command: AliasSet, context: Context) -> Decision | Refused:
    standing = live_alias(context.db, command.raw_uri)
    if standing is None:
        return Refused("alias_not_found", "alias not found", "raw_uri")
    if standing[1] == "migration" and command.alias_kind != "migration":
        return Refused("alias_is_migration", f"{command.raw_uri} is an alias of a migration")
    return Decision([context.draft(AliasSet(raw_uri=command.raw_uri))])


_KNOWN_SUBSCRIPTION = """
SELECT subscription_id, equal FROM (
  SELECT *, (target, on_change, delivery_address, event_types)=(?, ?, ?, ?) AS equal
  FROM subscriptions WHERE subscriber=? AND key_id IS ?)
WHERE equal OR idempotency_key=? ORDER BY idempotency_key IS ? DESC LIMIT 1
"""
_SUBSCRIPTIONS = "SELECT count(*) FROM subscriptions WHERE subscriber=?"
_ENDED_SUBSCRIPTION = (
    "FROM (SELECT *, 1 AS ended, ? AS reason FROM subscriptions) WHERE subscription_id=?"
)


def subscribe(command: ask.Subscribe, context: Context) -> Decision | Refused:
    """A new subscription, or the existing one of the same API key with the same idempotency
    key or content: a new API key does not inherit the rights of an old one. Refuses an idempotency
    key of other content."""
    made = command.subscription
    types = msgspec.json.encode(made.event_types).decode()
    content = (made.target, made.on_change, made.delivery_address, types)
    caller = (made.subscriber, made.key_id)
    key = made.idempotency_key
    known = query_one(context.db, _KNOWN_SUBSCRIPTION, (*content, *caller, key, key))
    if known is not None:
        name, equal = known
        if not equal:
            message = f"the key was used for another subscription, {name}"
            return Refused("idempotency_conflict", message, "idempotency_key")
        return Decision([], created=False, detail={"id": name})
    count = query_value(context.db, _SUBSCRIPTIONS, (made.subscriber,))
    if count >= command.most:
        return Refused("too_many_subscriptions", f"there are {count} already; end one first")
    return Decision([context.draft(made)], detail={"id": made.subscription_id})


def unsubscribe(command: ask.Unsubscribe, context: Context) -> Decision | Refused:
    """End a subscription; another subscriber's looks absent."""
    asked = (command.reason, command.subscription_id)
    for ended in rows_as(SubscriptionSet, context.db, _ENDED_SUBSCRIPTION, asked):
        if command.subscriber in (None, ended.subscriber):
            types = sorted(set(ended.event_types))
            return Decision([context.draft(msgspec.structs.replace(ended, event_types=types))])
    return Refused("subscription_not_found", "no such subscription")
