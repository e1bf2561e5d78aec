"""Typed values, the small validated types of requests, and the base of their models."""

import math
from typing import Annotated, Any, Literal, TypeAlias, get_args

from msgspec import Meta
from pydantic import AfterValidator, BaseModel, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from engramlog.api.python.values import is_exact, user_uri, wire_value
from engramlog.eventlog.kinds import Scope, Value
from engramlog.projections.moment import instant_meant, parse_instant
from engramlog.projections.normalization import (
    URI_LENGTH_MAX,
    has_control_character,
    normalize_ref,
    number_text,
)


class Model(BaseModel, defer_build=True):
    """A part of a request. Its validator is built on first use: building all of them at start takes
    longer than opening an empty node, and most are never used."""


ScopeText: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": list(get_args(Scope))})]
"""A scope in an answer."""
Fields: TypeAlias = Literal["compact", "facts", "full"]
"""How much of each fact an answer contains: ``compact`` is one text of lines for a model, ``facts``
each fact's statement, ``full`` whole records."""
ValueType: TypeAlias = Literal["string", "text", "number", "boolean", "datetime", "ref", "null"]
VALUE_TYPES = get_args(ValueType)
NAME_LENGTH_MAX = URI_LENGTH_MAX


def _no_control(text: str) -> str:
    if has_control_character(text):
        raise PydanticCustomError("control_character", "must not hold control characters")
    return text


def _no_control_but_white_space(text: str) -> str:
    if has_control_character(text):
        _no_control(" ".join(text.split()))
    return text


def _user(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("string_too_short", "must not be empty")
    return user_uri(text)


def _instant(text: str) -> str:
    text = instant_meant(text)
    try:
        parse_instant(text)
    except (ValueError, OverflowError) as fault:
        raise PydanticCustomError("instant", "{reason}", {"reason": str(fault)}) from fault
    return text


Name = Annotated[
    str,
    Field(min_length=1, max_length=NAME_LENGTH_MAX),
    AfterValidator(_no_control),
]
"""A relation or the like as given: 1 to 2048 characters, no control characters."""
Uri = Annotated[
    str,
    Field(min_length=1, max_length=NAME_LENGTH_MAX),
    AfterValidator(_no_control_but_white_space),
]
"""An entity or source as given: as ``Name``, but with any white space, which normalisation
replaces."""
User = Annotated[Name, AfterValidator(_user)]
"""A user by name or entity."""
Instant = Annotated[str, AfterValidator(_instant)]
"""An RFC 3339 instant with an offset, kept verbatim; a date alone means its first moment, UTC."""
Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
"""A number from 0 to 1; numeric strings and booleans are not numbers."""
QueryShare = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""The same in a query string."""
Flag = Annotated[bool, Field(strict=True)]
Position = Annotated[int, Field(ge=0, le=2**63 - 1)]
"""A position in the log or in a stream, as large as a table holds; not necessarily reached."""


def _text(v: Any) -> str:
    if not isinstance(v, str):
        raise PydanticCustomError("string_type", "must be a string")
    return v


def _number(v: Any) -> str:
    if isinstance(v, bool) or not isinstance(v, int | float):
        raise PydanticCustomError("float_type", "must be a number")
    try:
        number = float(v)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise PydanticCustomError("finite_number", "must be a finite number")
    return number_text(number)


def _boolean(v: Any) -> str:
    if not isinstance(v, bool):
        raise PydanticCustomError("bool_type", "must be true or false")
    return "true" if v else "false"


def _datetime(v: Any) -> str:
    return _instant(_text(v))


def _ref(v: Any) -> str:
    text = _text(v)
    try:
        normalize_ref(text)
    except ValueError as fault:
        raise PydanticCustomError("entity_uri", "{reason}", {"reason": str(fault)}) from fault
    return text


def _null(v: Any) -> str:
    if v is not None:
        raise PydanticCustomError("none_required", "must be null or absent")
    return "null"


_CANONICAL = {
    "string": _text,
    "text": _text,
    "number": _number,
    "boolean": _boolean,
    "datetime": _datetime,
    "ref": _ref,
    "null": _null,
}
"""Value type → the canonical text of ``v`` (the CID covers it)."""


class FactValue(Model):
    """A typed value; ``v`` becomes the canonical text that the CID covers."""

    type: ValueType
    v: Any = Field(default=None, validate_default=True)
    interpret_as: Literal["content", "instruction"] = "content"

    @field_validator("v")
    @classmethod
    def _canonical(cls, v: Any, info: ValidationInfo) -> Any:
        kind = info.data.get("type")
        return v if kind is None else _CANONICAL[kind](v)

    def stored(self) -> Value:
        """The value in the form of events."""
        return Value(self.type, self.v, self.interpret_as)


def wire_v(value_type: str, value_v: str) -> Any:
    """``v`` in the form of JSON, from its canonical text."""
    if value_type == "number":
        return float(value_v)
    if value_type == "boolean":
        return value_v == "true"
    return None if value_type == "null" else value_v


def typed_value(value: Any) -> Any:
    """A plain value (a text, a number, true, false or null) in the form of requests. A whole number
    that a float would round, such as a long id, is a text. Passes any other value on for its model
    to judge."""
    if isinstance(value, int) and not is_exact(value):
        value = str(value)
    return wire_value(value) if value is None or isinstance(value, str | int | float) else value
