"""The part of a node that answers reads: its tables, memory image and log. It writes none of them.

The node that holds the data directory is one (``Node``); a process that follows a node is another.
"""

from engramlog.eventlog.clock import Clock
from engramlog.eventlog.directory import DataDirectory
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.log import ReadableLog
from engramlog.projections.embedding.choosing import space_of
from engramlog.projections.embedding.current import CurrentEmbeddings
from engramlog.projections.embedding.recipe import Space
from engramlog.projections.image.reader import Reader
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment
from engramlog.projections.tables.declared.policies import pinned_model
from engramlog.replay.replication.state import ReplicaState


class ReadingNode:
    embeddings: CurrentEmbeddings | None = None
    replica: ReplicaState | None = None

    def __init__(
        self, directory: DataDirectory, log: ReadableLog, reader: Reader, clock: Clock
    ) -> None:
        self._directory = directory
        self._log = log
        self.reader = reader
        self.clock = clock

    @property
    def log(self) -> ReadableLog:
        return self._log

    @property
    def identity(self) -> Identity:
        return self._directory.identity

    @property
    def node_id(self) -> str:
        """The node that wrote this log: on a replica, the primary."""
        return self.identity.node_id if self.replica is None else self.replica.node_id

    @property
    def public_key(self) -> str:
        """The key (base64) of ``node_id``."""
        return self.identity.public_key_b64 if self.replica is None else self.replica.public_key

    def moment(self) -> Moment:
        """Now: the published position and the wall clock."""
        return Moment(self.reader.image.position, self.clock.now_us())

    def shows(self, view: View, instant_us: int) -> bool:
        """Whether the view has all that the node received by a past instant."""
        begun_us = self.begun_us  # first: a group that ends meanwhile shows in the position
        return instant_us < self.log.received_at(view.position) or (
            (begun_us is None or instant_us < begun_us)
            and view.position == self.reader.image.position
            and view.position >= self.log.position_at(instant_us)  # another node may have written
        )

    @property
    def begun_us(self) -> int | None:
        """The clock when the group of writes under way began, if there is one."""
        return None

    def pinned_space(self) -> Space | None:
        """The log's pinned embedding model, if any."""
        return space_of(self.reader.ask(pinned_model, self.log.head().position))
