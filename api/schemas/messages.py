"""Messages about invalid values, without names of Python types.

The entries' types stay pydantic's (``string_type``), which the protocol's clients know.
"""

from collections.abc import Mapping
from typing import Any

_OBJECT, _ARRAY = "must be a JSON object", "must be an array"
_NUMBER, _WHOLE, _TRUTH = "must be a number", "must be a whole number", "must be true or false"
_TEXTS: dict[str, str] = {
    "string_type": "must be a string",
    "string_pattern_mismatch": "must match {pattern}",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "must be a finite number",
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "none_required": "must be null or absent",
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dict_type": _OBJECT,
    "list_type": _ARRAY,
    "tuple_type": _ARRAY,
    "set_type": _ARRAY,
    "frozen_set_type": _ARRAY,
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "extra_forbidden": "no such field",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "union_tag_not_found": "must say by {discriminator} which kind it is",
    "union_tag_invalid": "{discriminator} must be one of {expected_tags}",
}
_EMPTY = "must not be empty"
_TYPED = 'must be typed, such as {"type": "string", "v": "green tea"}'
_OUR_OWN = "Value error, "
"""Prefix of our own checks' messages."""


def plain_message(kind: str, context: Mapping[str, Any], message: str) -> str:
    """The text for one of pydantic's entries: from its type and ``ctx``. Our own and plain messages
    stay."""
    if kind in ("string_too_short", "too_short") and context.get("min_length") == 1:
        return _EMPTY
    if kind == "model_type" and context.get("class_name") == "FactValue":
        return _TYPED
    try:
        return _TEXTS[kind].format_map(context)
    except KeyError:
        return message.removeprefix(_OUR_OWN)
