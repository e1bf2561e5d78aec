"""The base of all lines of an import file, and their errors."""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct
from pydantic import ValidationError

from engramlog.projections.moment import instant_meant, parse_instant
from engramlog.projections.normalization import normalize_uri

IMPORT_ACTOR = "system:import"
Target: TypeAlias = Annotated[str, Meta(extra={"names": "target"})]
"""A key of the fact that a line is about; ``id`` takes its place."""


class LineError(Exception):
    """A line is not usable. ``field`` names the part at fault, empty for the whole line."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.message = message
        self.field = field


def line_error(fault: ValidationError, *where: str) -> LineError:
    """The first error of a schema; ``where`` precedes its place."""
    error = fault.errors(include_url=False)[0]
    return LineError(error["msg"], ".".join((*where, *map(str, error["loc"]))))


class Line(
    Struct,
    frozen=True,
    kw_only=True,
    tag_field="op",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """Base of all lines. ``recorded_at``: when the file's author learned it (RFC 3339)."""

    recorded_at: str | None = None


def line_uri(text: str, where: str) -> str:
    """An entity or source in stored form. Raises LineError."""
    try:
        return normalize_uri(text)
    except ValueError as fault:
        raise LineError(str(fault), where) from fault


def line_instant(text: str, where: str) -> int:
    """An RFC 3339 instant, or the first moment of a date, in microseconds. Raises LineError."""
    try:
        return parse_instant(instant_meant(text))
    except (ValueError, OverflowError) as fault:
        raise LineError(str(fault), where) from fault
