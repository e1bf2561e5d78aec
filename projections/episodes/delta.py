"""Typed deltas: the only way from episodes to facts, checked at both ends.

The decoder finds schema faults (a missing or ill-typed field). ``check_delta`` finds invalid
content; it runs when a delta is emitted and again when it is applied.
"""

import math
from typing import Any, Literal, TypeAlias
from uuid import UUID, uuid5

import msgspec
from msgspec import Struct, field

from engramlog.eventlog.kinds import DeltaKind
from engramlog.projections.memories.place import MemoryPlace

SOURCES_MAX = 1_000
REPLACES_MAX = 1_000
_NAMESPACE = UUID("8f0c7a52-3f0e-5c0b-9d6a-5b1c9d0e7a11")

ConflictReason: TypeAlias = Literal[
    "missing",
    "already_retracted",
    "scope_mismatch",
    "duplicate_replaces",
    "self_replace",
    "batch_overlap",
    "stale_version",
    "contradiction",
]
"""Why ``replaces`` is ambiguous or invalid (``FactConflictError``)."""


class ConsolidationRuleError(ValueError):
    """A rule emitted a delta with invalid content."""

    def __init__(self, rule_id: str, delta_type: str, violation: str) -> None:
        super().__init__(violation)
        self.rule_id = rule_id
        self.delta_type = delta_type
        self.violation = violation


class FactConflictError(ValueError):
    """A delta cannot be applied to the current facts. ``reason`` is stable."""

    def __init__(self, reason: ConflictReason, message: str, delta_id: str = "") -> None:
        super().__init__(message)
        self.reason: ConflictReason = reason
        self.delta_id = delta_id


class _Delta(
    Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True, gc=False
):
    """The fields of every delta: its sources, when and by which rule it was promoted
    (``promotion_us``, microseconds UTC), and its confidence."""

    source_episode_ids: list[str]
    promotion_us: int
    rule_id: str
    confidence: float


class AddDelta(_Delta, frozen=True, tag="add", gc=False):
    """State a new fact."""

    fact_payload: dict[str, Any]


class UpdateDelta(_Delta, frozen=True, tag="update", gc=False):
    """Retract the replaced fact and state a new one."""

    replaces: list[str]
    fact_payload: dict[str, Any]
    expected_version: int | None = None


class DeleteDelta(_Delta, frozen=True, tag="delete", gc=False):
    """Retract the replaced fact."""

    replaces: list[str]
    expected_version: int | None = None


class NoopDelta(_Delta, frozen=True, tag="noop", gc=False):
    """Change nothing; the log records it."""


MemoryDelta: TypeAlias = AddDelta | UpdateDelta | DeleteDelta | NoopDelta


class Proposal(Struct, frozen=True, gc=False):
    """A delta for the writer. ``delta_id`` identifies repetitions. ``inherited``: the payload's
    content is that of its source episode and need not be stored twice. ``lineage``: for a delta
    without source episodes. ``episodes``: the hashes of its source episodes, if a rule
    made it of them: others may have their ids."""

    delta: MemoryDelta
    place: MemoryPlace
    delta_id: str
    source: str
    inherited: bool = False
    lineage: list[dict[str, Any]] = field(default_factory=list)
    episodes: list[str] | None = None


def kind_of_delta(delta: MemoryDelta) -> DeltaKind:
    """``add``, ``update``, ``delete`` or ``noop``."""
    return delta.__struct_config__.tag  # pyright: ignore[reportReturnType]


def replaced_by(delta: MemoryDelta) -> list[str]:
    """The ids that the delta replaces; empty if it cannot replace."""
    return delta.replaces if isinstance(delta, UpdateDelta | DeleteDelta) else []


def payload_of(delta: MemoryDelta) -> dict[str, Any] | None:
    """The fact that a delta states, if any."""
    return delta.fact_payload if isinstance(delta, AddDelta | UpdateDelta) else None


def check_delta(delta: MemoryDelta) -> None:
    """Raises ConsolidationRuleError for the first rule that the delta breaks."""
    violation = _violation(delta)
    if violation is not None:
        raise ConsolidationRuleError(delta.rule_id, kind_of_delta(delta), violation)


def _violation(delta: MemoryDelta) -> str | None:
    if not delta.rule_id:
        return "rule_id must be non-empty"
    if not delta.source_episode_ids:
        return "source_episode_ids must be non-empty"
    if len(delta.source_episode_ids) > SOURCES_MAX:
        return f"source_episode_ids must have at most {SOURCES_MAX} entries"
    if not math.isfinite(delta.confidence):
        return "confidence must be finite"
    if not 0.0 <= delta.confidence <= 1.0:
        return "confidence must be between 0 and 1"
    if isinstance(delta, UpdateDelta | DeleteDelta):
        if not delta.replaces:
            return "replaces must be non-empty for update/delete"
        if len(delta.replaces) > REPLACES_MAX:
            return f"replaces must have at most {REPLACES_MAX} entries"
    payload = payload_of(delta)
    if payload is not None and delta.confidence == 0.0:
        return "confidence must be above 0 where a fact is stated"
    return None


def promoted_id(rule_id: str, version: str, place: MemoryPlace, episodes: list[str]) -> str:
    """The id of what this version of a rule derives from these episodes: equal in every run."""
    parts = ["rule", rule_id, version, place.partition, place.user, place.agent, *sorted(episodes)]
    return str(uuid5(_NAMESPACE, "\n".join(parts)))


def stated_id(delta: MemoryDelta, place: MemoryPlace) -> str:
    """The id of a delta from a request: equal deltas have the same id."""
    body = msgspec.json.encode([place, delta], order="sorted")
    return str(uuid5(_NAMESPACE, body.decode()))
