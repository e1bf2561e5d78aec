"""From a name to its meaning: the stored form, and for entities the alias' target (wire 1.3)."""

from engramlog.api.commands.request_context import ReadingContext
from engramlog.api.http.errors import prefixed
from engramlog.eventlog.kinds import Value
from engramlog.projections.normalization import normalize_ref, normalize_uri


def stored_uri(text: str) -> str:
    """An entity or source in stored form. Raises ApiError 400 ``invalid_entity_uri``."""
    try:
        return normalize_uri(text)
    except ValueError as fault:
        raise prefixed("invalid_entity_uri", str(fault)) from fault


def entity_named(context: ReadingContext, text: str, position: int) -> str:
    """The entity that a name means at a position. Sources have no aliases: keys decide who may
    write as which source. Raises ApiError 400 ``invalid_entity_uri``."""
    return context.node.reader.aliases.resolve(stored_uri(text), position)


def value_meant(context: ReadingContext, value: Value, position: int) -> Value:
    """The value; a ref to an alias becomes a ref to the entity, so that its edge leads there."""
    if value.type != "ref":
        return value
    name = normalize_ref(value.v)
    entity = context.node.reader.aliases.resolve(name, position)
    return value if entity == name else Value("ref", entity, value.interpret_as)
