"""Parts of requests about memories."""

import math
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from engramlog.projections.episodes.delta import SOURCES_MAX
from engramlog.projections.memories.place import MemoryScopeError, name_part

CONTENT_LENGTH_MAX = 65_536
METADATA_FIELDS_MAX = 64
PAYLOAD_FIELDS_MAX = 32
PAGE_MAX = 1_000
ID_BYTES_MAX = 256


def _part(text: str) -> str:
    try:
        return name_part("name", text)
    except MemoryScopeError as fault:
        raise PydanticCustomError("memory_scope", "{reason}", {"reason": fault.reason}) from fault


def _plain(value: Any) -> Any:
    """JSON that the log can keep: no NaN or infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        raise PydanticCustomError("finite_number", "must be a finite number")
    if isinstance(value, dict):
        for item in value.values():  # pyright: ignore[reportUnknownVariableType]
            _plain(item)
    elif isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            _plain(item)
    return value  # pyright: ignore[reportUnknownVariableType]


Part = Annotated[str, AfterValidator(_part)]
"""A user, session or agent: not empty, at most 256 bytes, no control characters; NFC."""
Identifier = Annotated[str, Field(min_length=1, max_length=ID_BYTES_MAX), AfterValidator(_part)]
Metadata = Annotated[dict[str, Any], Field(max_length=METADATA_FIELDS_MAX), AfterValidator(_plain)]
Payload = Annotated[dict[str, Any], Field(max_length=PAYLOAD_FIELDS_MAX), AfterValidator(_plain)]
Identifiers = Annotated[list[Identifier], Field(max_length=SOURCES_MAX)]
