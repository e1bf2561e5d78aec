"""A replica without sockets: follows a node in the same process, a few pages at a time."""

from pathlib import Path

from engramlog.api.node.node import Node
from engramlog.eventlog.clock import Clock
from engramlog.eventlog.directory import HeldDirectory
from engramlog.eventlog.engines.sqlite.log import SqliteLog
from engramlog.replay.replication.follower import PrimaryFollower
from engramlog.replay.replication.page import PAGE_EVENTS_MAX, CopyPage, read_page
from engramlog.replay.replication.state import ReplicaState, save_state


class Copy:
    """The directory of a replica of ``primary``, which may restart meanwhile."""

    def __init__(self, folder: Path, primary: Node) -> None:
        self.folder = folder
        identity = primary.identity
        HeldDirectory.open(folder).close()
        state = ReplicaState("http://127.0.0.1:1", identity.node_id, identity.public_key_b64)
        save_state(folder, state)

    def follow(
        self, primary: Node, clock: Clock, steps: int = 1_000_000, page: int = PAGE_EVENTS_MAX
    ) -> None:
        """Copy this many pages, or everything."""
        directory = HeldDirectory.open(self.folder)
        identity = directory.identity
        try:
            with SqliteLog.open(
                directory.log_path, origin=identity.node_id, epoch=identity.epoch, clock=clock
            ) as log:
                source = _Primary(primary, clock, page)
                follower = PrimaryFollower(source, log, log.copy, primary.node_id, clock.now_us)
                for _ in range(steps):
                    if follower.step(0.0):
                        return
        finally:
            directory.close()


class _Primary:
    def __init__(self, node: Node, clock: Clock, page: int) -> None:
        self._node = node
        self._clock = clock
        self._page = page

    def fetch(self, after: int, after_hash: bytes, limit: int, wait_seconds: float) -> CopyPage:
        del wait_seconds
        node = self._node
        return read_page(
            node.log, after=after, after_hash=after_hash, limit=min(limit, self._page),
            node_id=node.node_id, public_key=node.identity.public_key_b64,
            now_us=self._clock.now_us(),
        )  # fmt: skip

    def close(self) -> None:
        pass
