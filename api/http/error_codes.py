"""The error codes with their statuses and meanings, and the protocol's sentences for some."""

from itertools import groupby
from typing import NamedTuple


class ErrorRow(NamedTuple):
    """Codes, separated by spaces, that share a status and a meaning."""

    status: int
    codes: str
    when: str


ERRORS = (
    ErrorRow(
        400,
        "malformed_body malformed_json invalid_entity_uri cid_malformed invalid_position "
        "invalid_idempotency_key invalid_session_id session_id_too_long invalid_capability",
        "the message says what is malformed",
    ),
    ErrorRow(400, "invalid_scope", "a recall names no scope"),
    ErrorRow(400, "invalid_cursor cursor_expired", "a cursor of another request, or too old"),
    ErrorRow(400, "as_of_invalid_timestamp as_of_future", "no moment, or in the future"),
    ErrorRow(400, "as_of_before_retention_floor", "older than `as_of_retention_days` allows"),
    ErrorRow(400, "moments_reversed", "`from` is after `to`"),
    ErrorRow(
        400,
        "graph_depth_exceeded invalid_graph_query invalid_relation_filter",
        "a question for neighbours",
    ),
    ErrorRow(
        400, "recall_depth_exceeded invalid_token_budget", "a recall's depth or budget; 422 on POST"
    ),
    ErrorRow(400, "invalid_weights unknown_profile", "a recall's weights or profile"),
    ErrorRow(400, "provenance_cycle_detected", "a fact would be derived from itself"),
    ErrorRow(
        400,
        "tombstone_invalid_scope tombstone_entity_uri_invalid tombstone_malformed "
        "tombstone_signature_invalid",
        "a field of a [tombstone](erasure.md#tombstones)",
    ),
    ErrorRow(400, "fork_too_large", "the moment is beyond `STIGMEM_FORK_EVENTS_MAX`"),
    ErrorRow(
        400,
        "sql_refused sql_invalid sql_timeout sql_too_large",
        "not one SELECT; wrong; too long; too much",
    ),
    ErrorRow(
        401,
        "token_invalid token_expired token_revoked token_issuer_unknown",
        "the [capability](capabilities.md) is refused",
    ),
    ErrorRow(
        403,
        "instruction_write_required",
        "an instruction, without that permission",
    ),
    ErrorRow(
        403,
        "feedback_loop_provenance_required",
        "see [sessions](between-agents.md#sessions)",
    ),
    ErrorRow(403, "scope_forbidden", "the key is limited to other scopes"),
    ErrorRow(
        403,
        "source_forbidden",
        "the key may not write as this source, or [end its "
        "facts](ending-facts.md#who-may-end-what)",
    ),
    ErrorRow(403, "entity_forbidden", "the capability does not cover the fact's entity"),
    ErrorRow(
        403,
        "capability_exceeds_rights",
        "more than the issuer may do",
    ),
    ErrorRow(403, "not_delegable", "the route needs a key, not a capability"),
    ErrorRow(403, "attribute_forbidden", "needs `admin`: trust above 1, a lower classification"),
    ErrorRow(
        403,
        "origin_forbidden host_forbidden",
        "see [browsers](operations.md#browsers)",
    ),
    ErrorRow(
        403,
        "not_a_member garden_write_forbidden garden_admin_required moderator_required "
        "last_garden_admin",
        "your role in the [garden](gardens.md)",
    ),
    ErrorRow(403, "alias_is_migration", "needs `admin`"),
    ErrorRow(403, "tombstone_not_granted", "the peer lacks the grant `erase_foreign`"),
    ErrorRow(403, "receipts_of_others", "listing them needs `audit.read` or `admin`"),
    ErrorRow(403, "time_travel_plugin_disabled", "turned off"),
    ErrorRow(
        404,
        "agent_key_not_found alias_not_found capability_not_found card_not_found "
        "conflict_not_found entity_not_found episode_not_found erasure_not_found "
        "event_not_found fact_not_found file_not_found garden_not_found intent_not_found "
        "job_not_found key_not_found manifest_not_found member_not_found peer_not_found "
        "policy_not_found profile_not_found quarantined_fact_not_found receipt_not_found "
        "rule_not_found snapshot_not_found stream_not_found subscription_not_found "
        "target_garden_not_found tombstone_not_found",
        "absent, not visible, or not yours",
    ),
    ErrorRow(
        409,
        "agent_key_revoked already_member capability_revoked conflict_already_resolved "
        "fact_already_retracted tombstone_already_revoked",
        "already done",
    ),
    ErrorRow(
        409,
        "intent_exists key_exists peer_exists slug_exists tombstone_already_exists",
        "the name is taken",
    ),
    ErrorRow(
        409,
        "fact_not_flagged fact_not_quarantine_pending",
        "the fact waits for no review",
    ),
    ErrorRow(409, "quarantine_has_pending_facts", "the quarantine is not empty"),
    ErrorRow(409, "ambiguous_match", "the content matches several facts"),
    ErrorRow(409, "cid_mismatch fact_chain_mismatch", "stored content does not match its hash"),
    ErrorRow(409, "idempotency_conflict", "the key was used for another request"),
    ErrorRow(
        409,
        "outcome_not_kept",
        "a retried batch of version 0.1",
    ),
    ErrorRow(409, "expectation_failed", "the condition of an append does not hold"),
    ErrorRow(409, "alias_cycle", "the alias would lead back to itself"),
    ErrorRow(409, "episode_conflict", "another episode has this id"),
    ErrorRow(
        409,
        "fact_conflict",
        "delta number `delta` conflicts; `reason`: `missing`, "
        "`already_retracted`, `scope_mismatch`, `duplicate_replaces`, `self_replace`, "
        "`batch_overlap`, `stale_version`, `contradiction`",
    ),
    ErrorRow(
        409,
        "consolidation_raced",
        "another run was faster; this one wrote nothing",
    ),
    ErrorRow(
        409,
        "manifest_outdated manifest_rotation",
        "see [manifests](federation-protocol.md#manifests)",
    ),
    ErrorRow(409, "too_many_subscriptions", "the caller has `STIGMEM_SUBSCRIPTIONS_MAX`"),
    ErrorRow(
        409,
        "peer_not_pending stream_not_held federation_disabled",
        "the peering is in another state",
    ),
    ErrorRow(
        409,
        "replica_read_only",
        "a [replica](replication.md); the message names its primary",
    ),
    ErrorRow(
        409,
        "replication_diverged not_a_replica",
        "see [replicas](replication.md)",
    ),
    ErrorRow(409, "rebuild_running reindex_running snapshot_running", "one at a time"),
    ErrorRow(409, "embeddings_off", "the node runs without embeddings"),
    ErrorRow(
        410,
        "fact_erased",
        "the fact was [erased](erasure.md); others than admins get `fact_not_found`",
    ),
    ErrorRow(411, "length_required", "a compressed body without `Content-Length`"),
    ErrorRow(
        413,
        "body_too_large value_too_large payload_too_large",
        "over the limit in the answer",
    ),
    ErrorRow(
        421,
        "scope_not_held",
        "ask a node that [holds](postgresql.md#a-node-with-some-scopes) this scope",
    ),
    ErrorRow(422, "derived_from_immutable", "facts never change"),
    ErrorRow(
        422,
        "content_refused",
        "breaks a [rule](../eventlog/FORMAT.md#content) of the log",
    ),
    ErrorRow(422, "garden_scope_mismatch", "the scope is not the garden's"),
    ErrorRow(
        422,
        "classification_misplaced",
        "classes 2 and 3 need a garden, or the scope `local` or `team`",
    ),
    ErrorRow(
        422,
        "memories_apart",
        "[memories](memories.md#merging) of two sources, scopes or gardens",
    ),
    ErrorRow(422, "alias_reserved", "`stigmem:` records have no other names"),
    ErrorRow(
        422,
        "not_a_quarantine target_is_quarantine",
        "the wrong kind of garden",
    ),
    ErrorRow(422, "erasure_beside_hold", "a tombstone cannot erase and hold at once"),
    ErrorRow(422, "erasure_of_one_scope", "a tombstone that erases has the scope `all`"),
    ErrorRow(422, "embed_dimensionality_mismatch", "the model has other dimensions"),
    ErrorRow(422, "delivery_address_refused", "webhooks go to public `https` addresses"),
    ErrorRow(422, "clock_skew", "a remote clock is too far off"),
    ErrorRow(422, "not_written", "another item of the atomic batch was refused"),
    ErrorRow(423, "legal_hold", "part of it is held; nothing was erased"),
    ErrorRow(429, "quota_exceeded", "over a [quota](operations.md#quotas); see `Retry-After`"),
    ErrorRow(
        429,
        "manifest_rate",
        "over ten [manifests](federation-protocol.md#manifests) of an entity an hour",
    ),
    ErrorRow(500, "internal_error", "a bug; the answer's id is in the node's log"),
    ErrorRow(501, "time_travel_plugin_not_loaded", "time travel is off"),
    ErrorRow(
        503,
        "degraded storage_failed shutting_down writer_busy long_work_busy too_many_connections "
        "card_refresh_timeout",
        "retry later",
    ),
    ErrorRow(
        503,
        "log_busy not_durable history_changed position_not_reached",
        "nothing was written; see [PostgreSQL](postgresql.md#what-a-client-sees)",
    ),
    ErrorRow(503, "outcome_unknown", "maybe written: retry with the same idempotency key"),
    ErrorRow(503, "peer_unreachable", "the peer did not answer"),
    ErrorRow(503, "too_many_jobs", "1,000 jobs wait or keep results"),
    ErrorRow(503, "oidc_not_enabled", "identity tokens are not supported"),
    ErrorRow(507, "storage_full", "no space"),
)
"""Every code with its status. A code of the writer without an entry answers 422."""

STATUS_BY_CODE: dict[str, int] = {code: row.status for row in ERRORS for code in row.codes.split()}


def errors_by_status() -> str:
    """Every code as Markdown lists; ``docs/errors.md`` contains exactly this."""
    parts: list[str] = []
    for status, rows in groupby(ERRORS, key=lambda row: row.status):
        parts.append(f"## {status}\n")
        for row in rows:
            codes = ", ".join(f"`{code}`" for code in row.codes.split())
            parts.append(f"- {codes}: {row.when}")
        parts.append("")
    return "\n".join(parts)


PLAIN_TEXT: dict[str, str] = {
    "fact_not_found": "fact not found",
    "file_not_found": "Not Found",
    "conflict_not_found": "conflict not found",
    "policy_not_found": "decay policy not found",
    "key_not_found": "API key not found",
    "card_not_found": "no facts found for entity",
    "conflict_already_resolved": "conflict already resolved",
    "key_exists": "raw_key already exists; choose another",
    "agent_key_not_found": "agent key not found",
    "manifest_not_found": "manifest not found or expired",
    "alias_not_found": "alias not found",
    "tombstone_invalid_scope": "tombstone_invalid_scope",
    "tombstone_entity_uri_invalid": "tombstone_entity_uri_invalid",
    "tombstone_not_found": "tombstone_not_found",
    "tombstone_already_exists": "tombstone_already_exists",
    "tombstone_already_revoked": "tombstone_already_revoked",
    "job_not_found": "job not found",
    "intent_not_found": "intent not found",
    "intent_exists": "intent already exists",
    "oidc_not_enabled": "OIDC is not enabled on this node",
    "agent_key_revoked": "key is already revoked",
    "garden_not_found": "garden not found",
    "target_garden_not_found": "target garden not found",
    "not_a_member": "not a member of this garden",
    "member_not_found": "member not found",
    "slug_exists": "slug already exists",
    "not_a_quarantine": "this endpoint is only valid for quarantine gardens",
}
"""Codes for which the protocol answers a bare sentence instead of an object."""

SENTENCES = frozenset(
    {
        "garden_write_forbidden",
        "garden_admin_required",
        "moderator_required",
        "last_garden_admin",
        "already_member",
        "garden_scope_mismatch",
        "quarantined_fact_not_found",
        "fact_not_quarantine_pending",
        "quarantine_has_pending_facts",
    }
)
"""Codes of refusals whose message is the protocol's bare sentence."""


SEED_SENTENCES = frozenset({"fact_not_found"})
"""Codes of the seed (§20.8) for which the protocol has a bare sentence."""

CODE_HEADER = "X-Error-Code"
"""Carries the code of every failure that has one."""
