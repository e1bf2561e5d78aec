"""The input and output of a decision."""

from collections.abc import Callable
from typing import Any

import apsw
from msgspec import Struct

from engramlog.eventlog.event import NODE_STREAM, Draft, Verified
from engramlog.eventlog.identifiers import IdentifierSource
from engramlog.eventlog.kinds import Payload
from engramlog.eventlog.log import ReadableLog
from engramlog.projections.image.image import MemoryImage

Key = tuple[str, str, str, str | None]
"""(entity, relation, scope, garden)."""


class Undecided:
    """Drafts of this group that the tables do not show yet.

    Attributes:
        newest: the newest drafted content of a (key, source).
        asserted: ids and keys of drafted facts.
        retracted: ids and keys of facts whose retraction is drafted.
        touched: every key of the group, applied or not: the memory image shows them only after
            the commit.
    """

    def __init__(self) -> None:
        self.newest: dict[tuple[str, str, str, str | None, str], tuple[Any, ...]] = {}
        self.asserted: set[str | Key] = set()
        self.retracted: set[str | Key] = set()
        self.touched: set[Key] = set()

    def holds(self, name: str | Key) -> bool:
        """Whether a fact id or key has drafts that the tables do not show."""
        return name in self.asserted or name in self.retracted

    def applied(self) -> None:
        """Forget the drafts: the tables now show everything."""
        self.newest.clear()
        self.asserted.clear()
        self.retracted.clear()


class Context(Struct, frozen=True):
    """The input of a decision: the tables, the clock's reading, the caller, and the log as
    committed before this group. ``tables`` brings the tables up to everything recorded so far. A
    decision that does not need them leaves them behind."""

    tables: Callable[[], apsw.Connection]
    image: MemoryImage
    undecided: Undecided
    identifiers: IdentifierSource
    now_us: int
    actor: str
    flush: Callable[[], None]
    log: ReadableLog

    @property
    def db(self) -> apsw.Connection:
        """The tables with everything recorded so far, except the drafts in ``undecided``."""
        return self.tables()

    def draft(
        self, payload: Payload, partition: str = NODE_STREAM, cause: bytes | None = None
    ) -> Draft:
        """A draft of an event, with its id."""
        return Draft(payload, partition, self.identifiers.next(self.now_us), self.actor, cause)


class Adoption(Struct, frozen=True):
    """Unchanged events of another node, through ``peer``."""

    peer: str
    events: tuple[Verified, ...]


class Decision(Struct, frozen=True, gc=False):
    """Drafts to append, and the answer; see ``commands.Done``."""

    drafts: list[Draft]
    fact_id: str | None = None
    created: bool = True
    retracted: tuple[str, ...] = ()
    detail: dict[str, Any] = {}
    adoption: Adoption | None = None
    rival: tuple[bytes, bytes, str] | None = None
    """Key, value and relation; live rivals of them set ``contradicted`` in the answer."""
