"""An engine's storage details for ``verify``, beyond the log's contract."""

from collections.abc import Collection
from typing import Any, Protocol, runtime_checkable

from engramlog.eventlog.engines.appending import KeyUse
from engramlog.eventlog.event import Stored


class Row(Stored, frozen=True, gc=False):
    """A stored event with the columns that repeat parts of its header. The columns are unchecked:
    damage can leave any type in them."""

    stream: str
    stream_seq: int
    event_id: bytes
    kind: str


RowFields = tuple[Any, ...]
"""The fields of a ``Row``, as a database returns them."""


@runtime_checkable
class Auditable(Protocol):
    """An engine whose storage can disagree with itself."""

    def read_rows(self, after: int, limit: int) -> list[RowFields]:
        """Rows with position > ``after``, in order. Raises CorruptLog if reading stops, with the
        first position that cannot be read."""
        ...

    def storage_fault(self) -> str | None:
        """The fault of the storage as a whole (indexes, constraints, schema), in a log whose rows
        have none."""
        ...

    def uses_of(self, names: Collection[tuple[str, str]]) -> dict[tuple[str, str], KeyUse]:
        """The stored uses of these idempotency keys, by (actor, key)."""
        ...

    def used_keys(self, position: int) -> int:
        """How many idempotency keys claim to have written events, without those of events after
        ``position``: a node that serves may have written these since."""
        ...
