"""Lines of an import file that state facts and end them, and their commands."""

import re
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace
from pydantic import ValidationError

from engramlog.api.schemas.attributes import Attributes
from engramlog.api.schemas.values import FactValue
from engramlog.api.transfer.lines.base import (
    Line,
    LineError,
    Target,
    line_error,
    line_instant,
    line_uri,
)
from engramlog.api.transfer.lines.declarations import Destination
from engramlog.eventlog.kinds import (
    FactAsserted,
    FactAttributes,
    FactDenied,
    FactId,
    Parent,
    Prose,
    Scope,
    Value,
)
from engramlog.projections.cid import parse_fact_hash, with_cid
from engramlog.projections.memories.attribute_rules import PLAIN, settled
from engramlog.projections.moment import instant_meant
from engramlog.projections.normalization import URI_LENGTH_MAX, has_control_character
from engramlog.projections.writing.commands import (
    AssertFact,
    Command,
    RetractFact,
    RetractMatching,
    SetAttributes,
)

Parents: TypeAlias = Annotated[list[str | Parent], Meta(extra={"names": "parents"})]
"""Keys of facts and episodes, hashes, or parents in full."""


class LineValue(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A typed value in JSON."""

    type: str
    v: Any = None
    interpret_as: Literal["content", "instruction"] = "content"


ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class AssertLine(Line, frozen=True, kw_only=True, tag="assert", dict=True):
    """A fact. ``derived_from`` holds keys of earlier lines, hashes, or parent objects.

    ``again``: state a new fact even if an equal one exists; by default the equal one answers the
    line. ``alone``: a record of confidence 0 whose effect other lines describe. Without it, as in
    files of version 0.1, the record ends every equal fact, of any source.
    """

    entity: str
    relation: str
    value: LineValue
    source: str
    scope: Scope = "local"
    confidence: float = 1.0
    key: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None
    derived_from: Parents = field(default_factory=list)
    write_mode: Literal["assert", "summarize_with_provenance"] = "assert"
    garden_id: str | None = None
    attributes: dict[str, Any] | None = None
    again: bool = False
    alone: bool = False

    @property
    def names_fact(self) -> bool:
        """Whether the key is the id of a fact, as in an export."""
        return self.key is not None and ID.fullmatch(self.key) is not None

    @cached_property
    def fact(self) -> FactAsserted:
        """The fact, without its garden. Raises LineError."""
        fact = FactAsserted(
            entity=line_uri(self.entity, "entity"),
            source=line_uri(self.source, "source"),
            relation=label(self.relation, "relation"),
            value=stored_value(self.value, "value"),
            scope=self.scope,
            confidence=self.confidence,
            valid_from=stated_instant(self.valid_from, "valid_from"),
            valid_until=stated_instant(self.valid_until, "valid_until"),
            derived_from=[_parent(item) for item in self.derived_from],
            write_mode=self.write_mode,
            attributes=stored_attributes(self.attributes),
        )
        return with_cid(fact)


class ContentMatch(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The content of the one live fact to retract."""

    entity: str
    relation: str
    value: LineValue
    scope: Scope = "local"
    source: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None
    garden_id: str | None = None


class RetractLine(Line, frozen=True, kw_only=True, tag="retract"):
    """Ends a fact: exactly one of ``target`` (a key), ``id`` and ``match``. ``marker``: the record
    of confidence 0 that ended it."""

    target: Target | None = None
    id: str | None = None
    match: ContentMatch | None = None
    reason: Prose = ""
    marker: FactId | None = None


class DenyLine(Line, frozen=True, kw_only=True, tag="deny"):
    """A record of confidence 0 (``marker``) of another source denies a fact: by keys or ids."""

    target: FactId
    marker: FactId


class AttributesLine(Line, frozen=True, kw_only=True, tag="attributes"):
    """All attributes of a fact from here on; the fact by key (``target``) or ``id``."""

    attributes: dict[str, Any]
    target: Target | None = None
    id: str | None = None


def stated_fact(line: AssertLine, value_bytes_max: int) -> FactAsserted:
    """The fact of an ``assert`` line, without its garden. Keeps intervals that end before they
    start: they are recorded history, and such a fact is never valid. Raises LineError."""
    if not 0 <= line.confidence <= 1:
        raise LineError("must be from 0 to 1", "confidence")
    value = line.fact.value.v
    if len(value) * 4 > value_bytes_max and len(value.encode()) > value_bytes_max:
        raise LineError(f"is over {value_bytes_max} bytes", "value.v")
    return line.fact


def stated_command(line: AssertLine, node: Destination) -> AssertFact:
    """State it in its garden."""
    fact = stated_fact(line, node.value_bytes_max)
    if line.garden_id is not None:
        fact = replace(fact, garden_id=node.garden(line.garden_id, "garden_id").id)
    return AssertFact(fact, again=line.again, zero="does nothing" if line.alone else "ends all")


def stated_instant(text: str | None, where: str) -> str | None:
    """An instant as given, or the first moment of a date. Raises LineError."""
    if text is None:
        return None
    line_instant(text, where)
    return instant_meant(text)


def stored_attributes(given: dict[str, Any] | None) -> FactAttributes | None:
    """Attributes in the form of events; None if all are defaults. Raises LineError."""
    if given is None:
        return None
    made = settled(stated_attributes_of(given))
    return None if made == PLAIN else made


def stated_attributes_of(given: dict[str, Any]) -> FactAttributes:
    """Attributes in a line. Raises LineError."""
    try:
        return Attributes.model_validate(given).stated()
    except ValidationError as fault:
        raise line_error(fault, "attributes") from fault


def stored_value(value: LineValue, where: str) -> Value:
    """The canonical form of a value. Raises LineError."""
    if value.type == "string" and type(value.v) is str:
        return Value("string", value.v, value.interpret_as)
    try:
        given = {"type": value.type, "v": value.v, "interpret_as": value.interpret_as}
        return FactValue.model_validate(given).stored()
    except ValidationError as fault:
        raise line_error(fault, where) from fault


def parent_hash(text: str) -> str | None:
    """The hash in a ``derived_from`` entry; None if it is a key instead."""
    try:
        return parse_fact_hash(text)
    except ValueError:
        return None


def _parent(item: str | Parent) -> Parent:
    if isinstance(item, str):
        item = Parent(item)
    try:
        return Parent(parse_fact_hash(item.hash), item.fact_id)
    except ValueError as fault:
        raise LineError(
            f"{item.hash!r} is not the key of an earlier line; {fault}", "derived_from"
        ) from fault


def retract_command(line: RetractLine, node: Destination) -> Command:
    """The command of a ``retract`` line. Raises LineError."""
    if line.id is not None:
        return RetractFact(fact_id=line.id, reason=line.reason, marker_id=line.marker)
    if line.match is None:
        raise LineError("needs exactly one of target, id and match", "op")
    match = line.match
    return RetractMatching(
        entity=line_uri(match.entity, "match.entity"),
        relation=label(match.relation, "match.relation"),
        value=stored_value(match.value, "match.value"),
        scope=match.scope,
        source=None if match.source is None else line_uri(match.source, "match.source"),
        valid_from=stated_instant(match.valid_from, "match.valid_from"),
        valid_until=stated_instant(match.valid_until, "match.valid_until"),
        reason=line.reason,
        garden_id=node.garden_id(match.garden_id, "match.garden_id"),
    )


def attributes_command(line: AttributesLine, _: Destination) -> SetAttributes:
    """Set all attributes of a fact. Raises LineError."""
    if line.id is None:
        raise LineError("needs target or id", "target")
    changes = msgspec.structs.asdict(stated_attributes_of(line.attributes))
    return SetAttributes(fact_id=line.id, changes=changes)


def deny_command(line: DenyLine, _: Destination) -> FactDenied:
    return FactDenied(fact_ids=[line.target], marker_id=line.marker)


def label(text: str, where: str) -> str:
    """A relation, checked. Raises LineError."""
    if not text or len(text) > URI_LENGTH_MAX or has_control_character(text):
        raise LineError(
            f"must have 1 to {URI_LENGTH_MAX} characters, without control characters", where
        )
    return text
