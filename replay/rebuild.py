"""Rebuild: replays the log into a fresh file, compares it with the serving one, swaps it in.

Blue is the file in use, green the new one. Green is bulk-loaded up to a position that blue is also
at. If all projectors have blue's versions, the rows must be equal. Only then does the link move,
between two groups of writes.

Green starts as a copy of the newest usable snapshot and replays only the rest. If that differs from
blue, green is built again from the first event of the log.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from time import monotonic

import apsw
from msgspec import Struct
from msgspec.structs import replace

from engramlog.eventlog.durable_file import sync_file
from engramlog.eventlog.errors import StorageFailed
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.log import EventLog
from engramlog.projections.tables.database import (
    open_fixed,
    remove_database,
    tables_position,
    write_clean,
)
from engramlog.projections.tables.digest import TableDigests, differing_tables, digest_tables
from engramlog.projections.tables.file_state import file_state, other_versions
from engramlog.projections.tables.storage_faults import DAMAGED, TablesDamaged
from engramlog.projections.tables.store import (
    ProjectionStore,
    new_generation,
    point_link,
)
from engramlog.projections.writing.writer import Writer
from engramlog.replay.snapshots import PassedOver, Snapshots

PAGE_EVENTS = 10_000
PAGE_BYTES = 16 * 1024 * 1024
"""Events of usual size fill a page: each of its indexes is then written in order less often."""
_log = logging.getLogger(__name__)
Progress = Callable[[int, int], None]
"""Called with (events done, all events)."""


class ProjectorHalted(Exception):
    """A projector cannot apply an event, so its rows cannot be rebuilt."""


class DigestMismatch(Exception):
    """Green differs from blue although the projectors are the same; blue stays in use."""

    def __init__(self, tables: list[str]) -> None:
        super().__init__(
            f"rebuilt tables differ from those in use: {', '.join(tables)}. If 'engramlog replay "
            "verify' finds no fault, those in use are wrong: stop the node, remove projections.db "
            "from its directory, and start it"
        )
        self.tables = tables


class RebuildReport(Struct, frozen=True):
    """The outcome of a rebuild.

    Attributes:
        events: applied, after the snapshot that it started from.
        compared: False if projector versions changed.
        snapshot: the snapshot's position, 0 if it began at the first event.
        passed_over: snapshots that it could not start from.
    """

    events: int
    seconds: float
    position: int
    digest: str
    compared: bool
    snapshot: int = 0
    passed_over: list[PassedOver] = []


class Green(Struct, frozen=True):
    """A complete file of tables; ``snapshot`` as in ``RebuildReport``."""

    path: Path
    events: int
    digests: TableDigests
    snapshot: int
    passed_over: list[PassedOver]

    def report(self, seconds: float, *, compared: bool) -> RebuildReport:
        return RebuildReport(
            self.events,
            seconds,
            self.digests.position,
            self.digests.local,
            compared,
            self.snapshot,
            self.passed_over,
        )


def replay_into(
    store: ProjectionStore,
    log: EventLog,
    until: int,
    progress: Progress | None = None,
    *,
    tolerant: bool = False,
    applied: Callable[[Sequence[Recorded]], None] = lambda _: None,
) -> int:
    """Apply everything after the store's position up to ``until``; returns how many events.
    ``applied``: called with each page. Raises ProjectorHalted: a projector cannot apply an event,
    unless ``tolerant``."""
    done, at = 0, store.position
    total = until - at
    if progress is not None and total > 0:
        progress(0, total)  # rates count from here
    while at < until and (page := log.read(at, min(PAGE_EVENTS, until - at), None, PAGE_BYTES)):
        with store.db:
            store.apply(page)
        applied(page)
        at = page[-1].position
        done += len(page)
        if progress is not None:
            progress(done, total)
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
    snapshots: Snapshots | None = None,
    path: Path | None = None,
) -> Green:
    """A complete file of tables at ``until``, synced to disk: the next generation, or ``path``.
    Raises UnknownKind: at a local event that this release cannot read. ProjectorHalted: a projector
    cannot be rebuilt, unless ``tolerant``. In both cases the unfinished file is removed."""
    path = path or new_generation(link)
    try:
        start, passed = (None, []) if snapshots is None else snapshots.copy_newest(path, log, until)
        for each in passed:
            _log.warning("snapshot %s is passed over: %s", each.position, each.reason)
        with closing(ProjectionStore(link, path, bulk=True, history=log)) as store:
            events = replay_into(store, log, until, progress, tolerant=tolerant)
            if start is None:  # a snapshot has its indexes
                store.finish_bulk()
            digests = digest_tables(store.db)
        sync_file(path)
    except BaseException:
        remove_database(path)
        raise
    return Green(path, events, digests, 0 if start is None else start.position, passed)


def rebuild_serving(
    link: Path,
    log: EventLog,
    writer: Writer,
    progress: Progress | None,
    swapped: Callable[[], None],
    snapshots: Snapshots | None,
) -> RebuildReport:
    """Build green while blue serves reads and writes, then swap between two groups.

    Blue is compared at the position of a read snapshot from the start, so writes continue; damaged
    files cannot be compared. The writer then closes the last gap and switches to green; ``swapped``
    is called before its first write there, so that no reader continues with blue. Raises
    DigestMismatch: green differs from blue. WriterBusy, WriterClosed, ProjectorHalted: green cannot
    take over. In all cases green is removed and blue stays in use.
    """
    began = monotonic()
    damaged = False
    try:
        writer.image.tail.settle()
    except TablesDamaged:
        damaged = True
    with ExitStack() as opened:
        blue = _opened(writer.store.path)
        if blue is None:
            damaged, until = True, log.head().position
        else:
            opened.callback(blue.close)
            until = tables_position(blue)

        def build(start: Snapshots | None) -> tuple[Green, list[str] | None]:
            green = build_green(link, log, until, progress, snapshots=start)
            try:
                if damaged or blue is None:
                    return green, None
                return green, _differing(blue, green, log)
            except BaseException:
                remove_database(green.path)
                raise

        green, wrong = build(snapshots)
        if wrong and green.snapshot:
            reason = f"tables rebuilt from it differ from those in use: {', '.join(wrong)}"
            _log.warning("snapshot %s is passed over: %s", green.snapshot, reason)
            passed = [*green.passed_over, PassedOver(green.snapshot, reason)]
            remove_database(green.path)
            green, wrong = build(None)
            green = replace(green, passed_over=passed)
        if wrong:
            remove_database(green.path)
            raise DigestMismatch(wrong)
    _take_over(link, green.path, log, writer, swapped, settled=not damaged)
    return green.report(monotonic() - began, compared=wrong is not None)


def rewrite_serving(link: Path, log: EventLog, writer: Writer, swapped: Callable[[], None]) -> None:
    """Swap a copy of the tables in that holds nothing of deleted rows, while blue serves reads and
    writes; ``swapped`` as in ``rebuild_serving``. Raises StorageError, WriterBusy, WriterClosed:
    blue stays in use. So it does while a projector is halted, which erases nothing."""
    writer.image.tail.settle()
    for name, why in writer.store.halted.items():
        raise StorageFailed(f"projector {name} is halted, its rows are not erased: {why}")
    green = _clean_copy(link, writer.store.path)
    _take_over(link, green, log, writer, swapped, settled=True)


def remove_replaced(writer: Writer) -> None:
    """Remove the files of earlier tables, also those that could not be removed before."""
    for path in sorted(writer.replaced):
        remove_database(path)
        writer.replaced.discard(path)


def _clean_copy(link: Path, tables: Path) -> Path:
    """A new generation with the same rows, and nothing of deleted ones; synced to disk."""
    green = new_generation(link)
    try:
        write_clean(tables, green)
        sync_file(green)
    except BaseException:
        remove_database(green)
        raise
    return green


def _opened(tables: Path) -> apsw.Connection | None:
    """The tables of one moment; None if no new connection can read the file."""
    if not tables.exists():
        return None
    try:
        return open_fixed(tables)
    except DAMAGED as fault:
        _log.warning("the tables in %s are damaged and made again: %s", tables, fault)
        return None


def _differing(blue: apsw.Connection, green: Green, log: EventLog) -> list[str] | None:
    """The tables that differ from blue's; None if they cannot be compared."""
    # Text erased meanwhile is gone from the log, but still in the read snapshot.
    if any(event.kind == "fact_erased" for event in log.iterate(green.digests.position)):
        return None
    try:
        state = file_state(blue)
        if state.halted or other_versions(state.versions):
            return None
        if state.position != green.digests.position:
            return None
        return differing_tables(blue, green.path)
    except DAMAGED as fault:
        _log.warning("the tables in use are damaged and made again: %s", fault)
        return None


def _take_over(
    link: Path,
    path: Path,
    log: EventLog,
    writer: Writer,
    swapped: Callable[[], None],
    *,
    settled: bool,
) -> None:
    """Bring green tables up to the log, let the writer continue with them, and remove blue. If that
    fails, blue stays in use and green is removed. ``settled``: whether the writer first writes what
    waits for blue."""
    try:
        store = ProjectionStore(link, path, history=log)
    except BaseException:
        remove_database(path)
        raise

    def swap() -> None:
        replay_into(store, log, log.head().position)
        try:
            point_link(link, path)
            writer.replace_store(store)
        except BaseException:
            with suppress(OSError):  # it moves before its folder is synced
                point_link(link, writer.store.path)
            raise
        swapped()

    try:
        replay_into(store, log, log.head().position)
        writer.exclusive(swap, settled=settled).result()
        remove_replaced(writer)
    except BaseException:
        if writer.store is not store:
            store.close()
            remove_database(path)
        raise
