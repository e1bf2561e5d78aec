"""Copies a log into another engine, byte for byte and position for position, and proves it."""

from collections.abc import Callable

from engramlog.eventlog.errors import CorruptLog
from engramlog.eventlog.log import WholeLog
from engramlog.replay.verify import verify

PAGE_EVENTS = 2_000

Progress = Callable[[int, int], None]
"""Called with (events done, all events)."""


class CopyDiffers(Exception):
    """The copy differs from the original; the message names the first difference."""


def check_start(source: WholeLog, target: WholeLog) -> None:
    """Raises CopyDiffers unless ``target`` holds a start of ``source``."""
    after = target.head().position
    if after and source.read_stored(after - 1, 1) != target.read_stored(after - 1, 1):
        raise CopyDiffers(f"what the target holds at position {after} is not in the source")


def copy_log(source: WholeLog, target: WholeLog, progress: Progress) -> int:
    """Append the part of ``source`` that ``target`` lacks; returns the position reached.

    ``target`` may already hold the start of ``source``, so an interrupted copy continues. Raises
    CopyDiffers ``target`` holds other events. CorruptLog: ``source`` is damaged; nothing more is
    copied. StorageError: either cannot be read or written.
    """
    check_start(source, target)
    after = target.head().position
    while page := source.read_stored(after, PAGE_EVENTS):
        target.copy(page, source.keys_of(page))
        after = page[-1].position
        progress(after, max(after, source.head().position))
    return after


def compare_logs(source: WholeLog, target: WholeLog, progress: Progress) -> None:
    """Read both logs fully; prove them equal up to the copy's end. Raises CopyDiffers."""
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
