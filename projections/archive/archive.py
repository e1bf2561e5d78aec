"""A node's archive: sealed segments, the unsealed tail, and their upkeep.

``archive/manifest.json`` lists every sealed file with its checksum; unlisted files do not count. A
missing, truncated or altered file is detected before it is read, logged, and written again from the
events.
"""

import logging
import shutil
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from engramlog.eventlog.directory import HeldDirectory
from engramlog.eventlog.durable_file import replace
from engramlog.eventlog.event import Stored
from engramlog.eventlog.log import ReadableLog, within
from engramlog.projections.archive.duck import file_errors
from engramlog.projections.archive.segments import (
    Segment,
    Tip,
    segment_fault,
    write_parquet,
    write_segment,
)

SEGMENT_EVENTS = 65_536
TAIL_CHUNK_EVENTS = 4_096
FILE_BYTES_MAX = 64 * 1024 * 1024
"""Headers and payloads in one file: writing it takes up to ten times as much memory."""
FOLDER = "archive"
MANIFEST = "manifest.json"
TAIL_FOLDER = "tail"
EXTRACTS_FOLDER = "extracts"
_PAGE_EVENTS = 256

_log = logging.getLogger(__name__)


class ArchiveManifest(Struct, frozen=True):
    """The sealed segments, without a gap from position 1."""

    format: int = 1
    segments: tuple[Segment, ...] = ()

    @property
    def last(self) -> int:
        """The last sealed position."""
        return self.segments[-1].last if self.segments else 0

    @property
    def tips(self) -> dict[str, Tip]:
        """The state of every stream at ``last``."""
        return self.segments[-1].tips if self.segments else {}


class _Chunk(Struct, frozen=True):
    """A file of unsealed events; no event joins a ``full`` one."""

    first: int
    last: int
    path: Path
    full: bool


class Archive:
    """The archive of one log. Safe from several threads; one works at a time."""

    def __init__(
        self, data: HeldDirectory, log: ReadableLog, *, segment_events: int = SEGMENT_EVENTS
    ) -> None:
        self._folder = data.path / FOLDER
        self._tail_folder = self._folder / TAIL_FOLDER
        self._log = log
        self._segment_events = segment_events
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._readers = 0
        self._erased: set[int] = set()
        self._noted: list[Callable[[], Iterable[int]]] = []
        self._left: list[Path] = []
        """Replaced files of the tail that a reader may still hold."""
        self._checked: dict[str, tuple[int, int, int]] = {}
        self._tail: list[_Chunk] = []
        self._folder.mkdir(mode=0o700, exist_ok=True)
        # An earlier process's tail may be of another log, and its extracts of a killed statement.
        for folder in (self._tail_folder, self.extracts_folder):
            if folder.exists():
                shutil.rmtree(folder)
        self._tail_folder.mkdir(mode=0o700)
        self._manifest = self._read_manifest()
        self._remove_unlisted_files()

    @property
    def extracts_folder(self) -> Path:
        """A place for files made from the archive, for their owner to create and remove: here
        neither a killed process nor a cleaner of temporary files leaves parts of them."""
        return self._folder.absolute() / EXTRACTS_FOLDER

    @property
    def sealed(self) -> int:
        """The last sealed position."""
        return self._manifest.last

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self._manifest.segments

    def seal(self) -> int:
        """Seal every full segment; returns how many were sealed. Raises CorruptLog: an event does
        not continue its stream; its segment is not sealed."""
        count = 0
        while self.seal_next():
            count += 1
        return count

    def seal_next(self) -> bool:
        """Seal the next segment if it is full; returns whether it was. Raises as ``seal``."""
        with self._lock:
            return self._seal_next()

    def check(self) -> list[str]:
        """Check every sealed file and rewrite damaged ones; returns the faults."""
        with self._lock:
            return self._check_and_repair()

    @contextmanager
    def reading(self, position: int) -> Generator[list[Path]]:
        """Files that together hold every event up to ``position``, each once; they may hold later
        ones: filter by position. They stay in place until the block ends. Read quickly: an erasure
        waits for the end. Raises StorageFull, StorageFailed: events that are not sealed yet need a
        file."""
        with self._lock, file_errors("the archive"):
            self._rewrite_erased()
            while self._seal_next():
                pass
            self._check_and_repair()
            files = [self._folder / each.name for each in self._manifest.segments]
            wanted = max(position, 1)  # DuckDB reads no empty list of files
            if wanted > self._manifest.last:
                self._extend_tail(wanted)
                files += [chunk.path for chunk in self._tail if chunk.first <= wanted]
            self._readers += 1
        try:
            yield files
        finally:
            with self._lock:
                self._readers -= 1
                if not self._readers:
                    self._remove_unread()
                    self._idle.notify_all()

    def rewrite(self, positions: Iterable[int]) -> None:
        """Rewrite the files with these positions, because payloads were erased."""
        with self._lock:
            self._erased.update(positions)
            self._rewrite_erased()

    def note_erased(self, positions: Callable[[], Iterable[int]]) -> None:
        """Stop serving files with these positions until they are rewritten. The next reader calls
        ``positions``, and reads nothing if that fails."""
        self._noted.append(positions)

    def _learn_erased(self) -> None:
        while self._noted:
            self._erased.update(self._noted[0]())
            del self._noted[0]

    def _rewrite_erased(self) -> None:
        self._learn_erased()
        while self._erased and self._readers:
            self._idle.wait()
            self._learn_erased()
        wanted = set(self._erased)
        if not wanted:
            return
        for segment in self._manifest.segments:
            if any(segment.first <= position <= segment.last for position in wanted):
                self._write_again(segment)
        self._drop_tail()
        self._erased -= wanted

    def _seal_next(self) -> bool:
        """Seal the events of a segment: as one file, or as several if they are large."""
        last = self._manifest.last + self._segment_events
        if self._log.head().position < last:
            return False
        while self._manifest.last < last:
            events = self._events(self._manifest.last + 1, last, FILE_BYTES_MAX)
            sealed = write_segment(self._folder, events, self._manifest.tips)
            self._record((*self._manifest.segments, sealed))
        self._drop_tail()
        return True

    def _events(self, first: int, last: int, bytes_max: int | None = None) -> list[Stored]:
        """The first event, and those up to ``last`` that together fit into ``bytes_max``."""
        return within(self._pages(first, last), bytes_max)

    def _pages(self, first: int, last: int) -> Iterator[Stored]:
        after = first - 1
        while after < last:
            page = self._log.read_stored(after, min(_PAGE_EVENTS, last - after))
            if not page:
                return
            yield from page
            after = page[-1].position

    def _record(self, segments: tuple[Segment, ...]) -> None:
        manifest = ArchiveManifest(segments=segments)
        replace(self._folder / MANIFEST, msgspec.json.encode(manifest))
        self._manifest = manifest

    def _check_and_repair(self) -> list[str]:
        faults: list[str] = []
        for segment in self._manifest.segments:
            fault = self._fault(segment)
            if fault is not None:
                faults.append(fault)
                _log.warning("archive: %s; it is written again from the log", fault)
                self._write_again(segment)
        return faults

    def _fault(self, segment: Segment) -> str | None:
        """A file's fault, if any; a checked file is read again once its size or times change."""
        path = self._folder / segment.name
        try:
            found = path.stat()
        except FileNotFoundError:
            return f"{segment.name} is missing"
        mark = (found.st_ino, found.st_size, found.st_mtime_ns)
        if self._checked.get(segment.name) == mark:
            return None
        fault = segment_fault(self._folder, segment)
        if fault is None:
            self._checked[segment.name] = mark
        return fault

    def _write_again(self, segment: Segment) -> None:
        self._checked.pop(segment.name, None)
        index = self._manifest.segments.index(segment)
        before = self._manifest.segments[index - 1].tips if index else {}
        written = write_segment(self._folder, self._events(segment.first, segment.last), before)
        segments = list(self._manifest.segments)
        segments[index] = written
        self._record(tuple(segments))

    def _extend_tail(self, position: int) -> None:
        """Write chunks of the unsealed tail up to ``position``; full chunks are kept."""
        if self._tail and not self._tail[-1].full:
            if self._tail[-1].last >= position:
                return
            self._remove_when_unread([self._tail.pop().path])
        reached = self._tail[-1].last if self._tail else self._manifest.last
        head = self._log.head().position
        while reached < position:
            last = min(reached + TAIL_CHUNK_EVENTS, head)
            events = self._events(reached + 1, last, FILE_BYTES_MAX)
            first, end = reached + 1, events[-1].position
            path = self._tail_folder / f"tail-{first:012d}-{end:012d}.parquet"
            write_parquet(path, events)
            full = end < last or end - reached == TAIL_CHUNK_EVENTS
            self._tail.append(_Chunk(first, end, path, full))
            reached = end

    def _drop_tail(self) -> None:
        self._remove_when_unread([chunk.path for chunk in self._tail])
        self._tail = []

    def _remove_when_unread(self, files: list[Path]) -> None:
        """Remove files once their last reader is done."""
        self._left += files
        if not self._readers:
            self._remove_unread()

    def _remove_unread(self) -> None:
        for path in self._left:
            path.unlink(missing_ok=True)
        self._left = []

    def _read_manifest(self) -> ArchiveManifest:
        path = self._folder / MANIFEST
        try:
            found = msgspec.json.decode(path.read_bytes(), type=ArchiveManifest)
        except FileNotFoundError:
            return ArchiveManifest()
        except ValueError as fault:
            _log.warning("archive: %s cannot be read (%s); sealing again", path.name, fault)
            return ArchiveManifest()
        reason = self._manifest_fault(found)
        if reason is not None:
            _log.warning("archive: %s; sealing again", reason)
            return ArchiveManifest()
        return found

    def _manifest_fault(self, manifest: ArchiveManifest) -> str | None:
        expected = 1
        for segment in manifest.segments:
            if segment.first != expected or segment.last < segment.first:
                return f"the manifest has a gap before {segment.name}"
            expected = segment.last + 1
        if manifest.last > self._log.head().position:
            return "the manifest reaches beyond the log's end"
        if manifest.segments:
            last = [each.hash.hex() for each in self._log.read_stored(manifest.last - 1, 1)]
            if not any(tip.hash in last for tip in manifest.tips.values()):
                return "the manifest is of another log"
        return None

    def _remove_unlisted_files(self) -> None:
        """Remove files that a crash left behind."""
        known = {MANIFEST, TAIL_FOLDER, *(each.name for each in self._manifest.segments)}
        for path in self._folder.iterdir():
            if path.name not in known and path.is_file():
                path.unlink()
