"""The values that a field of a document may have, for messages."""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import inspect

_REFUSED = "Invalid enum value "
_STEP = re.compile(r"\.(\w+)|\[")


def with_choices(reason: str, kind: Any, path: str) -> str:
    """msgspec's ``reason``; if a value is none of those that ``kind`` allows at the path
    (``$.matchers[0].op``), one that names these."""
    if not reason.startswith(_REFUSED):
        return reason
    parts = [inspect.type_info(kind)]
    for step in _STEP.finditer(path):
        parts = [inner for part in parts for inner in _inside(part, step[1])]
    allowed = {value: None for part in parts for value in _values(part)}
    return f"must be one of {', '.join(map(str, allowed))}, not {reason.removeprefix(_REFUSED)}"


def _inside(part: inspect.Type, name: str | None) -> Iterator[inspect.Type]:
    """The types of a field; of the members if ``name`` is None."""
    for each in _plain(part):
        if isinstance(each, inspect.StructType) and name is not None:
            yield from (field.type for field in each.fields if field.encode_name == name)
        elif isinstance(each, inspect.ListType | inspect.VarTupleType) and name is None:
            yield each.item_type
        elif isinstance(each, inspect.DictType) and name is None:
            yield each.value_type


def _values(part: inspect.Type) -> Iterator[str | int | None]:
    for each in _plain(part):
        if isinstance(each, inspect.LiteralType):
            yield from each.values


def _plain(part: inspect.Type) -> Iterator[inspect.Type]:
    """The members of a union, without metadata."""
    if isinstance(part, inspect.Metadata):
        yield from _plain(part.type)
    elif isinstance(part, inspect.UnionType):
        for each in part.types:
            yield from _plain(each)
    else:
        yield part
