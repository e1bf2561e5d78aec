"""Opens the tables: brings those in use up to the log's head, or makes them again."""

import logging
from contextlib import closing
from pathlib import Path

import apsw

from engramlog.eventlog.directory import HeldDirectory
from engramlog.eventlog.log import EventLog, holds_event
from engramlog.projections.image.files import ImageFiles, KeptImages
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.tables.database import open_reader, remove_database
from engramlog.projections.tables.file_state import file_state, newly_known
from engramlog.projections.tables.storage_faults import DAMAGED
from engramlog.projections.tables.store import (
    ProjectionStore,
    current_generation,
    generations,
    new_generation,
    other_generations,
    point_link,
    stray_side_files,
)
from engramlog.replay.rebuild import Progress, build_green, replay_into
from engramlog.replay.snapshots import Snapshots

PAGE_EVENTS = 2_000

_log = logging.getLogger(__name__)


def open_tables(
    link: Path,
    log: EventLog,
    progress: Progress | None,
    snapshots: Snapshots,
    images: ImageFiles,
) -> tuple[ProjectionStore, MemoryImage]:
    """The projections file at the log's head, and its memory image. Damaged tables are made again:
    they are a view of the log. ``snapshots``: a faster source for new tables. ``images``: a source
    for the memory image in place of the tables."""
    for attempt in (1, 2):
        store: ProjectionStore | None = None
        try:
            _restore_link(link)
            before = current_generation(link)
            store = _open_store(link, log, progress, snapshots)
            if store.path != before:
                images.discard()  # they may repeat what was wrong in the earlier tables
            _remove_leftovers(link)
            return store, _open_image(store, log, images)
        except DAMAGED as fault:
            if store is not None:
                store.close()
            damaged = current_generation(link)
            if attempt == 2 or damaged is None:
                raise
            _log.warning("the tables in %s are damaged and made again: %s", damaged, fault)
            link.unlink()
            remove_database(damaged)
    raise AssertionError("unreachable")


def _open_image(store: ProjectionStore, log: EventLog, images: ImageFiles) -> MemoryImage:
    """The image at the tables' position; for halted tables it includes the events they lack."""
    image = None if store.halted else images.restored(log)
    if image is None:
        if images.position and not store.halted:
            images.discard()  # it would count as written, so that every start loaded the tables
        image = MemoryImage()
        image.load(store.db, store.position)
    while image.position < store.position:
        page = log.read(image.position, min(PAGE_EVENTS, store.position - image.position))
        image.apply(page, page[-1].position)
    return image


def _open_store(
    link: Path, log: EventLog, progress: Progress | None, snapshots: Snapshots
) -> ProjectionStore:
    """The projections file at the log's head: caught up, or rebuilt if necessary. A projector may
    halt: ``/readyz`` reports it, and the node serves the rest."""
    old = current_generation(link)
    if old is not None and (store := _open_usable(link, log, progress)) is not None:
        return store
    if old is None and not log.head().position:
        return ProjectionStore(link, history=log)  # empty tables: nothing to load or to compare
    head = log.head().position
    green = build_green(link, log, head, progress, tolerant=True, snapshots=snapshots)
    point_link(link, green.path)
    if old is not None:
        remove_database(old)
    return ProjectionStore(link, history=log)


def _open_usable(link: Path, log: EventLog, progress: Progress | None) -> ProjectionStore | None:
    """The file in use, caught up; None if it must be made again."""
    store = ProjectionStore(link, history=log)
    try:
        reason = _rebuild_reason(store, log)
        if reason is None:
            replay_into(store, log, log.head().position, progress, tolerant=True)
            return store
        _log.warning("the tables are made again: %s", reason)
    except BaseException:
        store.close()
        raise
    store.close()
    return None


def _rebuild_reason(store: ProjectionStore, log: EventLog) -> str | None:
    """Why the tables must be made again, or None."""
    if store.outdated:
        return f"this release has other versions of {', '.join(store.outdated)}"
    if store.halted:
        name, why = next(iter(sorted(store.halted.items())))
        return f"projector {name} is halted: {why}"
    if not belongs_to(store, log):
        return "they were made from another log"
    return newly_known(store.db)


def views_reach(data: HeldDirectory) -> int:
    """The position that the log of a directory had, by its tables and its image file; 0 without
    readable ones. Both follow the log's commits."""
    return max(KeptImages(data.path).position, tables_end(data)[0])


def tables_end(data: HeldDirectory) -> tuple[int, bytes]:
    """Position and hash of the last event in a directory's tables; 0 without readable ones."""
    path = current_generation(data.projections_path)
    if path is None:
        return 0, b""
    try:
        with closing(open_reader(path)) as db:
            state = file_state(db)
    except apsw.Error:
        return 0, b""
    return state.position, state.hash


def belongs_to(store: ProjectionStore, log: EventLog) -> bool:
    """Whether the file was built from this log, and not from one with another history."""
    mark = store.log_mark
    if mark is None:
        return store.position == 0
    return holds_event(log, *mark)


def _restore_link(link: Path) -> None:
    """Make a link of tables that stand in its place: the directory is a copy that followed links.
    Their write-ahead log has the name of the generation."""
    if link.is_symlink() or not link.exists():
        return
    copied = generations(link)
    path = copied[-1] if copied else link.replace(new_generation(link))
    remove_database(link)
    point_link(link, path)


def _remove_leftovers(link: Path) -> None:
    """Generations that a rebuild left unfinished, or did not remove."""
    for path in other_generations(link):
        remove_database(path)
    for path in stray_side_files(link):
        path.unlink(missing_ok=True)
