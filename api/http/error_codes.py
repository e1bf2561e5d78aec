"""The error codes with their statuses and meanings, and the protocol's sentences for some."""

ERRORS: dict[int, dict[str, str]] = {
    400: {
        (
            "malformed_request malformed_body malformed_json invalid_entity_uri cid_malformed "
            "invalid_position invalid_idempotency_key invalid_session_id session_id_too_long "
            "invalid_capability"
        ): "the message says what is malformed",
        "invalid_scope": "a recall names no scope",
        "invalid_cursor cursor_expired": "a cursor of another request, or too old",
        "as_of_invalid_timestamp as_of_future": "no moment, or in the future",
        "as_of_before_retention_floor": "older than `as_of_retention_days` allows",
        "moments_reversed": "`from` is after `to`",
        "graph_depth_exceeded invalid_graph_query invalid_relation_filter": (
            "a question for neighbours"
        ),
        "recall_depth_exceeded invalid_token_budget invalid_weights": (
            "a recall's depth, budget or weights; 422 on POST"
        ),
        "unknown_profile": "a recall names no profile of this node",
        "provenance_cycle_detected": "a fact would be derived from itself",
        (
            "tombstone_invalid_scope tombstone_entity_uri_invalid tombstone_malformed "
            "tombstone_signature_invalid"
        ): "a field of a [tombstone](erasure.md#tombstones)",
        "fork_too_large": "the moment is beyond `STIGMEM_FORK_EVENTS_MAX`",
        "sql_refused sql_invalid sql_timeout sql_too_large": (
            "not one SELECT; wrong; too long; too much"
        ),
    },
    401: {
        "token_invalid token_expired token_revoked token_issuer_unknown": (
            "the [capability](capabilities.md) is refused"
        ),
    },
    403: {
        "instruction_write_required": "an instruction, without that permission",
        "feedback_loop_provenance_required": "see [sessions](between-agents.md#sessions)",
        "scope_forbidden": "the key is limited to other scopes",
        "source_forbidden": (
            "the key may not write as this source, or [end its "
            "facts](ending-facts.md#who-may-end-what)"
        ),
        "entity_forbidden": "the capability does not cover the fact's entity",
        "capability_exceeds_rights": "more than the issuer may do",
        "not_delegable": "the route needs a key, not a capability",
        "attribute_forbidden": "needs `admin`: trust above 1, a lower classification",
        "origin_forbidden host_forbidden": "see [browsers](operations.md#browsers)",
        (
            "not_a_member garden_write_forbidden garden_admin_required moderator_required "
            "last_garden_admin"
        ): "your role in the [garden](gardens.md)",
        "alias_is_migration": "needs `admin`",
        "tombstone_not_granted": "the peer lacks the grant `erase_foreign`",
        "receipts_of_others": "listing them needs `audit.read` or `admin`",
        "time_travel_plugin_disabled": "turned off",
    },
    404: {
        (
            "agent_key_not_found alias_not_found capability_not_found card_not_found "
            "conflict_not_found entity_not_found episode_not_found erasure_not_found "
            "event_not_found fact_not_found file_not_found garden_not_found intent_not_found "
            "job_not_found key_not_found manifest_not_found member_not_found peer_not_found "
            "policy_not_found profile_not_found quarantined_fact_not_found receipt_not_found "
            "rule_not_found snapshot_not_found stream_not_found subscription_not_found "
            "target_garden_not_found tombstone_not_found"
        ): "absent, not visible, or not yours",
    },
    409: {
        (
            "agent_key_revoked already_member capability_revoked conflict_already_resolved "
            "fact_already_retracted tombstone_already_revoked"
        ): "already done",
        "intent_exists key_exists peer_exists slug_exists tombstone_already_exists": (
            "the name is taken"
        ),
        "fact_not_flagged fact_not_quarantine_pending": "the fact waits for no review",
        "quarantine_has_pending_facts": "the quarantine is not empty",
        "ambiguous_match": "the content matches several facts",
        "cid_mismatch fact_chain_mismatch": "stored content does not match its hash",
        "idempotency_conflict": "the key was used for another request",
        "rights_changed": "the caller's rights changed while the request waited: repeat it",
        "outcome_not_kept": "a retried batch: the item was refused at first",
        "expectation_failed": "the condition of an append does not hold",
        "alias_cycle": "the alias would lead back to itself",
        "episode_conflict": "another episode has this id",
        "fact_conflict": (
            "delta number `delta` conflicts; `reason`: `missing`, `already_retracted`, "
            "`scope_mismatch`, `duplicate_replaces`, `self_replace`, `batch_overlap`, "
            "`stale_version`, `contradiction`"
        ),
        "consolidation_raced": "another run or an erasure was faster; this one wrote nothing",
        "manifest_outdated manifest_rotation": "see [manifests](federation-protocol.md#manifests)",
        "too_many_subscriptions": "the caller has `STIGMEM_SUBSCRIPTIONS_MAX`",
        "peer_not_pending stream_not_held federation_disabled": "the peering is in another state",
        "replica_read_only": "a [replica](replication.md); the message names its primary",
        "replication_diverged not_a_replica": "see [replicas](replication.md)",
        "rebuild_running reindex_running snapshot_running": "one at a time",
        "embeddings_off": "the node runs without embeddings",
    },
    410: {
        "fact_erased": "the fact was [erased](erasure.md); others than admins get `fact_not_found`",
    },
    413: {
        "body_too_large value_too_large payload_too_large": "over the limit in the answer",
    },
    415: {
        "unsupported_encoding": "send a body plain, or as gzip or deflate",
        "unsupported_media_type": "declare the body as JSON ([browsers](operations.md#browsers))",
    },
    421: {
        "scope_not_held": (
            "ask a node that [holds](postgresql.md#a-node-with-some-scopes) this scope"
        ),
    },
    422: {
        "derived_from_immutable": "facts never change",
        "content_refused": "breaks a [rule](../eventlog/FORMAT.md#content) of the log",
        "garden_scope_mismatch": "the scope is not the garden's",
        "classification_misplaced": "classes 2 and 3 need a garden, or the scope `local` or `team`",
        "memories_apart": "[memories](memories.md#merging) of two sources, scopes or gardens",
        "alias_reserved": "`stigmem:` records have no other names",
        "not_a_quarantine target_is_quarantine": "the wrong kind of garden",
        "erasure_beside_hold": "a tombstone cannot erase and hold at once",
        "erasure_of_one_scope": "a tombstone that erases has the scope `all`",
        "embed_dimensionality_mismatch": "the model has other dimensions",
        "delivery_address_refused": "webhooks go to public `https` addresses",
        "clock_skew": "a remote clock is too far off",
        "not_written": "another item of the atomic batch was refused",
    },
    423: {"legal_hold": "part of it is held; nothing was erased"},
    429: {
        "quota_exceeded": "over a [quota](operations.md#quotas); see `Retry-After`",
        "manifest_rate": (
            "over ten [manifests](federation-protocol.md#manifests) of an entity an hour"
        ),
    },
    431: {"header_too_large": "a request line or header over 8,190 bytes"},
    500: {"internal_error": "a bug; the answer's id is in the node's log"},
    501: {
        "time_travel_plugin_not_loaded": "time travel is off",
        "unknown_kind": "the log has events of a later release: upgrade the node",
    },
    503: {
        (
            "degraded storage_failed shutting_down writer_busy long_work_busy "
            "too_many_connections card_refresh_timeout"
        ): "retry later",
        "log_busy not_durable history_changed position_not_reached": (
            "nothing was written; see [PostgreSQL](postgresql.md#what-a-client-sees)"
        ),
        "outcome_unknown": "maybe written: retry with the same idempotency key",
        "peer_unreachable": "the peer did not answer",
        "too_many_jobs": "8 jobs of the caller wait, or 1,000 wait or keep results",
        "oidc_not_enabled": "identity tokens are not supported",
    },
    507: {
        "storage_full": "no space",
    },
}
"""Status → codes with one meaning, separated by spaces → the meaning. A code of the writer without
an entry answers 422."""

STATUS_BY_CODE: dict[str, int] = {
    code: status for status, rows in ERRORS.items() for codes in rows for code in codes.split()
}

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
