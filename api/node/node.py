"""A node: one open data directory with its log, projections, memory image and writer.

The composition root; the HTTP app, the CLI and the tests all open one of these.
"""

import logging
import os
import sys
import warnings
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from threading import Lock

import msgspec

from engramlog.api.answers.same_fields import shaped
from engramlog.api.node.log_place import Durability, open_log, settled_log, shared
from engramlog.api.node.own_stream import SYSTEM_ACTOR, EpochClock, OwnStream
from engramlog.api.node.reading_node import ReadingNode
from engramlog.eventlog.clock import Clock, SystemClock
from engramlog.eventlog.directory import HeldDirectory
from engramlog.eventlog.durable_file import replace
from engramlog.eventlog.kinds import EmbeddingModelPinned
from engramlog.eventlog.log import WholeLog
from engramlog.eventlog.struct_types import complete_struct_types
from engramlog.projections.embedding.choosing import follow_pin
from engramlog.projections.embedding.current import CurrentEmbeddings, ReindexReport
from engramlog.projections.embedding.current import Progress as IndexProgress
from engramlog.projections.embedding.errors import EmbeddingsOff
from engramlog.projections.embedding.recipe import Space
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.image.files import ImageFiles
from engramlog.projections.image.reader import Reader
from engramlog.projections.tables.declared.policies import set_valued_relations
from engramlog.projections.tables.digest import TableDigests
from engramlog.projections.tables.storage_faults import storage_errors
from engramlog.projections.writing.commands import Command, Done, Refused
from engramlog.projections.writing.writer import Writer
from engramlog.replay.kept_image import KeptImage
from engramlog.replay.opening import open_tables
from engramlog.replay.rebuild import Progress, RebuildReport, build_green, rebuild_serving
from engramlog.replay.replication.follower import LogSource, PrimaryFollower
from engramlog.replay.replication.state import end_state, load_state, save_state
from engramlog.replay.snapshot import Snapshot, SnapshotFault
from engramlog.replay.snapshots import Snapshots

CURSOR_KEY_BYTES = 32
CURSOR_CONTEXT = b"engramlog/cursor-key/1\n"

_log = logging.getLogger(__name__)


class NotAReplica(Exception):
    """This node is not a replica."""


class LogNotEmpty(Exception):
    """The request wants file times, but the log already holds events of the wall clock."""


class Node(ReadingNode):
    """See the module. Open with ``Node.open``; close when done."""

    def __init__(
        self,
        directory: HeldDirectory,
        log: WholeLog,
        writer: Writer,
        reader: Reader,
        clock: Clock,
        cursor_key: bytes,
    ) -> None:
        super().__init__(directory, log, reader, clock)
        self.follower: PrimaryFollower | None = None
        self.directory = directory
        self._whole = log
        self.shared = shared(log)
        self.writer = writer
        self.cursor_key = cursor_key
        self.snapshots = Snapshots(directory)
        self.kept_image = KeptImage(ImageFiles(directory.path), reader.image, writer, log)
        self._closing = Lock()
        self._process = os.getpid()
        self._unclosed = deque(
            (
                self._stop_following,
                self._close_embeddings,
                writer.close,
                self.kept_image.leave,
                self._leave_vectors,
                reader.close,
                self._close_store,
                log.close,
                directory.close,
            )
        )

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        clock: Clock | None = None,
        set_valued: Sequence[str] = (),
        set_valued_at_birth: Sequence[str] = (),
        epoch_clock: EpochClock = "wall",
        embedding: EmbeddingSettings | None = None,
        progress: Progress | None = None,
        log: str = "",
        durability: Durability = "quorum",
        scopes: Collection[str] = (),
        accept_rollback: bool = False,
    ) -> "Node":
        """Open (or create) the data directory at ``path`` and catch up.

        Args:
            path: the data directory.
            clock: the source of time; by default the machine's clock.
            set_valued: relations to declare set-valued, unless they are already.
            set_valued_at_birth: relations to declare as well if the log is empty. An existing log
                keeps its meaning.
            epoch_clock: ``file`` marks an empty log: its receipt times come from an imported file.
            embedding: how to embed facts; None for tools that neither recall nor serve.
            progress: called with (events done, events in all) while catching up.
            log: address of a log in PostgreSQL; empty for one in the directory.
            durability: when PostgreSQL acknowledges a write.
            scopes: those that the node holds of that log; see ``open_log``.
            accept_rollback: continue in a new epoch if the log ends before its tables.

        Raises:
            DataDirectoryError, LogCutBack, CorruptLog: the directory is not usable.
            LogNotEmpty: ``epoch_clock`` is ``file`` and the log holds events already.
            EmbeddingError: ``embedding`` names another model than the log pins, or one that is not
                available.
        """
        complete_struct_types()
        clock = clock or SystemClock()
        with ExitStack() as opened:
            directory = HeldDirectory.open(path)
            opened.callback(directory.close)
            if load_state(path) is None:
                events = settled_log(
                    directory, clock, log, durability, scopes, accept_rollback=accept_rollback
                )
            else:
                events = open_log(directory, clock, log, durability, scopes)
            opened.callback(events.close)
            if epoch_clock == "file" and (position := events.head().position):
                raise LogNotEmpty(
                    f"file times need an empty log; this one ends at position {position}: "
                    "import into a new directory"
                )
            at_birth = set_valued_at_birth if events.head().position == 0 else ()
            snapshots = Snapshots(directory)
            snapshots.sweep()
            images = ImageFiles(directory.path)
            with storage_errors():
                store, image = open_tables(
                    directory.projections_path, events, progress, snapshots, images
                )
            reader = Reader(directory.projections_path, image, events)
            opened.callback(reader.close)
            writer = Writer(events, store, image, clock, reader.committed)
            writer.start()
            opened.callback(writer.close)
            node = cls(directory, events, writer, reader, clock, _cursor_key(directory, log))
            opened.callback(node._unclosed.clear)
            node._begin(epoch_clock, [*set_valued, *at_birth])
            if embedding is not None and node.replica is not None:
                # A replica uses its primary's pinned model, and pins none itself.
                pinned = node.pinned_space()
                embedding = None if pinned is None else follow_pin(embedding, pinned)
            if embedding is not None:
                node.embed(embedding)
            opened.pop_all()
        return node

    def _begin(self, epoch_clock: EpochClock, set_valued: Sequence[str]) -> None:
        """Take the log up as a primary, or as the replica that the directory is."""
        if self.shared is not None:
            self.shared.on_growth(self.writer.follow)
        self.replica = load_state(self.directory.path)
        if self.replica is not None:
            self.writer.primary = self.replica.primary_url
            return
        own = self._own_stream
        own.begin_epoch(epoch_clock)
        own.record_rotations()
        own.declare(set_valued, self.reader.ask(set_valued_relations, self.log.head().position))

    def __del__(self) -> None:
        """Warn, as a file does: the writer's thread keeps the directory locked."""
        if not getattr(self, "_unclosed", None) or self._process != os.getpid():
            return
        if not sys.is_finalizing():
            warnings.warn(f"unclosed node {self.directory.path}", ResourceWarning, 2, source=self)

    @property
    def _own_stream(self) -> OwnStream:
        place, is_shared = self.directory.path, self.shared is not None
        return OwnStream(place, self.identity, self.log, self.writer, is_shared=is_shared)

    @property
    def log(self) -> WholeLog:
        return self._whole

    @property
    def leads(self) -> bool:
        """Whether this node does the work that one node does for all: fire rules, pull peers,
        deliver webhooks. A replica never does. Among nodes over one log, exactly one does."""
        return self.replica is None and (self.shared is None or self.shared.leads)

    @property
    def begun_us(self) -> int | None:
        return self.writer.begun_us

    def follow(self, source: LogSource) -> None:
        """Copy the primary's log from here on. Raises NotAReplica."""
        if self.replica is None:
            raise NotAReplica("this node is not a replica")
        self.follower = PrimaryFollower(
            source,
            self.log,
            lambda events, keys: self.writer.copy(self.log, events, keys).result(),
            self.replica.node_id,
            self.clock.now_us,
            self._primary_key,
        )
        self.follower.start()

    def promote(self) -> None:
        """Stop following and take writes under this node's own identity: a new origin. Raises
        NotAReplica: it is not a replica."""
        state = self.replica
        if state is None:
            raise NotAReplica("this node is not a replica")
        if self.follower is not None:
            self.follower.stop()
        end_state(self.directory.path)
        self.replica = self.follower = self.writer.primary = None
        self._own_stream.begin_epoch("wall")

    def _primary_key(self, public_key: str) -> None:
        state = self.replica
        if state is not None and state.public_key != public_key:
            self.replica = msgspec.structs.replace(state, public_key=public_key)
            save_state(self.directory.path, self.replica)

    def write(self, *commands: Command, actor: str = SYSTEM_ACTOR) -> list[Done | Refused]:
        """Submit commands and wait for their outcomes; for tools, not for the event loop."""
        return self.writer.submit(commands, actor=actor).result().outcomes

    def rebuild(
        self, progress: Progress | None = None, *, from_scratch: bool = False
    ) -> RebuildReport:
        """Rebuild the projections and swap them in, while reads and writes continue;
        ``from_scratch``: from the first event, without snapshots. Raises the errors of
        ``rebuild_serving``; StorageError."""
        with storage_errors():
            return rebuild_serving(
                self.directory.projections_path,
                self.log,
                self.writer,
                progress,
                self.reader.pool.reopen,
                None if from_scratch else self.snapshots,
            )

    def snapshot(
        self,
        position: int | None = None,
        progress: Progress = lambda _done, _total: None,
        *,
        automatic: bool = False,
    ) -> Snapshot:
        """Take a snapshot of the current tables, or of tables built from the log up to a past
        position. Raises SnapshotFault: the log is empty, or has no such position; ProjectorHalted,
        StorageError: building or copying the tables failed."""
        link, now_us = self.directory.projections_path, self.clock.now_us()
        self.reader.image.tail.settle()
        if position is None:
            return self.snapshots.take(link, now_us, progress, automatic=automatic)
        if not 1 <= position <= self.log.head().position:
            raise SnapshotFault(f"the log has no position {position}")

        def fill(target: Path) -> None:
            build_green(link, self.log, position, progress, snapshots=self.snapshots, path=target)

        with storage_errors():
            return self.snapshots.make(fill, now_us, automatic=automatic)

    def snapshot_fault(
        self,
        snapshot: Snapshot,
        progress: Progress = lambda _done, _total: None,
        *,
        replay: bool = False,
    ) -> str | None:
        """The reason why a snapshot is unusable, after reading its every row. ``replay`` also
        compares it with tables built from the log. None if it is usable. Raises StorageError."""
        fault = self.snapshots.fault(snapshot, self.log)
        if fault is not None or not replay:
            return fault

        def build(target: Path) -> TableDigests:
            link = self.directory.projections_path
            return build_green(link, self.log, snapshot.position, progress, path=target).digests

        with storage_errors():
            return self.snapshots.replay_fault(snapshot, build)

    def embed(self, settings: EmbeddingSettings) -> None:
        """Begin to embed facts. Raises EmbeddingError as ``open`` does."""
        self.embeddings = CurrentEmbeddings.open(
            self.directory.path,
            self.log,
            self.reader,
            settings,
            self.pinned_space(),
            pin=self._pin,
            environment=os.environ,
        )

    def reindex(self, settings: EmbeddingSettings, progress: IndexProgress) -> ReindexReport:
        """Embed all facts again while the old vectors serve. Raises EmbeddingError."""
        if self.embeddings is None:
            raise EmbeddingsOff("this node opened without embeddings")
        return self.embeddings.reindex(settings, progress)

    def close(self) -> None:
        """Finish the waiting writes and release the directory. Idempotent; a close that was
        interrupted (Ctrl-C) continues from there when called again."""
        with self._closing:
            while self._unclosed:
                self._unclosed[0]()
                self._unclosed.popleft()

    def _stop_following(self) -> None:
        if self.follower is not None:
            self.follower.stop()

    def _close_store(self) -> None:
        self.writer.store.close()

    def write_vectors(self) -> None:
        """Write files for the vectors that have none yet; readers may use them meanwhile. Raises
        OSError."""
        if self.embeddings is not None:
            self.embeddings.write_blocks()

    def _leave_vectors(self) -> None:
        try:
            self.write_vectors()
        except OSError as fault:
            _log.warning("could not write vector files for the next start: %s", fault)

    def _close_embeddings(self) -> None:
        if self.embeddings is not None:
            self.embeddings.close()

    def _pin(self, space: Space) -> None:
        self.write(shaped(space, EmbeddingModelPinned, truncated_dimensions=space.truncated))


def _cursor_key(directory: HeldDirectory, log: str) -> bytes:
    """The secret that signs page cursors; readable by the owner only. Nodes over one log derive the
    same secret from their common key, so that any of them can answer the next page."""
    if log:
        return sha256(directory.identity.sign(CURSOR_CONTEXT)).digest()
    file = directory.path / "identity" / "cursor.key"
    # Earlier releases, if killed, left an empty one, with which anyone could sign.
    if not file.exists() or file.stat().st_size != CURSOR_KEY_BYTES:
        replace(file, os.urandom(CURSOR_KEY_BYTES))
    return file.read_bytes()
