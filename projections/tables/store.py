"""The projections file: schema, checkpoints, and applying events to every projector.

One transaction moves all projectors' rows and checkpoints. ``projections.db`` is a symbolic link to
the current generation, so a rebuilt file is swapped in atomically.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain
from operator import attrgetter
from pathlib import Path

import apsw
from msgspec import Struct

from engramlog.eventlog.durable_file import sync_folder
from engramlog.eventlog.errors import StorageError, UnknownKind
from engramlog.eventlog.event import Recorded, UnknownPayload
from engramlog.eventlog.kinds import FactErased
from engramlog.eventlog.log import ReadableLog
from engramlog.projections.tables.database import SIDE_FILES, open_writer, query, query_one
from engramlog.projections.tables.erasing import Erased, Refolding, erased_by
from engramlog.projections.tables.file_state import other_versions
from engramlog.projections.tables.peers.protocol_facts import admitted, note_copies, stands_in
from engramlog.projections.tables.peers.refused_events import meaning, refused_in
from engramlog.projections.tables.peers.remote_retractions import REMOTE_ENDS, is_remote_end
from engramlog.projections.tables.projector import Projector
from engramlog.projections.tables.registry import KNOWN_KINDS, PROJECTORS
from engramlog.projections.tables.storage_faults import MACHINE_FAULTS, storage_errors

_position = attrgetter("position")
_CHECKPOINTS = """
CREATE TABLE checkpoints (
    projector TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    position INTEGER NOT NULL,
    halted TEXT
) STRICT;
CREATE TABLE log_mark (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    position INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;
CREATE TABLE unknown_events (
    position INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    schema_version INTEGER NOT NULL
) STRICT;
"""

NO_FAULTS_OF_EVENTS = (*MACHINE_FAULTS, StorageError)
"""What halts no projector: the tables cannot be written now, or the log's server is away."""


@cache
def empty_tables(*, bulk: bool) -> bytes:
    """A file with every table and no row, made once in a process: a copy takes a fifth of the time.
    ``bulk``: without late indexes."""
    db = apsw.Connection(":memory:")
    db.execute(_CHECKPOINTS)
    for projector in PROJECTORS:
        db.execute(projector.schema)
        if not bulk:
            db.execute(projector.late_indexes)
    image = db.serialize("main")
    db.close()
    return image


class Checkpoint(Struct, frozen=True):
    """A projector's position; ``halted`` gives the reason if it stopped."""

    projector: str
    version: int
    position: int
    halted: str | None


class ProjectionStore:
    """One projections file, open for writing by its one writer.

    Args:
        link: the public path of the file (``projections.db``).
        path: the generation to open; by default the link's target.
        bulk: no durability and late indexes; call ``finish_bulk`` when complete.
        history: the log of the events; erasures read the state before them from it.

    ``checkpoints``: every projector's, by name.
    """

    def __init__(
        self,
        link: Path,
        path: Path | None = None,
        *,
        bulk: bool = False,
        history: ReadableLog | None = None,
    ) -> None:
        self.history = history
        self.path = path or current_generation(link) or new_generation(link)
        self._bulk = bulk
        self.db = open_writer(self.path, bulk=bulk)
        self._create()
        if path is None and current_generation(link) != self.path:
            point_link(link, self.path)
        self.checkpoints = self._load()
        self._before = self.checkpoints

    def _create(self) -> None:
        if self.db.execute("SELECT 1 FROM sqlite_master WHERE name='checkpoints'").fetchone():
            return
        empty = apsw.Connection(":memory:")
        empty.deserialize("main", empty_tables(bulk=self._bulk))
        empty.executemany(
            "INSERT INTO checkpoints VALUES (?,?,0,NULL)",
            [(projector.name, projector.version) for projector in PROJECTORS],
        )
        with self.db.backup("main", empty, "main") as copying:
            copying.step()
        empty.close()

    def _load(self) -> dict[str, Checkpoint]:
        rows = query(self.db, "SELECT projector, version, position, halted FROM checkpoints")
        return {row[0]: Checkpoint(*row) for row in rows}

    def finish_bulk(self) -> None:
        """Create the late indexes of a bulk-loaded file."""
        with self.db:
            for projector in PROJECTORS:
                self.db.execute(projector.late_indexes)

    @property
    def position(self) -> int:
        """The position all running projectors have reached."""
        running = [mark.position for mark in self.checkpoints.values() if mark.halted is None]
        return min(running, default=0)

    @property
    def log_mark(self) -> tuple[int, bytes] | None:
        """Position and hash of the last event applied: whether this file belongs to a log."""
        return query_one(self.db, "SELECT position, hash FROM log_mark")

    @property
    def halted(self) -> dict[str, str]:
        """Projectors that stopped at a poison event, with the reason."""
        return {m.projector: m.halted for m in self.checkpoints.values() if m.halted is not None}

    @property
    def outdated(self) -> list[str]:
        """Projectors whose rows another version made, and projectors that are new or removed."""
        return other_versions({name: mark.version for name, mark in self.checkpoints.items()})

    def apply(self, events: Sequence[Recorded]) -> None:
        """Apply events to every projector inside the caller's transaction. A projector that raises
        is halted at its last good position with the reason, and its rows of these events are
        undone. The others continue. Raises UnknownKind: a later release wrote an event of this log;
        without it, a revoked key would still open the node."""
        start = 0
        for index, event in enumerate(events):
            if isinstance(event.payload, FactErased) and event.peer is None:
                self._apply(events[start:index])
                self._erase(event)
                self._apply([event])  # alone: the events after it read what it erased
                start = index + 1
        self._apply(events[start:])

    def _erase(self, event: Recorded) -> None:
        """Remove from every projector's rows what an erasure names."""
        erased = erased_by(event, self.db, self.history)
        for projector in PROJECTORS:
            mark = self.checkpoints[projector.name]
            if mark.halted is not None or mark.position >= event.position:
                continue
            if projector.erasing:
                self._run_guarded(projector, [event], partial(_delete, projector, erased))
            if isinstance(projector, Refolding) and erased.touched:
                self._run_guarded(projector, [event], partial(projector.refold, erased))

    def _apply(self, events: Sequence[Recorded]) -> None:
        """Give every projector the events that it reads and has not applied, and move the
        checkpoints of those that are not halted."""
        if not events:
            return
        self._note_unknown(events)
        meant = meaning(events, refused_in(self.db))
        kept = admitted(meant, stands_in(self.db))
        if len(kept) < len(meant):
            note_copies(meant, kept, self.db)
        readable = [
            event
            for event in kept
            if event.payload is not None and type(event.payload) is not UnknownPayload
        ]
        own = [event for event in readable if event.peer is None or not is_remote_end(event)]
        of_all = _by_kind(readable)
        of_own = of_all if len(own) == len(readable) else _by_kind(own)
        last = events[-1].position
        work: list[tuple[Projector, list[Recorded]]] = []
        for projector in PROJECTORS:
            mark = self.checkpoints[projector.name]
            if mark.halted is None:
                by_kind = of_all if projector.name in REMOTE_ENDS else of_own
                work.append((projector, _unapplied(projector, by_kind, mark.position)))
        self._apply_each([(projector, wanted) for projector, wanted in work if wanted])
        self.db.execute(
            "UPDATE checkpoints SET position=? WHERE halted IS NULL AND position<?", (last, last)
        )
        self.db.execute("INSERT OR REPLACE INTO log_mark VALUES (1,?,?)", (last, events[-1].hash))
        self.checkpoints = {
            name: mark
            if mark.halted is not None or mark.position >= last
            else Checkpoint(name, mark.version, last, None)
            for name, mark in self.checkpoints.items()
        }

    def _apply_each(self, work: Sequence[tuple[Projector, list[Recorded]]]) -> None:
        """Let each projector write. They share a savepoint; if one fails, each gets its own."""
        self.db.execute("SAVEPOINT projectors")
        try:
            for projector, events in work:
                projector.apply(events, self.db)
        except NO_FAULTS_OF_EVENTS:
            raise
        except Exception:
            self.db.execute("ROLLBACK TO projectors; RELEASE projectors")
            for projector, events in work:
                self._run_guarded(projector, events, partial(projector.apply, events))
        else:
            self.db.execute("RELEASE projectors")

    def _run_guarded(
        self,
        projector: Projector,
        events: Sequence[Recorded],
        work: Callable[[apsw.Connection], None],
    ) -> None:
        """Let a projector write. If it fails, halt it and undo its writes."""
        self.db.execute("SAVEPOINT projector")
        try:
            work(self.db)
        except NO_FAULTS_OF_EVENTS:
            raise
        except Exception as fault:
            self.db.execute("ROLLBACK TO projector; RELEASE projector")
            mark = self.checkpoints[projector.name]
            reason = f"{type(fault).__name__} at positions {events[0].position}"
            reason = f"{reason}-{events[-1].position}: {fault}"
            halted = Checkpoint(mark.projector, mark.version, mark.position, reason)
            self.checkpoints = {**self.checkpoints, projector.name: halted}
            self.db.execute(
                "UPDATE checkpoints SET halted=? WHERE projector=?", (reason, projector.name)
            )
        else:
            self.db.execute("RELEASE projector")

    def _note_unknown(self, events: Sequence[Recorded]) -> None:
        """Note peers' events that this release cannot read. Raises UnknownKind: one of this node's
        own is of a later release."""
        shapes = {(event.header.kind, type(event.payload)) for event in events}
        if all(kind in KNOWN_KINDS and shape is not UnknownPayload for kind, shape in shapes):
            return
        for event in events:
            if event.header.kind in KNOWN_KINDS and type(event.payload) is not UnknownPayload:
                continue
            if event.peer is None:
                header = event.header
                raise UnknownKind(
                    f"position {event.position}: kind {header.kind!r} version"
                    f" {header.schema_version} is of a later release: upgrade this one"
                )
            self.db.execute(
                "INSERT OR IGNORE INTO unknown_events VALUES (?,?,?)",
                (event.position, event.header.kind, event.header.schema_version),
            )

    def begin(self) -> None:
        """Open a transaction for ``apply``. Raises StorageError."""
        with storage_errors():
            self.db.execute("BEGIN IMMEDIATE")
        self._before = self.checkpoints

    def commit(self) -> None:
        """Commit what was applied. Raises StorageError; the caller then rolls back."""
        with storage_errors():
            self.db.execute("COMMIT")

    def rollback(self) -> None:
        """Undo everything since ``begin``, without a request to a failing disk. Does nothing if no
        transaction is open, or if SQLite rolled back itself. Raises StorageError if the connection
        cannot leave the transaction."""
        if self.db.in_transaction:
            with storage_errors():
                self.db.execute("ROLLBACK")
        self.checkpoints = self._before

    def close(self) -> None:
        self.db.close()


def _delete(projector: Projector, erased: Erased, db: apsw.Connection) -> None:
    for statement in projector.erasing:
        names = {name: text for name, text in erased.bindings.items() if f":{name}" in statement}
        db.execute(statement, names)


def _by_kind(events: list[Recorded]) -> dict[str, list[Recorded]]:
    """Events by kind, each in log order."""
    by_kind: dict[str, list[Recorded]] = {}
    for event in events:
        by_kind.setdefault(event.header.kind, []).append(event)
    return by_kind


def _unapplied(
    projector: Projector, by_kind: dict[str, list[Recorded]], position: int
) -> list[Recorded]:
    """The events that a projector reads and has not applied yet."""
    lists = [by_kind[kind] for kind in projector.kinds & by_kind.keys()]
    events = lists[0] if len(lists) == 1 else sorted(chain(*lists), key=_position)
    if events and events[0].position <= position:
        return [event for event in events if event.position > position]
    return events


def current_generation(link: Path) -> Path | None:
    """The link's target, or None if there is none yet."""
    return link.resolve() if link.exists() else None


def new_generation(link: Path) -> Path:
    """The next generation beside the link: an empty file, which keeps its name from others."""
    taken = [int(path.stem.rsplit("-", 1)[1]) for path in generations(link)]
    path = link.parent / f"{link.stem}-{max(taken, default=0) + 1:06d}.db"
    try:
        path.touch(0o644, exist_ok=False)
    except FileExistsError:  # taken since
        return new_generation(link)
    except OSError:  # SQLite will fail too, in words for it
        pass
    return path


def generations(link: Path) -> list[Path]:
    """Every generation file beside the link, oldest first."""
    return sorted(
        path
        for path in link.parent.glob(f"{link.stem}-*.db")
        if path.stem.rsplit("-", 1)[1].isdigit()
    )


def other_generations(link: Path) -> list[Path]:
    """Generation files beside the link's target: under construction, or left over."""
    current = current_generation(link)
    return [path for path in generations(link) if current is None or path.name != current.name]


def stray_side_files(link: Path) -> list[Path]:
    """Write-ahead logs and the like of generations that are gone: a process died between removing
    a generation and these, which hold rows of it."""
    named = re.compile(rf"({re.escape(link.stem)}-[0-9]+\.db)(?:{'|'.join(SIDE_FILES)})")
    found = ((path, named.fullmatch(path.name)) for path in link.parent.glob(f"{link.stem}-*"))
    return [path for path, name in found if name and not path.with_name(name[1]).exists()]


def point_link(link: Path, path: Path) -> None:
    """Point the link at a generation, atomically."""
    aside = link.with_suffix(".link")
    aside.unlink(missing_ok=True)
    aside.symlink_to(path.name)
    aside.replace(link)
    sync_folder(link.parent)


def unknown_events(db: apsw.Connection) -> list[tuple[str, int, int]]:
    """Events of kinds or versions that this release does not know: kind, version, count."""
    rows = query(
        db,
        "SELECT kind, schema_version, count(*) FROM unknown_events"
        " GROUP BY kind, schema_version ORDER BY kind, schema_version",
    )
    return [(str(kind), int(version), int(count)) for kind, version, count in rows]
