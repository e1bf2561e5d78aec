"""Episodes and deltas in the form of answers."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from engramlog.api.answers.same_fields import shaped
from engramlog.api.schemas.values import ScopeText
from engramlog.eventlog.kinds import DeltaKind
from engramlog.projections.episodes.delta import MemoryDelta
from engramlog.projections.episodes.episode import Episode
from engramlog.projections.memories.place import scope_key
from engramlog.projections.moment import format_instant


class EpisodeRecord(Struct):
    """An episode as of the requested moment."""

    id: str
    key: str
    user: str
    session: str
    agent: str
    scope_key: str
    content: str
    timestamp: str
    scope: ScopeText
    garden_id: str | None
    source_node: str
    metadata: dict[str, Any]
    run_id: str | None
    step: int | None
    recorded_by: str
    position: int
    hash: str
    access_count: int
    last_accessed_at: str | None


class DeltaOutcome(Struct):
    """``applied``, ``known`` (applied earlier) or ``rejected``."""

    delta_id: str
    kind: DeltaKind
    status: Literal["applied", "known", "rejected"]
    fact_id: str | None
    retracted: list[str]
    warnings: list[str]


class DeltaRecord(Struct):
    """An applied delta, or a rejected one with the reason."""

    delta_id: str
    kind: DeltaKind
    user: str
    agent: str
    scope: ScopeText
    garden_id: str | None
    rule_id: str
    run_id: str | None
    source_episode_ids: list[str]
    replaces: list[str]
    applied_by: str
    position: int
    status: Literal["applied", "rejected"]
    promotion_ts: str | UnsetType = UNSET
    confidence: float | UnsetType = UNSET
    name: str | UnsetType | None = UNSET
    fact_id: str | UnsetType | None = UNSET
    retracted: list[str] | UnsetType = UNSET
    provenance: dict[str, str] | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    message: str | UnsetType = UNSET


def episode_record(episode: Episode) -> EpisodeRecord:
    last = episode.last_access_us
    return shaped(
        episode,
        EpisodeRecord,
        scope_key=scope_key(episode.user, episode.session, episode.agent),
        timestamp=format_instant(episode.at_us),
        recorded_by=episode.actor,
        last_accessed_at=None if last is None else format_instant(last),
    )


def applied_record(row: dict[str, Any]) -> DeltaRecord:
    """A row of ``deltas`` in wire form."""
    record = _record(row, "applied")
    record.promotion_ts = format_instant(row["promotion_us"])
    record.confidence = row["confidence"]
    record.name = row["name"]
    record.fact_id = row["fact_id"]
    record.retracted = _list(row["retracted"])
    record.provenance = msgspec.json.decode(row["provenance"])
    return record


def rejected_record(row: dict[str, Any]) -> DeltaRecord:
    """A row of ``delta_rejections`` in wire form."""
    record = _record(row, "rejected")
    record.reason, record.message = row["reason"], row["message"]
    return record


def delta_document(delta: MemoryDelta) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(delta)
    made["promotion_ts"] = format_instant(made.pop("promotion_us"))
    if made.get("expected_version", 0) is None:
        del made["expected_version"]
    return made


def _record(row: dict[str, Any], status: Literal["applied", "rejected"]) -> DeltaRecord:
    same = ("delta_id", "kind", "user", "agent", "scope", "garden_id", "rule_id", "run_id")
    return DeltaRecord(
        **{name: row[name] for name in same},
        source_episode_ids=_list(row["sources"]),
        replaces=_list(row["replaces"]),
        applied_by=row["actor"],
        position=row["position"],
        status=status,
    )


def _list(text: str) -> list[Any]:
    return msgspec.json.decode(text, type=list[Any])
