"""A delta's payload as a fact of the node, and back.

``subject`` becomes the entity, ``predicate`` the relation, ``object`` the value; without an object
the ``content`` is the value, as text. A subject that is not a URI belongs to its user: ``self`` of
Alice and ``self`` of Bob are two entities.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct, field

from engramlog.eventlog.kinds import Value
from engramlog.projections.episodes.episode import FactPattern, MemoryFact
from engramlog.projections.episodes.provenance_bundle import check_slots
from engramlog.projections.memories.place import MemoryPlace
from engramlog.projections.moment import format_instant
from engramlog.projections.normalization import normalize_uri

ENTITY_PREFIX = "memory://"
NO_SUBJECT = "self"
NO_PREDICATE = "memory:note"
_RESERVED = re.compile(r"[/%?#]")
_SAID = frozenset({"id", "user", "agent", "subject", "predicate", "object"})


class StatedFact(Struct, frozen=True, gc=False):
    """A fact to state: its content, its ``name`` in deltas, and the rest of its payload."""

    entity: str
    relation: str
    value: Value
    name: str | None
    subject: str | None
    predicate: str | None
    rest: dict[str, Any] = field(default_factory=dict)


def statement_of(payload: Mapping[str, Any], place: MemoryPlace, *, inherited: bool) -> StatedFact:
    """The statement of a payload.

    Args:
        payload: checked by ``classifying.check_payload``.
        place: of the fact.
        inherited: the content is that of the source episode and need not be stored.

    Raises:
        ProvenanceError: the payload uses the bundle's names.
        ValueError: the subject gives no valid entity.
    """
    check_slots(payload)
    subject, predicate = payload.get("subject"), payload.get("predicate")
    stated, content = payload.get("object"), payload.get("content")
    rest = {name: value for name, value in payload.items() if name not in _SAID}
    if stated is None or inherited:
        rest.pop("content", None)
    return StatedFact(
        entity_of(subject, place),
        predicate or NO_PREDICATE,
        Value("text", str(content)) if stated is None else _value(stated),
        payload.get("id"),
        subject,
        predicate,
        rest,
    )


def entity_of(subject: str | None, place: MemoryPlace) -> str:
    """The entity of a subject in a place. Raises ValueError."""
    text = NO_SUBJECT if subject is None else subject
    if ":" in text:
        return normalize_uri(text)
    # Encodes only characters that would end the name early: words stay searchable.
    name = _RESERVED.sub(lambda found: f"%{ord(found[0]):02x}", text.strip())
    return normalize_uri(f"{ENTITY_PREFIX}{_owner(place.user)}/{name}")


def _owner(user: str) -> str:
    """A user as the authority of an entity. Entities are lower-cased, users are not: users that
    differ only in case get a digest."""
    plain = quote(user, safe="").replace("~", "%7e").lower()
    return plain if user == user.lower() else f"{plain}~{sha256(user.encode()).hexdigest()[:8]}"


def _value(stated: Any) -> Value:
    if isinstance(stated, bool):
        return Value("boolean", "true" if stated else "false")
    if isinstance(stated, int | float):
        return Value("number", repr(float(stated) + 0.0))  # -0.0 becomes 0.0
    return Value("string", stated)


def object_of(value_type: str, value_v: str) -> Any:
    """An object as the payload had it."""
    if value_type == "boolean":
        return value_v == "true"
    if value_type == "number":
        number = float(value_v)
        return int(number) if number.is_integer() else number
    return value_v


def payload_of_fact(
    row: Mapping[str, Any], *, name: str | None, subject: str | None, rest: Mapping[str, Any]
) -> dict[str, Any]:
    """The payload of a fact's row (``relation``, ``value_type``, ``value_v``) again."""
    payload: dict[str, Any] = {} if name is None else {"id": name}
    if subject is not None:
        payload["subject"] = subject
    if row["relation"] != NO_PREDICATE:
        payload["predicate"] = row["relation"]
    if row["value_type"] == "text":
        payload["content"] = row["value_v"]
    else:
        payload["object"] = object_of(row["value_type"], row["value_v"])
    return {**payload, **rest}


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
