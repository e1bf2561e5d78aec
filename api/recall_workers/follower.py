"""A node's files read by another process: the same tables, mirror and vectors, never written.

The serving process names the position it has published; the follower then takes the events
up to there from the log. Positions, their order and so every answer are the same in both.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from api.node import Node
from eventlog.clock import FixedClock
from eventlog.directory import DataDirectory
from eventlog.kinds import ReplicaPromoted
from eventlog.sqlite_log import SqliteLog
from projections.arrays import F32, I32, I64, Bool
from projections.embedding.following import FollowedEmbeddings
from projections.embedding.settings import EmbeddingSettings
from projections.mirror import Mirror, fill_at_once
from projections.reader import Reader
from projections.writer import NoWriter
from replay.replication.state import load_state

PAGE_EVENTS = 5_000


class Follower:
    """See the module. ``node`` answers reads and takes no command.

    Args:
        path: the data directory that another process serves.
        embedding: as that process has it.
    """

    def __init__(self, path: Path, embedding: EmbeddingSettings) -> None:
        self.clock = FixedClock()
        directory = DataDirectory.inspect(path)
        identity = directory.identity
        self._log = SqliteLog.open(
            directory.log_path,
            origin=identity.node_id,
            epoch=identity.epoch,
            clock=self.clock,
            read_only=True,
        )
        self._path = path
        self._link = directory.projections_path
        self._mirror = Mirror()
        self._arrived: list[tuple[I64, F32]] = []
        self._generation = os.readlink(self._link)
        fill_at_once(self._mirror, self._link)
        self._reader = Reader(self._link, self._mirror)
        self.node = Node(directory, self._log, NoWriter(), self._reader, self.clock, b"")
        self.node.replica = load_state(path)
        space = self.node.pinned_space()
        self._embeddings = FollowedEmbeddings.following(path, self._reader, embedding, space)
        self.node.embeddings = self._embeddings

    def follow(self, position: int, now_us: int) -> None:
        """Know what was published at ``position``; the clock shows ``now_us``."""
        self.clock.set(now_us)
        generation = os.readlink(self._link)
        if generation != self._generation:
            self._reader.pool.reopen()
            self._generation = generation
        while self._mirror.position < position:
            wanted = min(PAGE_EVENTS, position - self._mirror.position)
            events = self._log.read(self._mirror.position, wanted)
            if not events:
                raise RuntimeError(f"the log does not reach position {position}")
            self._mirror.apply(events, events[-1].position)
            self._reader.committed(events)
            if any(isinstance(event.payload, ReplicaPromoted) for event in events):
                self.node.replica = load_state(self._path)
        if self._arrived:
            self._place_vectors()

    def remember(self, query: str, vector: bytes) -> None:
        """Take a question's vector."""
        semantics = self._embeddings.semantics
        if semantics is not None:
            semantics.remember(query, np.frombuffer(vector, dtype=np.float32))

    def vector(self, query: str) -> bytes | None:
        """A question's vector, if it was made here."""
        semantics = self._embeddings.semantics
        known = None if semantics is None else semantics.known(query)
        return None if known is None else known.tobytes()

    def embedded(self, positions: bytes, rows: bytes) -> None:
        """Take in vectors of facts, once the facts are known here."""
        of: I64 = np.frombuffer(positions, dtype=np.int64)
        matrix: F32 = np.frombuffer(rows, dtype=np.float32).reshape(len(of), -1)
        self._arrived.append((of, matrix))
        self._place_vectors()

    def forgotten(self, positions: bytes) -> None:
        """Let vectors of facts go."""
        slots, known = self._slots(np.frombuffer(positions, dtype=np.int64))
        self._embeddings.forget(slots[known])

    def _place_vectors(self) -> None:
        waiting: list[tuple[I64, F32]] = []
        for of, rows in self._arrived:
            slots, known = self._slots(of)
            if known.any():
                self._embeddings.put(slots[known], rows[known])
            ahead = of > self._mirror.position
            if ahead.any():
                waiting.append((of[ahead], rows[ahead]))
        self._arrived = waiting

    def _slots(self, positions: I64) -> tuple[I32, Bool]:
        """Slots of the facts asserted at positions, and which of these are known here."""
        starts = self._reader.pin().from_position
        if not len(starts):
            return np.zeros(len(positions), dtype=np.int32), np.zeros(len(positions), dtype=bool)
        slots = np.minimum(starts.searchsorted(positions), len(starts) - 1).astype(np.int32)
        known: Bool = starts[slots] == positions
        return slots, known
