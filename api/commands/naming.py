"""From a name as given to what it means: the stored form, and for entities aliases (wire 1.3)."""

from __future__ import annotations

from api.call import Call
from api.errors import ApiError
from eventlog.kinds import Value
from projections.normalization import normalize_ref, normalize_uri


def stored_uri(text: str) -> str:
    """An entity or source in stored form. Raises ApiError 400 ``invalid_entity_uri``."""
    try:
        return normalize_uri(text)
    except ValueError as fault:
        raise ApiError(400, f"invalid_entity_uri: {fault}") from fault


def entity_named(call: Call, text: str, position: int) -> str:
    """The entity that a name meant at a position.

    Sources have no aliases: whose name a fact is stated in is a matter of keys.

    Raises:
        ApiError: 400 ``invalid_entity_uri``.
    """
    return call.node.reader.aliases.resolve(stored_uri(text), position)


def value_meant(call: Call, value: Value, position: int) -> Value:
    """The value; a ref to an alias as a ref to the entity, so that its edge leads there."""
    if value.type != "ref":
        return value
    name = normalize_ref(value.v)
    entity = call.node.reader.aliases.resolve(name, position)
    return value if entity == name else Value("ref", entity, value.interpret_as)
