"""Rebuilds a fact as a delta wrote it: its present content, and its sources."""

from collections.abc import Mapping
from typing import Any

import msgspec

from engramlog.projections.episodes.episode import FactPattern, MemoryFact
from engramlog.projections.episodes.stating import payload_of_fact
from engramlog.projections.moment import format_instant

_list = msgspec.json.Decoder(list[Any]).decode
_object = msgspec.json.Decoder(dict[str, Any]).decode
_texts = msgspec.json.Decoder(dict[str, str]).decode


def memory_fact(
    row: Mapping[str, Any], relation: str, value_type: str, value_v: str, confidence: float
) -> MemoryFact:
    """A fact from its row of ``reading.memory_facts_at`` and its value, canonical or sanitized."""
    said = {"relation": relation, "value_type": value_type, "value_v": value_v}
    given: list[dict[str, Any]] = _list(row["lineage"])
    pinned_at = format_instant(row["promotion_us"])
    own: dict[str, Any] = {
        "rule_id": row["rule_id"],
        "source_episode_ids": _list(row["sources"]),
        "promotion_ts": pinned_at,
        "run_id": row["run_id"],
    }
    return MemoryFact(
        id=row["name"],
        fact_id=row["fact_id"],
        user=row["user"],
        agent=row["agent"],
        scope=row["scope"],
        garden_id=row["garden_id"],
        payload=payload_of_fact(
            said, name=row["name"], subject=row["subject"], rest=_object(row["payload"])
        ),
        lineage=given or [own],
        confidence=confidence,
        version=row["version"],
        delta_id=row["delta_id"],
        provenance=_texts(row["provenance"]),
        pinned_at=pinned_at,
    )


def matches(pattern: FactPattern, payload: Mapping[str, Any]) -> bool:
    """Whether each given field is equal, as text."""
    wanted = (
        ("subject", pattern.subject),
        ("predicate", pattern.predicate),
        ("object", pattern.object),
    )
    return all(text is None or as_text(payload.get(name)) == text for name, text in wanted)


def as_text(value: Any) -> str | None:
    """A payload's value as in a query string."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
