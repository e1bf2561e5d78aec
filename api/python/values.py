"""Values and moments, converted between Python and the wire."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias


class Ref(str):
    """An entity as a value: a fact with one is an edge of the graph."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Ref({str(self)!r})"


PlainValue: TypeAlias = str | float | bool | datetime | None
"""The value of a fact. ``Ref`` is a ``str``; ``int`` a number."""
MomentLike: TypeAlias = str | int | datetime
"""An instant, an RFC 3339 text or HLC, ``position:N``, or the position itself."""


def wire_value(value: PlainValue | Mapping[str, Any]) -> dict[str, Any]:
    """A value in the form of requests; passes mappings on.

    Raises:
        ValueError: a datetime has no offset.
        TypeError: no type matches it.
    """
    if isinstance(value, Mapping):
        return dict(value)
    if value is None:
        return {"type": "null"}
    if isinstance(value, datetime):
        return {"type": "datetime", "v": instant_text("value", value)}
    if isinstance(value, bool):
        return {"type": "boolean", "v": value}
    if isinstance(value, int | float):
        return {"type": "number", "v": value}
    if isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers err
        return {"type": "ref" if isinstance(value, Ref) else "string", "v": str(value)}
    raise TypeError(f"value: a fact cannot hold a {type(value).__name__}")


def plain_value(value: Mapping[str, Any]) -> PlainValue:
    """A value of an answer. Whole numbers are ``int``."""
    kind, v = value["type"], value["v"]
    if kind == "ref" and isinstance(v, str):
        return Ref(v)
    if kind == "datetime" and isinstance(v, str):
        return instant(v)
    if kind == "number" and isinstance(v, float) and v.is_integer():
        return int(v)
    return v


def instant(text: str | None) -> datetime | None:
    """An instant of an answer; None if missing, or outside Python's range."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def instant_text(name: str, given: datetime | str) -> str:
    """An instant in the form of requests. Raises ValueError for a datetime without an offset."""
    if isinstance(given, str):
        return given
    if given.tzinfo is None:
        raise ValueError(f"{name}: give a datetime with an offset, such as tzinfo=UTC")
    return given.isoformat()


def moment_text(given: MomentLike) -> str:
    """A moment in the form of requests. Raises ValueError as ``instant_text``."""
    if isinstance(given, int):
        return f"position:{given}"
    return instant_text("as_of", given)


def user_uri(user: str) -> str:
    """``alice`` becomes ``user:alice``; a text with a colon is an entity already.

    Raises TypeError.
    """
    if not isinstance(user, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers err
        raise TypeError(f"user: give a text, not a {type(user).__name__}")
    return user if ":" in user else f"user:{user}"


def named_user(user: str) -> str:
    """``user_uri`` of a verb's user. Raises TypeError; ValueError for an empty one."""
    if user == "":  # otherwise all callers without a name would share one memory
        raise ValueError("user: must not be empty")
    return user_uri(user)
