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

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np
from msgspec import UNSET, Struct
from msgspec.structs import replace

from engramlog.api.answers.fact_record import FactRecord
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import FactAsserted
from engramlog.projections.arrays import Slots
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

    def show(self, index: int, record: FactRecord) -> FactRecord:
        """Change the ``index``-th record to what this caller may see; returns it."""
        if not self.codes or not self.codes[index]:
            return record
        record.sanitizer_warnings = list(self.codes[index])
        if self.redacted[index] and self.strips:
            _strip(record, self.codes[index])
        elif self.redacted[index]:
            _change_free_texts(record, lambda _: "")
            _change_value(record, "")
            record.sanitizer_redacted = True
        elif self.cleaned:
            _change_free_texts(record, clean)
            if isinstance(record.value.v, str):
                text = clean(record.value.v)
                if text != record.value.v:
                    _change_value(record, text)
                    record.sanitized = True
        return record

    def show_all(self, records: Sequence[FactRecord]) -> list[FactRecord]:
        """Every record, in order."""
        if not self.codes:
            return list(records)
        return [self.show(index, record) for index, record in enumerate(records)]


def _change_free_texts(record: FactRecord, change: Callable[[str], str]) -> None:
    attributes = record.attributes
    if attributes is not UNSET:
        texts = {name: change(getattr(attributes, name)) for name in FREE_TEXTS}
        record.attributes = replace(attributes, **texts)


def _change_value(record: FactRecord, text: str) -> None:
    record.value.v = text
    record.cid, record.recorded_cid = None, record.cid


def _strip(record: FactRecord, codes: Sequence[str]) -> None:
    """Strip value and free texts."""
    _change_free_texts(record, stripped)
    text = record.value.v
    if isinstance(text, str) and (left := stripped(text)) != text:
        _change_value(record, left)
        record.sanitized, record.sanitizer_redacted = True, not left
    record.sanitizer_stripped = [
        code for code in codes if code not in NOTICES and not code.startswith(IN_NAME)
    ]


def for_model(mode: Mode, text: str) -> str:
    """A text from several facts, such as a card, for a model under this mode."""
    return stripped(text) if mode == "strip" else clean(text)


def screen(
    reader: Reader,
    view: View,
    slots: Slots,
    mode: Mode,
    *,
    cleaned: bool = False,
    whole: bool = False,
) -> Screen:
    """The mode's changes to the facts of ``slots``, in order, or to one fact. ``cleaned``: the
    values are for a model. ``whole``: omit nothing (answers to the writer, and to reviewers)."""
    flags = view.flags(slots)
    if mode == "off" or not (flags & NOTED).any():
        return Screen()
    positions: list[int] = np.atleast_1d(view.from_position[slots]).tolist()
    codes = reader.codes(positions)
    blocking = mode in ("strip", "block", "quarantine") and not whole
    return Screen(
        tuple(codes.get(position, ()) for position in positions),
        tuple(blocking and bool(flag & VALUE_FLAG) for flag in np.atleast_1d(flags).tolist()),
        cleaned and not whole,
        strips=mode == "strip",
    )


def warned_record(record: FactRecord, event: Recorded, mode: Mode) -> FactRecord:
    """Add the sanitizer's findings to the record of a fact just written; returns it."""
    assert isinstance(event.payload, FactAsserted)
    codes = () if mode == "off" else verdict_of(event.payload).codes
    record.sanitizer_warnings = list(codes)
    return record
