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
from engramlog.projections.episodes.episode import FactOfDelta, FactPattern, MemoryFact
from engramlog.projections.episodes.provenance_bundle import check_slots
from engramlog.projections.memories.place import MemoryPlace
from engramlog.projections.moment import format_instant
from engramlog.projections.normalization import normalize_uri, number_text

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
        return Value("number", number_text(stated))
    return Value("string", stated)


def object_of(value_type: str, value_v: str) -> Any:
    """An object as the payload had it."""
    if value_type == "boolean":
        return value_v == "true"
    if value_type == "number":
        number = float(value_v)
        return int(number) if number.is_integer() else number
    return value_v


def _payload_again(
    given: FactOfDelta, relation: str, value_type: str, value_v: str
) -> dict[str, Any]:
    """The payload of the delta that stated a fact."""
    payload: dict[str, Any] = {"id": given.name}
    if given.subject is not None:
        payload["subject"] = given.subject
    if relation != NO_PREDICATE:
        payload["predicate"] = relation
    if value_type == "text":
        payload["content"] = value_v
    else:
        payload["object"] = object_of(value_type, value_v)
    return {**payload, **_object(given.payload)}


_list = msgspec.json.Decoder(list[Any]).decode
_object = msgspec.json.Decoder(dict[str, Any]).decode
_texts = msgspec.json.Decoder(dict[str, str]).decode


def memory_fact(
    given: FactOfDelta, relation: str, value_type: str, value_v: str, confidence: float
) -> MemoryFact:
    """A fact, with its value, canonical or sanitized."""
    pinned_at = format_instant(given.promotion_us)
    own: dict[str, Any] = {
        "rule_id": given.rule_id,
        "source_episode_ids": _list(given.sources),
        "promotion_ts": pinned_at,
        "run_id": given.run_id,
    }
    return MemoryFact(
        id=given.name,
        fact_id=given.fact_id,
        user=given.user,
        agent=given.agent,
        scope=given.scope,
        garden_id=given.garden_id,
        payload=_payload_again(given, relation, value_type, value_v),
        lineage=_list(given.lineage) or [own],
        confidence=confidence,
        version=given.version,
        delta_id=given.delta_id,
        provenance=_texts(given.provenance),
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
