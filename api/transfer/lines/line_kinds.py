"""The lines of an import file, and their commands.

``assert`` (the default ``op``) states a fact and may give it a ``key`` for later lines. Keys belong
to the file and never reach the log: ids and content hashes replace them first
(``key_translation.Translator``).
"""

import re
from collections.abc import Callable
from typing import Any, TypeAlias, get_args

import msgspec

from engramlog.api.transfer.lines.base import Line, LineError, line_instant
from engramlog.api.transfer.lines.declarations import (
    Destination,
    GardenLine,
    HoldLine,
    PolicyLine,
    SweepLine,
    TombstoneLine,
    garden_command,
    hold_command,
    policy_command,
    sweep_command,
)
from engramlog.api.transfer.lines.facts import (
    AssertLine,
    AttributesLine,
    DenyLine,
    RetractLine,
    attributes_command,
    deny_command,
    retract_command,
    stated_command,
)
from engramlog.api.transfer.lines.memories import (
    DeltasLine,
    EpisodeLine,
    RunLine,
    SummaryLine,
    deltas_command,
    recording_of,
    run_command,
    summary_command,
)
from engramlog.api.transfer.lines.payload_commands import payload_command
from engramlog.api.transfer.lines.payload_lines import (
    PAYLOADS,
    PayloadLine,
    read_line,
    written_line,
)
from engramlog.eventlog.codec import PAYLOAD_LEVELS_MAX
from engramlog.eventlog.kinds import FactId
from engramlog.eventlog.nesting import nests_deeper
from engramlog.projections.allowed_values import with_choices
from engramlog.projections.writing.commands import Command

_FIELD = re.compile(r" - at `\$\.?(.*)`$")


class ResolveLine(Line, frozen=True, kw_only=True, tag="resolve"):
    """Settles a contradiction; names both sides by key or by fact id.

    ``states``: neither side was right, and this fact replaces them, from its own source.
    """

    winner: FactId
    loser: FactId
    note: str = ""
    source: str | None = None
    states: AssertLine | None = None


OwnLine: TypeAlias = (
    AssertLine
    | RetractLine
    | DenyLine
    | ResolveLine
    | PolicyLine
    | SweepLine
    | AttributesLine
    | GardenLine
    | TombstoneLine
    | EpisodeLine
    | DeltasLine
    | SummaryLine
    | RunLine
    | HoldLine
)
"""Lines with their own model."""
AnyLine: TypeAlias = OwnLine | PayloadLine
OPERATIONS = (
    *(str(shape.__struct_config__.tag) for shape in get_args(OwnLine)),
    *PAYLOADS,
)


class _Operation(msgspec.Struct):
    op: str = "assert"


_operation = msgspec.json.Decoder(_Operation)
_own = msgspec.json.Decoder(OwnLine)
_assert = msgspec.json.Decoder(AssertLine)
_object = msgspec.json.Decoder(dict[str, Any])
_many = msgspec.json.Decoder(list[msgspec.Raw])
_encode = msgspec.json.Encoder().encode


def decode_line(text: bytes | msgspec.Raw) -> AnyLine:
    """The line in a JSON text. Raises LineError."""
    if nests_deeper(bytes(text), PAYLOAD_LEVELS_MAX):
        raise LineError(f"has over {PAYLOAD_LEVELS_MAX} levels")
    try:
        try:
            return _own.decode(text)
        except msgspec.ValidationError as fault:
            return _other_line(text, fault)
    except msgspec.ValidationError as fault:
        raise _line_error(fault) from fault
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise not_json(text, fault) from fault


def not_json(text: bytes | msgspec.Raw, fault: Exception) -> LineError:
    """The error of a line that is no JSON object, or not even text."""
    try:
        str(bytes(text), "utf-8")
    except UnicodeDecodeError as found:
        return LineError(f"is not UTF-8 (byte {found.start})")
    return LineError(f"is not JSON: {fault}")


def _other_line(text: bytes | msgspec.Raw, fault: msgspec.ValidationError) -> AnyLine:
    """A payload's line, or an ``assert`` line without ``op``. Raises ``fault`` if it is neither;
    the line may have a second error after that one."""
    op = _operation.decode(text).op
    if op in PAYLOADS:
        return read_line(op, _object.decode(text))
    if "missing required field `op`" in str(fault):
        return _assert.decode(text)
    raise fault


def convert_line(item: dict[str, Any]) -> AnyLine:
    """The line from a mapping. Raises LineError."""
    op = item.get("op", "assert")
    if op in PAYLOADS:
        return read_line(op, item)
    try:
        return msgspec.convert({"op": "assert", **item}, OwnLine)
    except msgspec.ValidationError as fault:
        raise _line_error(fault) from fault


def decode_lines(data: bytes) -> list[AnyLine]:
    """A JSON array of lines, in the form that the running node takes. Raises LineError."""
    try:
        return [decode_line(line) for line in _many.decode(data)]
    except msgspec.DecodeError as fault:
        raise LineError(str(fault)) from fault


def encode_line(line: AnyLine) -> bytes:
    return _encode(written_line(line) if isinstance(line, PayloadLine) else line)


def _line_error(fault: msgspec.ValidationError) -> LineError:
    text = str(fault)
    found = _FIELD.search(text)
    if found is None:
        return LineError(text)
    where, message = found[1], text[: found.start()]
    message = with_choices(message, OwnLine, f".{where}")
    if where == "op":
        return LineError(f"must be one of {', '.join(OPERATIONS)}", "op")
    if where == "value" and message.startswith("Expected `object`"):
        message += ': a text is {"type": "string", "v": "…"}'
    return LineError(message, where)


def recorded_us(line: Line) -> int:
    """``recorded_at`` in microseconds. Raises LineError if absent or not an instant."""
    if line.recorded_at is None:
        raise LineError("--clock-from-file requires it", "recorded_at")
    return line_instant(line.recorded_at, "recorded_at")


def command_of(line: AnyLine, node: Destination) -> Command:
    """The writer's command of a line whose keys are replaced. Raises LineError. ``resolve`` lines
    have none: their conflict must be looked up first. Neither have ``tombstone`` lines: the node
    signs the record."""
    return _COMMANDS[type(line)](line, node)


_COMMANDS: dict[type, Callable[[Any, Destination], Command]] = {
    AssertLine: stated_command,
    RetractLine: retract_command,
    DenyLine: deny_command,
    AttributesLine: attributes_command,
    HoldLine: hold_command,
    PolicyLine: policy_command,
    SweepLine: sweep_command,
    GardenLine: garden_command,
    EpisodeLine: recording_of,
    DeltasLine: deltas_command,
    SummaryLine: summary_command,
    RunLine: run_command,
    PayloadLine: payload_command,
}
