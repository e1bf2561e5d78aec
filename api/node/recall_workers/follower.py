"""Another process reads a node's files here: the same tables, memory image and vectors. It never
writes them.

The serving process names its published position; the follower then reads the log's events up to
there. Positions, their order and so every answer are the same in both.
"""

import os
from pathlib import Path

import numpy as np

from engramlog.api.node.log_place import open_log_to_read
from engramlog.api.node.reading_node import ReadingNode
from engramlog.eventlog.clock import FixedClock
from engramlog.eventlog.directory import DataDirectory
from engramlog.eventlog.kinds import ReplicaPromoted
from engramlog.projections.arrays import F32, I32, I64, Bool
from engramlog.projections.embedding.following import Ask, FollowedEmbeddings
from engramlog.projections.embedding.settings import EmbeddingSettings
from engramlog.projections.image.files import KeptImages
from engramlog.projections.image.image import MemoryImage, loaded_at_once
from engramlog.projections.image.reader import Reader
from engramlog.projections.tables.database import open_reader, tables_position
from engramlog.replay.replication.state import load_state

PAGE_EVENTS = 2_000


class LogFollower:
    """See the module. ``node`` answers reads and has no writer.

    Args:
        path: the data directory that another process serves.
        embedding: the serving process's settings.
        ask: gets the vector of a question's text.
        log: address of an external log; empty for one in the directory.
    """

    def __init__(self, path: Path, embedding: EmbeddingSettings, ask: Ask, log: str = "") -> None:
        self.clock = FixedClock()
        directory = DataDirectory.inspect(path)
        self._log = open_log_to_read(directory, self.clock, log)
        self._path = path
        self._link = directory.projections_path
        self._arrived: list[tuple[I64, F32]] = []
        self._generation = os.readlink(self._link)
        self._image = self._begun()
        self._reader = Reader(self._link, self._image)
        self.node = ReadingNode(directory, self._log, self._reader, self.clock)
        self.node.replica = load_state(path)
        space = self.node.pinned_space()
        self._embeddings = FollowedEmbeddings.following(
            path, self._log, self._reader, embedding, space, ask
        )
        self.node.embeddings = self._embeddings

    def _begun(self) -> MemoryImage:
        """The image up to the tables' position. It looks up vectors only once and gets later ones
        by message, so no fact that has a vector already may arrive later."""
        image = KeptImages(self._path).restored(self._log)
        if image is None:
            return loaded_at_once(self._link)
        db = open_reader(self._link)
        try:
            position = tables_position(db)
        finally:
            db.close()
        while image.position < position:
            events = self._log.read(image.position, min(PAGE_EVENTS, position - image.position))
            image.apply(events, events[-1].position)
        return image

    def follow(self, position: int, now_us: int) -> None:
        """Advance to ``position``; ``now_us`` is the serving process's clock."""
        self.clock.set(now_us)
        generation = os.readlink(self._link)
        if generation != self._generation:
            self._reader.pool.reopen()
            self._generation = generation
        while self._image.position < position:
            wanted = min(PAGE_EVENTS, position - self._image.position)
            events = self._log.read(self._image.position, wanted)
            if not events:
                raise RuntimeError(f"the log does not reach position {position}")
            self._image.apply(events, events[-1].position)
            self._reader.committed(events)
            if any(isinstance(event.payload, ReplicaPromoted) for event in events):
                self.node.replica = load_state(self._path)
        if self._arrived:
            self._place_vectors()

    def embedded(self, positions: bytes, rows: bytes) -> None:
        """Add vectors of facts, once the facts themselves have arrived."""
        at_positions: I64 = np.frombuffer(positions, dtype=np.int64)
        matrix: F32 = np.frombuffer(rows, dtype=np.float32).reshape(len(at_positions), -1)
        self._arrived.append((at_positions, matrix))
        self._place_vectors()

    def forgotten(self, positions: bytes) -> None:
        """Drop vectors of facts."""
        slots, known = self._slots(np.frombuffer(positions, dtype=np.int64))
        self._embeddings.forget(slots[known])

    def _place_vectors(self) -> None:
        waiting: list[tuple[I64, F32]] = []
        for positions, rows in self._arrived:
            slots, known = self._slots(positions)
            if known.any():
                self._embeddings.put(slots[known], rows[known])
            ahead = positions > self._image.position
            if ahead.any():
                waiting.append((positions[ahead], rows[ahead]))
        self._arrived = waiting

    def _slots(self, positions: I64) -> tuple[I32, Bool]:
        """Slots of the facts asserted at positions, and whether each has arrived."""
        starts = self._reader.pin().from_position
        if not len(starts):
            return np.zeros(len(positions), dtype=np.int32), np.zeros(len(positions), dtype=bool)
        slots = np.minimum(starts.searchsorted(positions), len(starts) - 1).astype(np.int32)
        known: Bool = starts[slots] == positions
        return slots, known
