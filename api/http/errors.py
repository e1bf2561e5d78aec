"""Every way a request can fail, and the bytes a caller sees for it.

One table maps stable codes to statuses, one maps typed errors to codes. A handler raises
``ApiError`` (or lets a typed error pass); nothing else turns a failure into an answer.
Bodies follow the protocol: ``{"detail": text}``, ``{"detail": {"code", "message", …}}`` or
the list of ``{"type", "loc", "msg", "input"}`` of a 422. Never a stack trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, cast

from pydantic import ValidationError

from engramlog.api.node.long_work import LongWorkBusy
from engramlog.eventlog.errors import (
    ClockSkew,
    CorruptLog,
    ExpectationFailed,
    HistoryChanged,
    IdempotencyConflict,
    LogBusy,
    LogClosed,
    NotDurable,
    OutcomeUnknown,
    PayloadTooLarge,
    StorageFailed,
    StorageFull,
)
from engramlog.projections.embedding.errors import DimensionMismatch, WrongDimensions
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.writer import (
    ReplicaReadOnly,
    WriterBusy,
    WriterClosed,
    WriterDegraded,
)

STATUS_BY_CODE: dict[str, int] = {
    # the request itself
    "malformed_body": 400,
    "malformed_json": 400,
    "invalid_entity_uri": 400,
    "invalid_scope": 400,
    "invalid_cursor": 400,
    "invalid_position": 400,
    "cursor_expired": 400,
    "cid_malformed": 400,
    "session_id_too_long": 400,
    "invalid_session_id": 400,
    "invalid_idempotency_key": 400,
    "as_of_invalid_timestamp": 400,
    "as_of_future": 400,
    "as_of_before_retention_floor": 400,
    "graph_depth_exceeded": 400,
    "invalid_graph_query": 400,
    "invalid_relation_filter": 400,
    "recall_depth_exceeded": 400,
    "invalid_token_budget": 400,
    "invalid_weights": 400,
    "unknown_profile": 400,
    "provenance_cycle_detected": 400,
    "moments_reversed": 400,
    "tombstone_invalid_scope": 400,
    "tombstone_malformed": 400,
    "tombstone_signature_invalid": 400,
    "tombstone_entity_uri_invalid": 400,
    "fork_too_large": 400,
    "sql_refused": 400,
    "sql_invalid": 400,
    "sql_timeout": 400,
    "sql_too_large": 400,
    "unknown_permissions": 400,
    "invalid_capability": 400,
    # rights
    "token_invalid": 401,
    "token_expired": 401,
    "token_revoked": 401,
    "token_issuer_unknown": 401,
    "instruction_write_required": 403,
    "feedback_loop_provenance_required": 403,
    "scope_forbidden": 403,
    "host_forbidden": 403,
    "origin_forbidden": 403,
    "source_forbidden": 403,
    "not_a_member": 403,
    "garden_write_forbidden": 403,
    "garden_admin_required": 403,
    "moderator_required": 403,
    "last_garden_admin": 403,
    "alias_is_migration": 403,
    "time_travel_plugin_disabled": 403,
    "not_delegable": 403,
    "entity_forbidden": 403,
    "tombstone_not_granted": 403,
    "capability_exceeds_rights": 403,
    "attribute_forbidden": 403,
    # state
    "fact_not_found": 404,
    "conflict_not_found": 404,
    "profile_not_found": 404,
    "entity_not_found": 404,
    "policy_not_found": 404,
    "key_not_found": 404,
    "erasure_not_found": 404,
    "card_not_found": 404,
    "agent_key_not_found": 404,
    "manifest_not_found": 404,
    "alias_not_found": 404,
    "tombstone_not_found": 404,
    "job_not_found": 404,
    "intent_not_found": 404,
    "garden_not_found": 404,
    "capability_not_found": 404,
    "target_garden_not_found": 404,
    "member_not_found": 404,
    "quarantined_fact_not_found": 404,
    "episode_not_found": 404,
    "rule_not_found": 404,
    "fact_already_retracted": 409,
    "fact_not_flagged": 409,
    "ambiguous_match": 409,
    "cid_mismatch": 409,
    "fact_chain_mismatch": 409,
    "conflict_already_resolved": 409,
    "key_exists": 409,
    "agent_key_revoked": 409,
    "manifest_outdated": 409,
    "manifest_rotation": 409,
    "replica_read_only": 409,
    "replication_diverged": 409,
    "not_a_replica": 409,
    "slug_exists": 409,
    "capability_revoked": 409,
    "alias_cycle": 409,
    "tombstone_already_exists": 409,
    "tombstone_already_revoked": 409,
    "intent_exists": 409,
    "already_member": 409,
    "peer_not_found": 404,
    "stream_not_found": 404,
    "peer_exists": 409,
    "peer_not_pending": 409,
    "stream_not_held": 409,
    "federation_disabled": 409,
    "peer_unreachable": 503,
    "fact_erased": 410,
    "legal_hold": 423,
    "subscription_not_found": 404,
    "too_many_subscriptions": 409,
    "delivery_address_refused": 422,
    "receipt_not_found": 404,
    "receipts_of_others": 403,
    "fact_not_quarantine_pending": 409,
    "quarantine_has_pending_facts": 409,
    "episode_conflict": 409,
    "fact_conflict": 409,
    "consolidation_raced": 409,
    "idempotency_conflict": 409,
    "outcome_not_kept": 409,
    "expectation_failed": 409,
    "rebuild_running": 409,
    "reindex_running": 409,
    "snapshot_running": 409,
    "snapshot_not_found": 404,
    "event_not_found": 404,
    "file_not_found": 404,
    "embeddings_off": 409,
    # size and form
    "length_required": 411,
    "body_too_large": 413,
    "value_too_large": 413,
    "payload_too_large": 413,
    "derived_from_immutable": 422,
    "embed_dimensionality_mismatch": 422,
    "clock_skew": 422,
    "not_written": 422,
    "garden_scope_mismatch": 422,
    "classification_misplaced": 422,
    "content_refused": 422,
    "memories_apart": 422,
    "alias_reserved": 422,
    "erasure_beside_hold": 422,
    "erasure_of_one_scope": 422,
    "not_a_quarantine": 422,
    "target_is_quarantine": 422,
    "quota_exceeded": 429,
    "manifest_rate": 429,
    # the node
    "internal_error": 500,
    "time_travel_plugin_not_loaded": 501,
    "degraded": 503,
    "storage_failed": 503,
    "log_busy": 503,
    "not_durable": 503,
    "outcome_unknown": 503,
    "history_changed": 503,
    "position_not_reached": 503,
    "shutting_down": 503,
    "writer_busy": 503,
    "too_many_connections": 503,
    "long_work_busy": 503,
    "too_many_jobs": 503,
    "oidc_not_enabled": 503,
    "card_refresh_timeout": 503,
    "storage_full": 507,
}
"""Stable code → HTTP status. A code of the writer that is missing here answers 422."""

CODE_BY_ERROR: tuple[tuple[type[Exception], str], ...] = (
    (IdempotencyConflict, "idempotency_conflict"),
    (ExpectationFailed, "expectation_failed"),
    (PayloadTooLarge, "payload_too_large"),
    (ClockSkew, "clock_skew"),
    (StorageFull, "storage_full"),
    (StorageFailed, "storage_failed"),
    (LogBusy, "log_busy"),
    (NotDurable, "not_durable"),
    (OutcomeUnknown, "outcome_unknown"),
    (HistoryChanged, "history_changed"),
    (CorruptLog, "degraded"),
    (LogClosed, "shutting_down"),
    (WriterClosed, "shutting_down"),
    (ReplicaReadOnly, "replica_read_only"),
    (WriterBusy, "writer_busy"),
    (LongWorkBusy, "long_work_busy"),
    (WriterDegraded, "degraded"),
    (DimensionMismatch, "embed_dimensionality_mismatch"),
    (WrongDimensions, "embed_dimensionality_mismatch"),
)
"""Typed errors of the rooms below → code; the first match counts."""

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
"""Codes that the protocol answers with a bare sentence instead of an object."""

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
"""Codes of refusals whose message is itself the protocol's bare sentence."""


SEED_SENTENCES = frozenset({"fact_not_found"})
"""Codes of the seed (§20.8) where the protocol has a bare sentence."""

CODE_HEADER = "X-Error-Code"
"""Carries the code of every failure that has one."""


class ApiError(Exception):
    """A failure with its status, the protocol's ``detail`` and further top-level keys."""

    def __init__(
        self,
        status: int,
        detail: object,
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The entries of a 422 list; none of other failures."""
        if not isinstance(self.detail, list):
            return []
        return cast("list[dict[str, Any]]", self.detail)

    def body(self) -> dict[str, object]:
        return {"detail": self.detail, **self.extra}


def coded(code: str, message: str, /, **fields: object) -> ApiError:
    """The error of ``code``, with its status from the table."""
    return ApiError(
        STATUS_BY_CODE.get(code, 422),
        {"code": code, "message": message, **fields},
        headers={CODE_HEADER: code},
    )


def plain(code: str) -> ApiError:
    """The error of a code that the protocol writes as a bare sentence."""
    return _sentence(code, PLAIN_TEXT[code])


def _sentence(code: str, message: str) -> ApiError:
    """A bare sentence with its code beside it: in a header, and under ``errors`` if the seed has
    the code."""
    told = {"errors": [{"code": code, "message": message}]} if code in SEED_SENTENCES else {}
    return ApiError(STATUS_BY_CODE[code], message, headers={CODE_HEADER: code}, extra=told)


def refused(refusal: Refused) -> ApiError:
    """What the writer refused, as the caller sees it."""
    if refusal.code in PLAIN_TEXT:
        return plain(refusal.code)
    status = STATUS_BY_CODE.get(refusal.code)
    if status is not None and refusal.code in SENTENCES:
        return _sentence(refusal.code, refusal.message)
    if status is None:
        loc = ("body", refusal.field) if refusal.field else ("body",)
        return unprocessable([entry(refusal.code, loc, refusal.message)])
    return coded(refusal.code, refusal.message)


def from_typed(fault: Exception) -> ApiError | None:
    """The answer for a typed error of the rooms below; None where there is none."""
    for kind, code in CODE_BY_ERROR:
        if isinstance(fault, kind):
            return coded(code, str(fault))
    return None


def entry(
    kind: str,
    loc: Iterable[str | int],
    message: str,
    given: object = None,
    *,
    code: str | None = None,
) -> dict[str, Any]:
    """One entry of a 422 list; ``code`` adds the seed's code as ``ctx.code``."""
    item: dict[str, Any] = {"type": kind, "loc": list(loc), "msg": message, "input": given}
    if code is not None:
        item["ctx"] = {"code": code}
    return item


def unprocessable(entries: list[dict[str, Any]]) -> ApiError:
    """422 in the protocol's list shape."""
    return ApiError(422, entries)


def entries_of(fault: ValidationError, *where: str | int) -> list[dict[str, Any]]:
    """A pydantic failure as 422 entries whose ``loc`` starts at ``where``."""
    entries: list[dict[str, Any]] = []
    for item in fault.errors(include_url=False):
        secret = item["loc"] and item["loc"][-1] in _SECRET_FIELDS
        given = "…" if secret else _echo(item["input"])
        made = entry(item["type"], (*where, *item["loc"]), item["msg"], given)
        context = item.get("ctx")
        if context:
            made["ctx"] = _echo(context)
        entries.append(made)
    return entries


_SECRET_FIELDS = frozenset({"raw_key"})
_ECHO_LENGTH_MAX = 1000
_ECHO_ITEMS_MAX = 50


def _echo(given: Any) -> object:
    """The caller's input as it may be echoed: no secrets, nothing long."""
    if isinstance(given, dict):
        fields = cast("dict[Any, Any]", given)
        return {
            str(name): "…" if name in _SECRET_FIELDS else _echo(value)
            for name, value in islice(fields.items(), _ECHO_ITEMS_MAX)
        }
    if isinstance(given, list):
        items = cast("list[Any]", given)
        return [_echo(item) for item in items[:_ECHO_ITEMS_MAX]]
    if isinstance(given, str):
        return given if len(given) <= _ECHO_LENGTH_MAX else given[:_ECHO_LENGTH_MAX] + "…"
    if given is None or isinstance(given, bool | int | float):
        return given
    return str(given)[:_ECHO_LENGTH_MAX]
