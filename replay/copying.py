"""Copying a log into another engine, byte for byte and position for position, and proving it."""

from __future__ import annotations

from collections.abc import Callable

from engramlog.eventlog.errors import CorruptLog
from engramlog.eventlog.log import WholeLog
from engramlog.replay.verify import verify

PAGE_EVENTS = 5_000

Progress = Callable[[int, int], None]
"""Called with (events done, events in all)."""


class CopyDiffers(Exception):
    """The copy is not the original; the message names the first difference."""


def copy_log(source: WholeLog, target: WholeLog, progress: Progress) -> int:
    """Append to ``target`` what it lacks of ``source``; returns the position reached.

    ``target`` may hold a beginning of ``source`` already, so an interrupted copy continues.

    Raises:
        CopyDiffers: ``target`` holds something else.
        CorruptLog: ``source`` does not continue as it should; nothing more is copied.
        StorageError: either cannot be read or written.
    """
    after = target.head().position
    if after and source.read_stored(after - 1, 1) != target.read_stored(after - 1, 1):
        raise CopyDiffers(f"what the target holds at position {after} is not in the source")
    while page := source.read_stored(after, PAGE_EVENTS):
        target.copy(page, source.keys_of(page))
        after = page[-1].position
        progress(after, max(after, source.head().position))
    return after


def compare_logs(source: WholeLog, target: WholeLog, progress: Progress) -> None:
    """Read both logs whole and prove that the copy is the original, as far as the copy goes.

    Raises CopyDiffers.
    """
    until = target.head().position
    after = 0
    while after < until:
        limit = min(PAGE_EVENTS, until - after)
        original, copy = source.read_stored(after, limit), target.read_stored(after, limit)
        if original != copy:
            at = next(
                (one.position for one, other in zip(original, copy, strict=False) if one != other),
                after + min(len(original), len(copy)) + 1,
            )
            raise CopyDiffers(f"position {at} differs")
        if source.keys_of(original) != target.keys_of(copy):
            raise CopyDiffers(
                f"idempotency keys of positions {after + 1} to {after + limit} differ"
            )
        after += limit
        progress(after, until)
    try:
        fault = verify(target).fault
    except CorruptLog as damage:
        raise CopyDiffers(str(damage)) from damage
    if fault is not None:
        raise CopyDiffers(f"position {fault.position}: {fault.reason}")
