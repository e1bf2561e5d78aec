"""The sanitizer mode's effect on facts in answers.

The log and the tables keep every byte; the mode decides how to serve them, now and for the past.

``off`` serves as recorded. ``warn`` adds warnings, and gives recall the cleaned values. ``strip``
removes the sentences with a sentinel from values in every answer, and lists the sentinels. It omits
facts with a flagged name, and all flagged facts from results that combine several (cards,
neighbours, exports, notices). ``block`` lists flagged facts without their values, and omits those
with a flagged name (a fact cannot go without its name). Recall and neighbours ignore flagged facts.
``quarantine`` hides flagged facts except from their review.

A content id covers the recorded bytes alone. So a record with a changed value has ``cid`` null and
the id under ``recorded_cid``; no unchanged record ever fails a check.
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
    """The caller's rights for lists and look-ups."""
    return rights.withholding(_WITHHELD_FROM_LOOK_UPS[mode])


def model_rights(mode: Mode, rights: Authorization) -> Authorization:
    """The caller's rights for results that a model reads: withheld facts do not count."""
    return rights.withholding(_WITHHELD_FROM_MODELS[mode])


def recall_rights(mode: Mode, rights: Authorization) -> Authorization:
    """The caller's rights in recall, which strips records in mode ``strip``."""
    return look_up_rights(mode, rights) if mode == "strip" else model_rights(mode, rights)


class Screen(Struct, frozen=True):
    """The changes to each record of an answer: its codes, and which values to omit or to strip."""

    codes: tuple[tuple[str, ...], ...] = ()
    redacted: tuple[bool, ...] = ()
    cleaned: bool = False
    strips: bool = False

    def show(self, index: int, record: Record) -> Record:
        """The ``index``-th record, as this caller may see it."""
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
    """The attributes with changed free texts."""
    attributes: dict[str, Any] = record["attributes"]
    return attributes | {name: change(attributes[name]) for name in FREE_TEXTS}


def _stripped(record: Record, codes: Sequence[str]) -> Record:
    """The changes of a record whose value and free texts are stripped."""
    text = record["value"]["v"]
    left = stripped(text) if isinstance(text, str) else text
    changed = {"attributes": _mute(record, stripped)} if "attributes" in record else {}
    if left != text:
        changed |= _changed(record, left) | {"sanitized": True, "sanitizer_redacted": not left}
    found = [code for code in codes if code not in NOTICES and not code.startswith(IN_NAME)]
    return changed | {"sanitizer_stripped": found}


def for_model(mode: Mode, text: str) -> str:
    """A text from several facts, such as a card, for a model under this mode."""
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
    """The mode's changes to the facts of ``slots``, in order.

    Args:
        cleaned: the values are for a model.
        whole: omit nothing (answers to the writer, and to reviewers).
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
    """The record of a fact just written, with the sanitizer's findings."""
    assert isinstance(event.payload, FactAsserted)
    codes = () if mode == "off" else verdict_of(event.payload).codes
    return record | {"sanitizer_warnings": list(codes)} if codes else record
