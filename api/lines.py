"""The lines of an import file: what each may say, and the intents it stands for.

``assert`` (also where ``op`` is absent) states a fact and may give it a ``key``; later
lines name that key. Keys are the file's own and never reach the log: before a line is
written, they are replaced by ids and content hashes (``translating.Translator``).
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import ValidationError

from api.garden_lines import (
    EVERY_GARDEN,
    FindGarden,
    GardenLine,
    MemberLine,
    garden_id_of,
    garden_intent,
    garden_of,
    member_intent,
)
from api.line_base import Line, LineError, Scope, line_uri
from api.schemas.attributes import Attributes
from api.schemas.values import FactValue
from api.tombstone_lines import TombstoneLine
from eventlog.kinds import DecayPolicy, FactAttributes, Parent, Value
from projections.attribute_rules import PLAIN, settled
from projections.cid import compute_cid, parse_fact_hash
from projections.instructions import INSTRUCTION_PERMISSION
from projections.intents import (
    AssertFact,
    DeclareSetValued,
    Intent,
    RetractFact,
    RetractMatching,
    SetAttributes,
    SetPolicy,
    SetSourceTrust,
    SweepDecay,
)
from projections.moment import parse_instant
from projections.normalization import SCOPES, URI_LENGTH_MAX

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FIELD = re.compile(r" - at `\$\.?(.*)`$")


class LineValue(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A typed value as JSON carries it."""

    type: str
    v: Any = None
    interpret_as: Literal["content", "instruction"] = "content"


class AssertLine(Line, frozen=True, kw_only=True, tag="assert"):
    """A fact. ``derived_from`` holds keys of earlier lines, hashes, or parent objects."""

    entity: str
    relation: str
    value: LineValue
    source: str
    scope: Scope = "local"
    confidence: float = 1.0
    key: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None
    derived_from: list[str | Parent] = field(default_factory=list)
    write_mode: Literal["assert", "summarize_with_provenance"] = "assert"
    garden_id: str | None = None
    attributes: dict[str, Any] | None = None


class Match(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The content of the one live fact that a retraction means."""

    entity: str
    relation: str
    value: LineValue
    scope: Scope = "local"
    source: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None
    garden_id: str | None = None


class RetractLine(Line, frozen=True, kw_only=True, tag="retract"):
    """A fact no longer holds: exactly one of ``target`` (a key), ``id`` and ``match``."""

    target: str | None = None
    id: str | None = None
    match: Match | None = None
    reason: str = ""


class ResolveLine(Line, frozen=True, kw_only=True, tag="resolve"):
    """A contradiction is settled; both sides by key, or by fact id."""

    winner: str
    loser: str
    note: str = ""
    source: str | None = None


class PolicyLine(Line, frozen=True, kw_only=True, tag="policy"):
    """A declaration: the set-valued relations, or a decay policy to set or remove."""

    set_valued: list[str] | None = None
    decay: DecayPolicy | None = None
    remove_decay: str | None = None


class TrustLine(Line, frozen=True, kw_only=True, tag="trust"):
    """How far this node trusts a source, 0 to 1."""

    source: str
    trust: float
    reason: str = ""


class AttributesLine(Line, frozen=True, kw_only=True, tag="attributes"):
    """All attributes of a fact from here on; the fact by key (``target``) or ``id``."""

    attributes: dict[str, Any]
    target: str | None = None
    id: str | None = None


class SweepLine(Line, frozen=True, kw_only=True, tag="sweep"):
    """A decay sweep of scopes with the policies given."""

    scopes: list[str]
    policies: list[DecayPolicy]
    gardens: list[str] = field(default_factory=list)


AnyLine: TypeAlias = (
    AssertLine
    | RetractLine
    | ResolveLine
    | PolicyLine
    | TrustLine
    | SweepLine
    | AttributesLine
    | GardenLine
    | MemberLine
    | TombstoneLine
)
OPERATIONS = (
    "assert", "retract", "resolve", "policy", "trust", "sweep", "attributes", "garden",
    "member", "tombstone",
)  # fmt: skip
_any = msgspec.json.Decoder(AnyLine)
_assert = msgspec.json.Decoder(AssertLine)
_many = msgspec.json.Decoder(list[AnyLine])


def decode_line(text: bytes) -> AnyLine:
    """The line in a JSON text. Raises LineError."""
    try:
        return _any.decode(text)
    except msgspec.ValidationError as fault:
        if "missing required field `op`" not in str(fault):
            raise _line_error(fault) from fault
    except msgspec.DecodeError as fault:
        raise LineError(f"is not JSON: {fault}") from fault
    try:
        return _assert.decode(text)
    except msgspec.ValidationError as fault:
        raise _line_error(fault) from fault


def convert_line(item: dict[str, Any]) -> AnyLine:
    """The line that a mapping made. Raises LineError."""
    try:
        return msgspec.convert({"op": "assert", **item}, AnyLine)
    except msgspec.ValidationError as fault:
        raise _line_error(fault) from fault


def decode_lines(data: bytes) -> list[AnyLine]:
    """A JSON array of lines, as the running node receives it. Raises LineError."""
    try:
        return _many.decode(data)
    except msgspec.DecodeError as fault:
        raise LineError(str(fault)) from fault


def _line_error(fault: msgspec.ValidationError) -> LineError:
    text = str(fault)
    found = _FIELD.search(text)
    if found is None:
        return LineError(text)
    where, message = found[1], text[: found.start()]
    if where == "op":
        return LineError(f"must be one of {', '.join(OPERATIONS)}", "op")
    return LineError(message, where)


def recorded_us(line: Line) -> int:
    """``recorded_at`` in microseconds. Raises LineError where absent or not an instant."""
    if line.recorded_at is None:
        raise LineError("is needed with --clock-from-file", "recorded_at")
    return _instant(line.recorded_at, "recorded_at")


def intent_of(line: AnyLine, value_bytes_max: int, find: FindGarden) -> Intent:
    """What a line asks of the writer; its keys replaced by ids and hashes before.

    ``resolve`` lines have no intent of their own: the conflict must be looked up first. Nor
    have ``tombstone`` lines: the node signs the record.

    Raises:
        LineError: a field cannot be used.
    """
    match line:
        case AssertLine():
            garden_id = garden_id_of(line.garden_id, find, "garden_id")
            intent = assert_intent(line, value_bytes_max)
            return intent if garden_id is None else replace(intent, garden_id=garden_id)
        case RetractLine():
            return _retract_intent(line, find)
        case PolicyLine():
            return _policy_intent(line)
        case TrustLine():
            if not 0 <= line.trust <= 1:
                raise LineError("must be from 0 to 1", "trust")
            source = line_uri(line.source, "source")
            return SetSourceTrust(source=source, trust=line.trust, reason=line.reason)
        case AttributesLine():
            return _attributes_intent(line)
        case SweepLine():
            return _sweep_intent(line, find)
        case GardenLine():
            return garden_intent(line, find)
        case MemberLine():
            return member_intent(line, find)
        case ResolveLine():
            raise LineError("a resolution needs its conflict", "op")
        case TombstoneLine():
            raise LineError("a tombstone needs the node that signs it", "op")


def assert_intent(line: AssertLine, value_bytes_max: int) -> AssertFact:
    """The intent of an ``assert`` line.

    Intervals that end before they start are kept: what others once recorded is history,
    and such a fact is simply never valid.
    """
    entity, source = line_uri(line.entity, "entity"), line_uri(line.source, "source")
    relation = _label(line.relation, "relation")
    value = stored_value(line.value, "value")
    if len(value.v) * 4 > value_bytes_max and len(value.v.encode()) > value_bytes_max:
        raise LineError(f"is over {value_bytes_max} bytes", "value.v")
    if not 0 <= line.confidence <= 1:
        raise LineError("must be from 0 to 1", "confidence")
    for name in ("valid_from", "valid_until"):
        text: str | None = getattr(line, name)
        if text is not None:
            _instant(text, name)
    return AssertFact(
        entity=entity,
        relation=relation,
        value=value,
        source=source,
        scope=line.scope,
        confidence=line.confidence,
        cid=compute_cid(
            entity=entity,
            relation=relation,
            value=value,
            source=source,
            confidence=line.confidence,
            scope=line.scope,
        ),
        valid_from=line.valid_from,
        valid_until=line.valid_until,
        derived_from=tuple(_parent(item) for item in line.derived_from),
        permissions=frozenset({INSTRUCTION_PERMISSION}),  # lines are the operator's own
        write_mode=line.write_mode,
        attributes=stored_attributes(line.attributes),
    )


def stored_attributes(given: dict[str, Any] | None) -> FactAttributes | None:
    """Attributes as events carry them; None where they say nothing. Raises LineError."""
    if given is None:
        return None
    made = settled(_stated_attributes(given))
    return None if made == PLAIN else made


def _stated_attributes(given: dict[str, Any]) -> FactAttributes:
    try:
        return Attributes.model_validate(given).stated()
    except ValidationError as fault:
        error = fault.errors(include_url=False)[0]
        place = ".".join(("attributes", *(str(part) for part in error["loc"])))
        raise LineError(error["msg"], place) from fault


def stored_value(value: LineValue, where: str) -> Value:
    """The canonical form of a value. Raises LineError."""
    if value.type == "string" and type(value.v) is str:
        return Value("string", value.v, value.interpret_as)
    try:
        given = {"type": value.type, "v": value.v, "interpret_as": value.interpret_as}
        return FactValue.model_validate(given).stored()
    except ValidationError as fault:
        error = fault.errors(include_url=False)[0]
        place = ".".join((where, *(str(part) for part in error["loc"])))
        raise LineError(error["msg"], place) from fault


def parent_hash(text: str) -> str | None:
    """The hash in a ``derived_from`` entry; None where it is a key instead."""
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
            f"{item.hash!r} is no key of an earlier line; {fault}", "derived_from"
        ) from fault


def _retract_intent(line: RetractLine, find: FindGarden) -> Intent:
    if line.id is not None:
        return RetractFact(fact_id=line.id, reason=line.reason, scopes=frozenset(SCOPES))
    if line.match is None:
        raise LineError("needs exactly one of target, id and match", "op")
    match = line.match
    return RetractMatching(
        entity=line_uri(match.entity, "match.entity"),
        relation=_label(match.relation, "match.relation"),
        value=stored_value(match.value, "match.value"),
        scope=match.scope,
        source=None if match.source is None else line_uri(match.source, "match.source"),
        valid_from=match.valid_from,
        valid_until=match.valid_until,
        reason=line.reason,
        garden_id=garden_id_of(match.garden_id, find, "match.garden_id"),
    )


def _attributes_intent(line: AttributesLine) -> SetAttributes:
    if line.id is None:
        raise LineError("needs target or id", "target")
    changes = msgspec.structs.asdict(_stated_attributes(line.attributes))
    return SetAttributes(fact_id=line.id, changes=changes, scopes=frozenset(SCOPES), admin=True)


def _sweep_intent(line: SweepLine, find: FindGarden) -> Intent:
    gardens = {
        name if name == EVERY_GARDEN else garden_of(name, find, "gardens").id
        for name in line.gardens
    }
    return SweepDecay(
        scopes=tuple(line.scopes), policies=tuple(line.policies), gardens=tuple(sorted(gardens))
    )


def _policy_intent(line: PolicyLine) -> Intent:
    given = (line.set_valued, line.decay, line.remove_decay)
    if sum(item is not None for item in given) != 1:
        raise LineError("needs exactly one of set_valued, decay and remove_decay", "op")
    if line.decay is not None:
        return SetPolicy(policy_id=line.decay.id, policy=line.decay)
    if line.remove_decay is not None:
        return SetPolicy(policy_id=line.remove_decay, policy=None)
    return DeclareSetValued(relations=tuple(line.set_valued or ()))


def _label(text: str, where: str) -> str:
    if not text or len(text) > URI_LENGTH_MAX or _CONTROL.search(text):
        raise LineError(f"must have 1 to {URI_LENGTH_MAX} characters, none of them control", where)
    return text


def _instant(text: str, where: str) -> int:
    try:
        return parse_instant(text)
    except (ValueError, OverflowError) as fault:
        raise LineError(str(fault), where) from fault
