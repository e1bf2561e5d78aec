"""Lines that hold a payload under another name: reading and writing them.

The differences follow from the payload's types: instants are texts, gardens are slugs, facts and
episodes are keys. ``SHAPES`` has the exceptions. A kind with a ``line`` needs no code here, unless
another file of this folder makes its line.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from engramlog.api.transfer.lines.base import Line, LineError, line_instant, line_uri
from engramlog.api.transfer.lines.declarations import Destination
from engramlog.eventlog.kinds import (
    KINDS,
    AliasSet,
    ConsolidationRuleSet,
    ContentReviewed,
    DeltaRejected,
    EpisodeAccessed,
    FactFeedback,
    GardenMemberSet,
    MemoriesMerged,
    Payload,
    QuarantineReviewed,
    RecallServed,
)
from engramlog.projections.allowed_values import with_choices
from engramlog.projections.moment import format_instant

_S = TypeVar("_S", bound=Struct)
Change = Callable[[str, str], Any]
"""From a name and its place to its new name; None: omit it."""


class Part(Struct, frozen=True):
    """The content of a field: names of something (``fact``, ``garden``, …), or structs."""

    names: str = ""
    struct: type[Struct] | None = None


@cache
def parts_of(struct: type[Struct]) -> dict[str, Part]:
    """The fields of a struct that contain names, or structs that may."""
    hints = get_type_hints(struct, include_extras=True)
    found = {name: _part(hints[name]) for name in struct.__struct_fields__}
    return {name: part for name, part in found.items() if part is not None}


def _part(hint: Any) -> Part | None:
    if get_origin(hint) is Annotated:
        for note in get_args(hint)[1:]:
            if isinstance(note, Meta) and note.extra and "names" in note.extra:
                return Part(names=note.extra["names"])
    if isinstance(hint, type) and issubclass(hint, Struct):
        return Part(struct=hint) if parts_of(hint) else None
    if get_origin(hint) in (list, tuple, Union, UnionType):
        return next((part for each in get_args(hint) if (part := _part(each))), None)
    return None


def names_kind(struct: type[Struct], names: str) -> bool:
    """Whether a payload or a part of it contains such names."""
    return any(
        part.names == names or (part.struct is not None and names_kind(part.struct, names))
        for part in parts_of(struct).values()
    )


def mapped(struct: _S, changes: Mapping[str, Change], place: str = "") -> _S | None:
    """The struct with changed names. Omits list items whose new name is None; None if that happens
    to any other field."""
    made: dict[str, Any] = {}
    for name, part in parts_of(type(struct)).items():
        change = _inside(changes) if part.struct is not None else changes.get(part.names)
        value = getattr(struct, name)
        if change is None or value is None:
            continue
        where = f"{place}{name}"
        if isinstance(value, list | tuple):
            parts = [
                change(each, where if part.struct is None else f"{where}.{number}")
                for number, each in enumerate(cast(list[Any], value))
            ]
            kept = [each for each in parts if each is not None]
            made[name] = kept if isinstance(value, list) else tuple(kept)
        else:
            made[name] = change(value, where)
            if made[name] is None:
                return None
    return replace(struct, **made) if made else struct


def _inside(changes: Mapping[str, Change]) -> Callable[[Any, str], Any]:
    return lambda part, where: mapped(part, changes, f"{where}.")


def says_nothing(payload: Payload) -> bool:
    """Whether a payload about several things has none left."""
    several = [
        getattr(payload, name)
        for name, part in parts_of(type(payload)).items()
        if part.names in ("fact", "episode") or part.struct is not None
    ]
    return bool(several) and all(isinstance(each, list) and not each for each in several)


def names_of(struct: Struct) -> Iterator[tuple[str, Any]]:
    """What a payload or a line names, also in parts of it: kinds and names."""
    for name, part in parts_of(type(struct)).items():
        value = getattr(struct, name)
        for each in cast(list[Any], value) if isinstance(value, list | tuple) else (value,):
            if part.struct is None:
                yield part.names, each
            elif isinstance(each, Struct):
                yield from names_of(each)


class Shape(Struct, frozen=True):
    """The form of a payload as a line.

    Attributes: names: the line's names of fields, also of parts; other fields keep their name,
        instants without ``_us``.
        left_out: fields that belong to this log.
        actor: the field with the actor, if lines have one.
        defaults: fields that a line may omit, though the payload must have them.
        either_id: whether ``id`` may name a fact by its id, instead of its key.
    """

    names: dict[str, str] = {}
    left_out: frozenset[str] = frozenset()
    actor: str = ""
    defaults: dict[str, Any] = {}
    either_id: str = ""


SHAPES: dict[type[Payload], Shape] = {
    AliasSet: Shape({"raw_uri": "name", "canonical_uri": "entity", "alias_kind": "kind"}),
    ContentReviewed: Shape({"fact_id": "target"}, either_id="target"),
    FactFeedback: Shape(left_out=frozenset({"receipt_id"})),
    RecallServed: Shape({"fact_id": "fact", "last_at_us": "last"}),
    MemoriesMerged: Shape({"kept_id": "kept", "merged_ids": "merged"}),
    EpisodeAccessed: Shape(),
    ConsolidationRuleSet: Shape(actor="set_by"),
    QuarantineReviewed: Shape(
        {
            "fact_id": "target",
            "garden_id": "garden",
            "target_garden_id": "to",
            "admitted_fact_id": "admitted",
        },
        actor="judged_by",
    ),
    GardenMemberSet: Shape({"garden_id": "garden"}, defaults={"added_by": "system:import"}),
    DeltaRejected: Shape({"delta": "kind"}, actor="applied_by", defaults={"scope": "local"}),
}
MADE_BY_HAND = frozenset(
    {
        "assert", "retract", "deny", "resolve", "attributes", "policy", "sweep", "garden",
        "tombstone", "hold", "episode", "deltas", "summary", "run",
    }
)  # fmt: skip
"""Lines that differ more from their events; each has a model in this folder."""
PAYLOADS: dict[str, type[Payload]] = {
    shape.line: shape for shape in KINDS.values() if shape.line not in {*MADE_BY_HAND, ""}
}
"""By ``op``."""


class PayloadLine(Line, frozen=True, kw_only=True, tag="payload"):
    """A payload with keys for its facts and episodes and slugs for its gardens."""

    payload: Payload
    actor: str | None = None
    by_id: bool = False
    """Whether the line names its fact by id instead of by key."""

    @property
    def shape(self) -> Shape:
        return SHAPES.get(type(self.payload), _PLAIN)

    def word(self, place: str) -> str:
        """The line's name of a field of the payload."""
        return ".".join(self.shape.names.get(each, each) for each in place.split("."))


_PLAIN = Shape()


def read_line(op: str, fields: dict[str, Any]) -> PayloadLine:
    """The line in a JSON object. Raises LineError."""
    kind = PAYLOADS[op]
    shape = SHAPES.get(kind, _PLAIN)
    given = {name: value for name, value in fields.items() if name != "op"}
    recorded_at = _text(given.pop("recorded_at", None), "recorded_at")
    actor = _text(given.pop(shape.actor, None), shape.actor) if shape.actor else None
    by_id = bool(shape.either_id) and given.get("id") is not None
    if shape.either_id:
        if (given.get(shape.either_id) is None) != by_id:
            raise LineError(f"needs either {shape.either_id} or id", shape.either_id)
        given[shape.either_id] = given.pop("id") if by_id else given[shape.either_id]
    for name, value in shape.defaults.items():
        given[name] = value if given.get(name) is None else given[name]
    try:
        body = _renamed_back(kind, given, shape)
        payload = msgspec.convert({"kind": kind.__struct_config__.tag, **body}, kind)
    except msgspec.ValidationError as fault:
        raise _line_error(fault, kind, shape) from fault
    return PayloadLine(payload=payload, actor=actor, recorded_at=recorded_at, by_id=by_id)


def written_line(line: PayloadLine) -> dict[str, Any]:
    """The JSON object of a line."""
    made: dict[str, Any] = {"op": type(line.payload).line}
    if line.recorded_at is not None:
        made["recorded_at"] = line.recorded_at
    made |= _renamed(line.payload, line.shape)
    if line.by_id:
        made["id"] = made.pop(line.shape.either_id)
    if line.actor is not None and line.shape.actor:
        made[line.shape.actor] = line.actor
    return made


def _line_name(name: str, part: Part | None, shape: Shape) -> str:
    if name in shape.names:
        return shape.names[name]
    return name.removesuffix("_us") if part is not None and part.names == "instant" else name


def _renamed(struct: Struct, shape: Shape) -> dict[str, Any]:
    """A payload, or a part of one, in the form of a line."""
    parts = parts_of(type(struct))
    made: dict[str, Any] = {}
    plain: dict[str, Any] = msgspec.to_builtins(struct)
    for name in struct.__struct_fields__:
        if name not in plain or name in shape.left_out:
            continue  # lines omit defaults
        part, value = parts.get(name), plain[name]
        if part is not None and part.struct is not None:
            value = [_renamed(each, shape) for each in getattr(struct, name)]
        elif part is not None and part.names == "instant":
            value = _each(value, instant_text)
        made[_line_name(name, part, shape)] = value
    return made


def _renamed_back(
    struct: type[Struct], given: dict[str, Any], shape: Shape, place: str = ""
) -> dict[str, Any]:
    """The fields of a payload, or of a part of one, from a line. Raises LineError."""
    parts = parts_of(struct)
    known = {
        _line_name(name, parts.get(name), shape): name
        for name in struct.__struct_fields__
        if name not in shape.left_out
    }
    made: dict[str, Any] = {}
    for word, value in given.items():
        name = known.get(word)
        if name is None:
            raise LineError(f"Object contains unknown field `{word}`", place.rstrip("."))
        made[name] = _read(value, parts.get(name), f"{place}{word}", shape)
    return made


def _read(value: Any, part: Part | None, place: str, shape: Shape) -> Any:
    if part is not None and part.names == "instant":
        return _each(value, lambda text: line_instant(_text(text, place), place))
    if part is not None and part.struct is not None and isinstance(value, list):
        items = _objects(cast(list[Any], value), place)
        return [
            _renamed_back(part.struct, each, shape, f"{place}.{number}.")
            for number, each in enumerate(items)
        ]
    return value


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return [change(each) for each in cast(list[Any], value)]
    return change(value)


def _objects(values: list[Any], where: str) -> list[dict[str, Any]]:
    try:
        return msgspec.convert(values, list[dict[str, Any]])
    except msgspec.ValidationError as fault:
        raise LineError(str(fault), where) from fault


def _text(value: Any, where: str) -> Any:
    if value is not None and not isinstance(value, str):
        raise LineError(f"Expected `str | null`, got `{type(value).__name__}`", where)
    return value


def _line_error(fault: msgspec.ValidationError, kind: type[Payload], shape: Shape) -> LineError:
    text, _, path = str(fault).partition(" - at `$.")
    text = with_choices(text, kind, f".{path}")
    words = [
        shape.names.get(word, word.removesuffix("_us")) for word in path.rstrip("`").split(".")
    ]
    for name, word in shape.names.items():
        text = text.replace(f"`{name}`", f"`{word}`")
    return LineError(text, ".".join(words))


def instant_text(instant_us: int) -> str:
    return format_instant(instant_us).replace("+00:00", "Z")


def settled_payload(line: PayloadLine, node: Destination) -> Payload:
    """The payload with the names of this log. Its keys are already replaced. Raises LineError."""

    settled = mapped(
        line.payload,
        {
            "garden": lambda name, where: node.garden(name, line.word(where)).id,
            "entity": lambda name, where: line_uri(name, line.word(where)),
        },
    )
    assert settled is not None  # no name was omitted
    return settled
