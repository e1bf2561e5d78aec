"""What the sanitizer mode makes of facts on their way out.

The log and the tables keep every byte; a mode is how they are served, now and for the past.

``off`` serves as recorded. ``warn`` adds warnings, and gives recall the cleaned values.
``block`` shows flagged facts in lists without their values, and not at all where the flag
lies in a name (a name cannot be left out of a fact); recall and neighbours do not know them.
``quarantine`` hides flagged facts from everything but their review.

A content id belongs to the recorded bytes alone: a record whose value was changed carries
``cid`` null and the id under ``recorded_cid``, so that no honest record ever fails a check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from engramlog.api.answers.records import Record
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import FactAsserted
from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.view import View
from engramlog.projections.text.sanitizing import (
    FREE_TEXTS,
    NAME_FLAG,
    NOTED,
    VALUE_FLAG,
    clean,
    verdict_of,
)

Mode: TypeAlias = Literal["warn", "block", "quarantine", "off"]

_EITHER = VALUE_FLAG | NAME_FLAG
_WITHHELD_FROM_LOOK_UPS: dict[Mode, int] = {
    "off": 0,
    "warn": 0,
    "block": NAME_FLAG,
    "quarantine": _EITHER,
}
_WITHHELD_FROM_MODELS: dict[Mode, int] = {
    "off": 0,
    "warn": 0,
    "block": _EITHER,
    "quarantine": _EITHER,
}


def look_up_rights(mode: Mode, rights: Authorization) -> Authorization:
    """The caller's rights when facts are listed or looked up."""
    return rights.withholding(_WITHHELD_FROM_LOOK_UPS[mode])


def model_rights(mode: Mode, rights: Authorization) -> Authorization:
    """The caller's rights when facts are chosen for a model: nothing held back is counted."""
    return rights.withholding(_WITHHELD_FROM_MODELS[mode])


class Screen(Struct, frozen=True):
    """What to do to each record of one answer: its codes, and which values to leave out."""

    codes: tuple[tuple[str, ...], ...] = ()
    redacted: tuple[bool, ...] = ()
    cleaned: bool = False

    def show(self, index: int, record: Record) -> Record:
        """The ``index``-th record as this caller gets it."""
        if not self.codes or not self.codes[index]:
            return record
        shown = record | {"sanitizer_warnings": list(self.codes[index])}
        value: dict[str, Any] = record["value"]
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
        return [self.show(index, record) for index, record in enumerate(records)]


def _mute(record: Record, change: Callable[[str], str]) -> dict[str, Any]:
    """The attributes, with their free texts changed."""
    attributes: dict[str, Any] = record["attributes"]
    return attributes | {name: change(attributes[name]) for name in FREE_TEXTS}


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
    blocking = mode in ("block", "quarantine") and not whole
    return Screen(
        tuple(codes.get(position, ()) for position in positions),
        tuple(blocking and bool(flag & VALUE_FLAG) for flag in flags.tolist()),
        cleaned and not whole,
    )


def warned_record(record: Record, event: Recorded, mode: Mode) -> Record:
    """The record of a fact just written, with what the sanitizer found in it."""
    assert isinstance(event.payload, FactAsserted)
    codes = () if mode == "off" else verdict_of(event.payload).codes
    return record | {"sanitizer_warnings": list(codes)} if codes else record
