"""A scratch node at a moment, for what-if questions.

It has its own tables in its own folder: a copy of the node's for the present, else replayed from
the log's start, which takes time and space, so the caller limits it. Its writer decides, appends
and projects like the node's, over a log that keeps new events in memory. Nothing of the node is
written.
"""

from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
from msgspec import Struct

from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.engines.memory_log import MemoryLog
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.log import EventLog, Head, StreamHead
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.image.reader import Reader
from engramlog.projections.tables.database import open_fixed, tables_position
from engramlog.projections.tables.store import ProjectionStore, new_generation, point_link
from engramlog.projections.writing.writer import Writer
from engramlog.replay.rebuild import replay_into

LINK = "projections.db"


class Scratch(Struct, frozen=True):
    """The parts of a scratch node; ``position`` is the end of its past."""

    position: int
    log: MemoryLog
    reader: Reader
    writer: Writer
    clock: FixedClock


@contextmanager
def scratch_at(
    log: EventLog,
    tables: Path,
    folder: Path,
    position: int | None,
    instant_us: int,
) -> Generator[Scratch]:
    """A scratch node with events 1 to ``position`` of a present log; None for all events in the
    tables.

    Args:
        log: the node's; only read.
        tables: the node's projections; copied if they are at the position.
        folder: an empty folder; the caller removes it.
        instant_us: the scratch node's clock.

    Raises:
        UnknownKind: as a rebuild.
    """
    link = folder / LINK
    path = new_generation(link)
    found = _copy_tables(tables, path, position)
    if found is not None:
        position, heads = found, _heads_at(log, found)
    else:
        assert position is not None
        heads = _replay_tables(log, link, path, position)
    point_link(link, path)
    clock = FixedClock(instant_us)
    own_log = MemoryLog.over(log, _head(log, position), heads, clock)
    store = ProjectionStore(link, path, history=own_log)
    image = MemoryImage()
    image.load(store.db, store.position)
    reader = Reader(link, image, own_log)
    writer = Writer(own_log, store, image, clock, reader.committed)
    writer.start()
    try:
        yield Scratch(position, own_log, reader, writer, clock)
    finally:
        writer.close()
        reader.close()
        store.close()
        own_log.close()


def _copy_tables(tables: Path, path: Path, position: int | None) -> int | None:
    """Copy the node's tables if they are at the position; returns their position."""
    with closing(open_fixed(tables)) as source:
        found = tables_position(source)
        if position is not None and found != position:
            return None
        with (
            closing(apsw.Connection(str(path))) as target,
            target.backup("main", source, "main") as backup,
        ):
            backup.step()
    return found


def _heads_at(log: EventLog, position: int) -> dict[str, StreamHead]:
    """The state of every stream at a position shortly before the log's end."""
    heads = log.stream_heads()
    since: dict[str, StreamHead] = {}
    for event in log.iterate(position):
        since.setdefault(event.header.stream, _head_before(event))
    return heads | since


def _head_before(event: Recorded) -> StreamHead:
    header = event.header
    return StreamHead(header.stream, header.stream_seq - 1, header.prev_hash)


def _replay_tables(log: EventLog, link: Path, path: Path, position: int) -> dict[str, StreamHead]:
    """Make the tables of a position from the log; returns the state of every stream there."""
    heads: dict[str, StreamHead] = {}

    def note_heads(page: Sequence[Recorded]) -> None:
        for event in page:
            header = event.header
            heads[header.stream] = StreamHead(header.stream, header.stream_seq, event.hash)

    with closing(ProjectionStore(link, path, bulk=True, history=log)) as store:
        replay_into(store, log, position, tolerant=True, applied=note_heads)
        store.finish_bulk()
    return heads


def _head(log: EventLog, position: int) -> Head:
    if position == 0:
        return Head()
    (last,) = log.read(position - 1, 1)
    return Head(position, last.received_at, last.received_hlc)
