"""The names in a payload's or a line's fields, found by their types, and structs with others."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import replace

from engramlog.eventlog.kinds import Payload

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
