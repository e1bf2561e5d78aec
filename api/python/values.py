"""Values and moments, converted between Python and the wire."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, TypeAlias


class Ref(str):
    """An entity as a value: a fact with one is an edge of the graph."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Ref({str(self)!r})"


PlainValue: TypeAlias = str | float | bool | datetime | None
"""The value of a fact. ``Ref`` is a ``str``; ``int`` a number."""
InstantLike: TypeAlias = date | str
"""A datetime; a date, which means its first moment in UTC; or a text of either."""
MomentLike: TypeAlias = InstantLike | int
"""An instant, an HLC, ``position:N``, or the position itself."""


def wire_value(value: PlainValue | Mapping[str, Any]) -> dict[str, Any]:
    """A value in the form of requests; passes mappings on.

    Raises:
        ValueError: a datetime has no offset, or a whole number would be rounded.
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
        if isinstance(value, int) and not is_exact(value):
            raise ValueError("value: a number has 53 bits, which would round this one: give a text")
        return {"type": "number", "v": value}
    if isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers err
        plain = str.__str__(value)  # an enum's own ``str`` is its name
        return {"type": "ref" if isinstance(value, Ref) else "string", "v": plain}
    raise TypeError(
        f"value: a fact cannot hold a {type(value).__name__}: give a text, number, boolean, "
        "datetime, None or Ref"
    )


def is_exact(number: int) -> bool:
    """Whether a fact's number, a float, holds it: not the long ids of some services."""
    try:
        return int(float(number)) == number
    except OverflowError:
        return False


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


def instant_text(name: str, given: InstantLike) -> str:
    """An instant in the form of requests.

    Raises:
        ValueError: a datetime has no offset, or the text is empty.
        TypeError: it is neither.
    """
    if not isinstance(given, date):
        return name_text(name, given, "a datetime or a text")
    if isinstance(given, datetime) and given.tzinfo is None:
        raise ValueError(f"{name}: give a datetime with an offset, such as tzinfo=UTC")
    return given.isoformat()


def moment_text(given: MomentLike) -> str:
    """A moment in the form of requests. Raises as ``instant_text``."""
    if isinstance(given, int):
        return f"position:{given}"
    return instant_text("as_of", given)


def given_instant(name: str, given: InstantLike | None) -> str | None:
    """``instant_text`` of an instant, if one is given."""
    return None if given is None else instant_text(name, given)


def plain_text(name: str, given: str, wanted: str = "a text") -> str:
    """``given``. Raises TypeError unless it is a text: the encoder of requests would make one of
    bytes, dates and more."""
    if not isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers err
        raise TypeError(f"{name}: give {wanted}, not {type(given).__name__}")
    return given


def text_list(name: str, given: Sequence[str]) -> list[str]:
    """``given`` as a list. Raises TypeError unless it is one of texts; a text is one of letters."""
    if isinstance(given, str) or not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{name}: give a list of texts, not {type(given).__name__}")
    return [plain_text(name, each) for each in given]


def whole_number(name: str, given: int) -> int:
    """``given``. Raises TypeError unless it is a whole number."""
    if not isinstance(given, int):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers err
        raise TypeError(f"{name}: give a whole number, not {type(given).__name__}")
    return given


def name_text(name: str, given: str, wanted: str = "a text") -> str:
    """``given``. Raises as ``plain_text``; ValueError for an empty text, which in a request would
    mean everything."""
    if not plain_text(name, given, wanted).strip():
        raise ValueError(f"{name}: must not be empty")
    return given


def given_name(name: str, given: str | None) -> str | None:
    """``name_text`` of a name, if one is given."""
    return None if given is None else name_text(name, given)


def user_uri(user: str) -> str:
    """``alice`` becomes ``user:alice``; a text with a colon is an entity already.

    Raises as ``name_text``: all callers without a name would share one memory.
    """
    return user if ":" in name_text("user", user) else f"user:{user}"


def given_user(user: str | None) -> str | None:
    """``user_uri`` of a user, if one is given."""
    return None if user is None else user_uri(user)
