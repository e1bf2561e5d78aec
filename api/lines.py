"""The lines of an import file: what each may say, and the intents they stand for.

``assert`` (also where ``op`` is absent) states a fact and may give it a ``key``; later
lines name that key. Keys are the file's own and never reach the log: before a line is
written, they are replaced by ids and content hashes (``translating.Translator``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from api.fact_lines import (
    AssertLine,
    LineValue,
    Match,
    RetractLine,
    assert_intent,
    parent_hash,
    retract_intent,
    stored_value,
)
from api.garden_lines import (
    FindGarden,
    GardenLine,
    MemberLine,
    garden_id_of,
    garden_intent,
    member_intent,
)
from api.judgement_lines import (
    AttributesLine,
    FeedbackLine,
    JudgedLine,
    MergedLine,
    RecalledLine,
    ReviewLine,
    attributes_intent,
    feedback_intent,
    judged_intent,
    merged_intent,
    recalled_intent,
    review_intent,
)
from api.line_base import Line, LineError, line_instant
from api.memory_lines import (
    DeltasLine,
    EpisodeLine,
    LookLine,
    RejectedLine,
    SummaryLine,
    deltas_intent,
    episode_intent,
    look_intent,
    rejected_intent,
    summary_intent,
)
from api.rule_lines import PositionOf, RuleLine, RunLine, rule_intent, run_intent
from api.setting_lines import (
    AliasLine,
    HoldLine,
    PolicyLine,
    ProfileLine,
    SweepLine,
    TrustLine,
    alias_intent,
    hold_intent,
    policy_intent,
    profile_intent,
    sweep_intent,
    trust_intent,
)
from api.tombstone_lines import TombstoneLine
from projections.intents import Intent

__all__ = [
    "AnyLine", "AssertLine", "AttributesLine", "LineError", "LineValue", "Match", "PolicyLine",
    "ResolveLine", "RetractLine", "SweepLine", "TrustLine", "assert_intent", "convert_line",
    "decode_line", "decode_lines", "intent_of", "parent_hash", "recorded_us", "stored_value",
]  # fmt: skip
_FIELD = re.compile(r" - at `\$\.?(.*)`$")


class ResolveLine(Line, frozen=True, kw_only=True, tag="resolve"):
    """A contradiction is settled; both sides by key, or by fact id.

    ``states``: neither side was right; this is said instead, by whom it names as its source.
    """

    winner: str
    loser: str
    note: str = ""
    source: str | None = None
    states: AssertLine | None = None


AnyLine: TypeAlias = (
    AssertLine
    | RetractLine
    | ResolveLine
    | PolicyLine
    | TrustLine
    | SweepLine
    | AttributesLine
    | GardenLine
    | MemberLine
    | TombstoneLine
    | EpisodeLine
    | LookLine
    | DeltasLine
    | RejectedLine
    | SummaryLine
    | RuleLine
    | RunLine
    | AliasLine
    | ProfileLine
    | HoldLine
    | ReviewLine
    | JudgedLine
    | FeedbackLine
    | RecalledLine
    | MergedLine
)
OPERATIONS = (
    "assert", "retract", "resolve", "policy", "trust", "sweep", "attributes", "garden",
    "member", "tombstone", "episode", "look", "deltas", "rejected", "summary", "rule", "run",
    "alias", "profile", "hold", "review", "judged", "feedback", "recalled", "merged",
)  # fmt: skip
_any = msgspec.json.Decoder(AnyLine)
_assert = msgspec.json.Decoder(AssertLine)
_many = msgspec.json.Decoder(list[AnyLine])


def decode_line(text: bytes) -> AnyLine:
    """The line in a JSON text. Raises LineError."""
    try:
        return _any.decode(text)
    except msgspec.ValidationError as fault:
        if "missing required field `op`" not in str(fault):
            raise _line_error(fault) from fault
    except msgspec.DecodeError as fault:
        raise LineError(f"is not JSON: {fault}") from fault
    try:
        return _assert.decode(text)
    except msgspec.ValidationError as fault:
        raise _line_error(fault) from fault


def convert_line(item: dict[str, Any]) -> AnyLine:
    """The line that a mapping made. Raises LineError."""
    try:
        return msgspec.convert({"op": "assert", **item}, AnyLine)
    except msgspec.ValidationError as fault:
        raise _line_error(fault) from fault


def decode_lines(data: bytes) -> list[AnyLine]:
    """A JSON array of lines, as the running node receives it. Raises LineError."""
    try:
        return _many.decode(data)
    except msgspec.DecodeError as fault:
        raise LineError(str(fault)) from fault


def _line_error(fault: msgspec.ValidationError) -> LineError:
    text = str(fault)
    found = _FIELD.search(text)
    if found is None:
        return LineError(text)
    where, message = found[1], text[: found.start()]
    if where == "op":
        return LineError(f"must be one of {', '.join(OPERATIONS)}", "op")
    return LineError(message, where)


def recorded_us(line: Line) -> int:
    """``recorded_at`` in microseconds. Raises LineError where absent or not an instant."""
    if line.recorded_at is None:
        raise LineError("is needed with --clock-from-file", "recorded_at")
    return line_instant(line.recorded_at, "recorded_at")


def intent_of(
    line: AnyLine, value_bytes_max: int, find: FindGarden, position_of: PositionOf
) -> Intent:
    """What a line asks of the writer; its keys replaced by ids and hashes before.

    ``resolve`` lines have no intent of their own: the conflict must be looked up first. Nor
    have ``tombstone`` lines: the node signs the record.

    Raises:
        LineError: a field cannot be used.
    """
    match line:
        case AssertLine():
            garden_id = garden_id_of(line.garden_id, find, "garden_id")
            intent = assert_intent(line, value_bytes_max)
            return intent if garden_id is None else replace(intent, garden_id=garden_id)
        case EpisodeLine():
            return episode_intent(line, value_bytes_max, find)
        case DeltasLine():
            return deltas_intent(line, value_bytes_max, find)
        case SummaryLine():
            return summary_intent(line, value_bytes_max, find)
        case RunLine():
            return run_intent(line, position_of)
        case ResolveLine():
            raise LineError("a resolution needs its conflict", "op")
        case TombstoneLine():
            raise LineError("a tombstone needs the node that signs it", "op")
        case _:
            made = _PLAIN.get(type(line))
            return _IN_GARDENS[type(line)](line, find) if made is None else made(line)


_PLAIN: dict[type, Callable[[Any], Intent]] = {
    PolicyLine: policy_intent,
    TrustLine: trust_intent,
    AliasLine: alias_intent,
    ProfileLine: profile_intent,
    HoldLine: hold_intent,
    LookLine: look_intent,
    AttributesLine: attributes_intent,
    ReviewLine: review_intent,
    FeedbackLine: feedback_intent,
    RecalledLine: recalled_intent,
    MergedLine: merged_intent,
}
_IN_GARDENS: dict[type, Callable[[Any, FindGarden], Intent]] = {
    RetractLine: retract_intent,
    GardenLine: garden_intent,
    MemberLine: member_intent,
    SweepLine: sweep_intent,
    RuleLine: rule_intent,
    RejectedLine: rejected_intent,
    JudgedLine: judged_intent,
}
"""What a line asks for that needs nothing else, and that may name gardens."""
