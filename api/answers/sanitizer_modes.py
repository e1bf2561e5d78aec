"""What the sanitizer mode makes of facts on their way out.

The log and the tables keep every byte; a mode is how they are served, now and for the past.

``off`` serves as recorded. ``warn`` adds warnings, and gives recall the cleaned values.
``strip`` takes the sentences that hold a sentinel out of values, wherever they are shown, and
says which sentinels they were; facts with a flagged name are absent, and so are all flagged ones
from what is made of several facts (cards, neighbours, exports, notices).
``block`` shows flagged facts in lists without their values, and not at all where the flag
is in a name (a name cannot be left out of a fact); recall and neighbours do not know them.
``quarantine`` hides flagged facts from everything but their review.

A content id belongs to the recorded bytes alone: a record whose value was changed carries
``cid`` null and the id under ``recorded_cid``, so that no honest record ever fails a check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from engramlog.api.answers.fact_record import Record
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import FactAsserted
from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.view import View
from engramlog.projections.text.sanitizing import (
    FREE_TEXTS,
    IN_NAME,
    NAME_FLAG,
    NOTED,
    NOTICES,
    VALUE_FLAG,
    clean,
    stripped,
    verdict_of,
)

Mode: TypeAlias = Literal["warn", "strip", "block", "quarantine", "off"]

_EITHER = VALUE_FLAG | NAME_FLAG
_WITHHELD_FROM_LOOK_UPS: dict[Mode, int] = {
    "off": 0,
    "warn": 0,
    "strip": NAME_FLAG,
    "block": NAME_FLAG,
    "quarantine": _EITHER,
}
_WITHHELD_FROM_MODELS: dict[Mode, int] = {
    "off": 0,
    "warn": 0,
    "strip": _EITHER,
    "block": _EITHER,
    "quarantine": _EITHER,
}


def look_up_rights(mode: Mode, rights: Authorization) -> Authorization:
    """The caller's rights when facts are listed or looked up."""
    return rights.withholding(_WITHHELD_FROM_LOOK_UPS[mode])


def model_rights(mode: Mode, rights: Authorization) -> Authorization:
    """The caller's rights when facts are chosen for a model: nothing held back is counted."""
    return rights.withholding(_WITHHELD_FROM_MODELS[mode])


def recall_rights(mode: Mode, rights: Authorization) -> Authorization:
    """The caller's rights in recall, whose records are stripped where the mode says so."""
    return look_up_rights(mode, rights) if mode == "strip" else model_rights(mode, rights)


class Screen(Struct, frozen=True):
    """What to do to each record of one answer: its codes, and which values to leave out, or to
    strip."""

    codes: tuple[tuple[str, ...], ...] = ()
    redacted: tuple[bool, ...] = ()
    cleaned: bool = False
    strips: bool = False

    def show(self, index: int, record: Record) -> Record:
        """The ``index``-th record as this caller gets it."""
        if not self.codes or not self.codes[index]:
            return record
        shown = record | {"sanitizer_warnings": list(self.codes[index])}
        value: dict[str, Any] = record["value"]
        if self.redacted[index] and self.strips:
            return shown | _stripped(record, self.codes[index])
        if self.redacted[index]:
            bare = {} if "attributes" not in record else {"attributes": _mute(record, _silent)}
            return shown | _changed(record, "") | bare | {"sanitizer_redacted": True}
        if self.cleaned and "attributes" in record:
            shown |= {"attributes": _mute(record, clean)}
        if self.cleaned and isinstance(value["v"], str):
            text = clean(value["v"])
            if text != value["v"]:
                return shown | _changed(record, text) | {"sanitized": True}
        return shown

    def show_all(self, records: Sequence[Record]) -> list[Record]:
        """Every record, in order."""
        if not self.codes:
            return list(records)
        return [self.show(index, record) for index, record in enumerate(records)]


def _mute(record: Record, change: Callable[[str], str]) -> dict[str, Any]:
    """The attributes, with their free texts changed."""
    attributes: dict[str, Any] = record["attributes"]
    return attributes | {name: change(attributes[name]) for name in FREE_TEXTS}


def _stripped(record: Record, codes: Sequence[str]) -> Record:
    """What changes in a record whose value and free texts are stripped."""
    text = record["value"]["v"]
    left = stripped(text) if isinstance(text, str) else text
    changed = {"attributes": _mute(record, stripped)} if "attributes" in record else {}
    if left != text:
        changed |= _changed(record, left) | {"sanitized": True, "sanitizer_redacted": not left}
    found = [code for code in codes if code not in NOTICES and not code.startswith(IN_NAME)]
    return changed | {"sanitizer_stripped": found}


def for_model(mode: Mode, text: str) -> str:
    """A text made of several facts, such as a card, as the mode gives it to a model."""
    return stripped(text) if mode == "strip" else clean(text)


def _silent(_: str) -> str:
    return ""


def _changed(record: Record, text: str) -> Record:
    value = record["value"] | {"v": text}
    return {"value": value, "cid": None, "recorded_cid": record["cid"]}


def screen(
    reader: Reader,
    view: View,
    slots: I32,
    mode: Mode,
    *,
    cleaned: bool = False,
    whole: bool = False,
) -> Screen:
    """What the mode makes of the facts of ``slots``, in order.

    Args:
        cleaned: the values are for a model.
        whole: nothing is left out (answers to the one who wrote it, and to reviewers).
    """
    flags = view.flags(slots)
    if mode == "off" or not (flags & NOTED).any():
        return Screen()
    positions: list[int] = view.from_position[slots].tolist()
    codes = reader.codes(positions)
    blocking = mode in ("strip", "block", "quarantine") and not whole
    return Screen(
        tuple(codes.get(position, ()) for position in positions),
        tuple(blocking and bool(flag & VALUE_FLAG) for flag in flags.tolist()),
        cleaned and not whole,
        strips=mode == "strip",
    )


def warned_record(record: Record, event: Recorded, mode: Mode) -> Record:
    """The record of a fact just written, with what the sanitizer found in it."""
    assert isinstance(event.payload, FactAsserted)
    codes = () if mode == "off" else verdict_of(event.payload).codes
    return record | {"sanitizer_warnings": list(codes)} if codes else record
