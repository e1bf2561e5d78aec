"""Rebuild: the log replayed into a fresh file, compared with the one that serves, swapped in.

Blue is the file in use, green the one being built. Green is bulk-loaded up to a position
that blue also stands at; where all projectors have the versions blue was made with, the
digests must be equal. Only then is the link moved, between two groups of writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import apsw
from msgspec import Struct

from eventlog.log import EventLog
from projections.database import open_reader, query
from projections.digest import Digests, compute_digests
from projections.registry import PROJECTORS
from projections.store import (
    ProjectionStore,
    current_generation,
    new_generation,
    point_link,
    remove_generation,
)
from projections.writer import Writer

PAGE_EVENTS = 10_000
Progress = Callable[[int, int], None]
"""Called with (events done, events in all)."""


class DigestMismatch(Exception):
    """Green differs from blue although the projectors are the same; blue stays in use."""

    def __init__(self, blue: Digests, green: Digests) -> None:
        tables = sorted(name for name in blue.tables if blue.tables[name] != green.tables.get(name))
        super().__init__(f"rebuilt tables differ from those in use: {', '.join(tables)}")
        self.blue = blue
        self.green = green
        self.tables = tables


class ProjectorHalted(Exception):
    """A projector cannot apply an event, so its rows cannot be rebuilt."""


class RebuildReport(Struct, frozen=True):
    """What a rebuild did. ``compared`` is False where projector versions changed."""

    events: int
    seconds: float
    position: int
    digest: str
    compared: bool


def replay_into(
    store: ProjectionStore,
    log: EventLog,
    until: int,
    progress: Progress | None = None,
    *,
    tolerant: bool = False,
) -> int:
    """Apply everything after the store's position up to ``until``; returns how many events.

    Raises:
        ProjectorHalted: a projector cannot apply an event, unless ``tolerant``.
    """
    done, start = 0, store.position
    while store.position < until:
        page = log.read(store.position, min(PAGE_EVENTS, until - store.position))
        if not page:
            break
        with store.db:
            store.apply(page)
        done += len(page)
        if progress is not None:
            progress(done, until - start)
        if store.halted and not tolerant:
            name, reason = next(iter(store.halted.items()))
            raise ProjectorHalted(f"projector {name} cannot be rebuilt: {reason}")
    return done


def build_green(
    link: Path,
    log: EventLog,
    until: int,
    progress: Progress | None = None,
    *,
    tolerant: bool = False,
) -> tuple[Path, int, Digests]:
    """A complete new generation at ``until``: its path, the events applied, its digests.

    The file is synced to disk before this returns. Raises UnknownKind for a local event
    that this release cannot read; the unfinished file is removed.
    """
    path = new_generation(link)
    store = ProjectionStore(link, path, bulk=True, strict=True, history=log)
    try:
        events = replay_into(store, log, until, progress, tolerant=tolerant)
        store.finish_bulk()
        digests = compute_digests(store.db)
    except BaseException:
        store.close()
        remove_generation(path)
        raise
    store.close()
    _sync(path)
    return path, events, digests


def rebuild_offline(
    link: Path, log: EventLog, progress: Progress | None = None, *, tolerant: bool = False
) -> tuple[Path, RebuildReport]:
    """Build green up to the log's head while nobody writes; the caller points the link.

    ``tolerant`` accepts projectors that halt: a node that starts with one of them halted
    says so in ``/readyz`` and serves the rest.

    Raises:
        DigestMismatch: green differs from blue; green is removed.
        ProjectorHalted: a projector cannot be rebuilt, unless ``tolerant``.
    """
    began = monotonic()
    until = log.head().position
    path, events, green = build_green(link, log, until, progress, tolerant=tolerant)
    compared = False
    blue_path = current_generation(link)
    if blue_path is not None:
        blue = open_reader(blue_path)
        try:
            compared = _is_of(blue, log) and _compare(blue, path, green)
        except (apsw.NotADBError, apsw.CorruptError, apsw.SQLError, apsw.IOError):
            compared = False  # nothing can be said of a file that cannot be read
        finally:
            blue.close()
    return path, RebuildReport(events, monotonic() - began, green.position, green.local, compared)


def rebuild_serving(
    link: Path,
    log: EventLog,
    writer: Writer,
    progress: Progress | None = None,
    swapped: Callable[[], None] = lambda: None,
) -> RebuildReport:
    """Build green while blue serves reads and writes, then swap between two groups.

    Blue is compared at the position of a read snapshot taken at the start, so writing goes
    on meanwhile. The writer then closes the last gap and moves to green; ``swapped`` is
    called before it writes there, so that no reader goes on with blue.

    Raises:
        DigestMismatch: green differs from blue.
        WriterBusy, WriterClosed, ProjectorHalted: green cannot take over.
        In all cases green is removed and blue stays in use.
    """
    began = monotonic()
    old = writer.store.path
    blue = open_reader(old)
    try:
        blue.execute("BEGIN")
        (until,) = query(blue, "SELECT min(position) FROM checkpoints")[0]
        path, events, green = build_green(link, log, until, progress)
        # What is erased meanwhile is gone from the log, and still in the snapshot.
        compared = not _erased_after(log, until) and _compare(blue, path, green)
    finally:
        blue.close()
    _take_over(link, path, log, writer, swapped)
    remove_generation(old)
    return RebuildReport(events, monotonic() - began, green.position, green.local, compared)


def _take_over(
    link: Path, path: Path, log: EventLog, writer: Writer, swapped: Callable[[], None]
) -> None:
    store = ProjectionStore(link, path, history=log)

    def swap() -> None:
        replay_into(store, log, log.head().position)
        point_link(link, path)
        writer.replace_store(store)
        swapped()

    try:
        replay_into(store, log, log.head().position)
        writer.exclusive(swap).result()
    except BaseException:
        if writer.store is not store:
            store.close()
            remove_generation(path)
        raise


def _is_of(blue: apsw.Connection, log: EventLog) -> bool:
    """Whether blue was made from this log: the last event it applied is there."""
    mark = query(blue, "SELECT position, hash FROM log_mark")
    if not mark:
        return False
    position, event_hash = mark[0]
    found = log.read(position - 1, 1)
    return bool(found) and found[0].position == position and found[0].hash == event_hash


def _compare(blue: apsw.Connection, path: Path, green: Digests) -> bool:
    """Whether blue could be compared. Removes green and raises where it differs."""
    versions = query(blue, "SELECT projector, version, halted FROM checkpoints")
    made = {name: (version, halted) for name, version, halted in versions}
    if made != {projector.name: (projector.version, None) for projector in PROJECTORS}:
        return False
    digests = compute_digests(blue)
    if digests.position != green.position:
        return False
    if digests.local != green.local:
        remove_generation(path)
        raise DigestMismatch(digests, green)
    return True


def _erased_after(log: EventLog, position: int) -> bool:
    return any(event.kind == "fact_erased" for event in log.iterate(position))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
