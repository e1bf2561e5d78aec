"""The contract of a projection: a pure function from events to rows and to its part of the memory
image.

``apply`` uses no clock, randomness, network or model, and no table of another projector unless
``reads`` names it. Projectors run in the order of the registry (``registry.PROJECTORS``), so a
projector's sources are written before it runs.
"""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

import apsw

from engramlog.eventlog.event import Recorded


class Projector:
    """Turns events into rows of the projector's tables.

    Attributes:
        name: unique; the checkpoint's key.
        version: increased when the rows would differ; a change triggers a rebuild.
        schema: DDL that creates its tables.
        tables: their names from the schema, in the order of the digest; no virtual tables.
        late_indexes: DDL of indexes that ``apply`` does not need; bulk loads create them last.
        kinds: the event kinds it reads.
        reads: projectors whose tables it reads.
        erasing: statements over ``erasing.FACTS``, ``EVENTS`` and ``POSITIONS`` that delete the
            rows keyed by an erased fact's id or an erased event's position.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    schema: ClassVar[str]
    tables: ClassVar[tuple[str, ...]]
    late_indexes: ClassVar[str] = ""
    kinds: ClassVar[frozenset[str]]
    reads: ClassVar[frozenset[str]] = frozenset()
    erasing: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.tables = tuple(re.findall(r"CREATE TABLE (\w+)", cls.schema))

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        """Write the rows of ``events`` (of ``kinds`` only, in log order)."""
        for event in events:
            self.apply_event(event, db)

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        """Write the rows of one event, in a projector that takes events one by one."""
        raise NotImplementedError


class ImagePart(Protocol):
    """A projection's data in memory. Loading it from the tables and folding it from the events give
    the same. Only the writer's thread changes it. ``kinds``: the event kinds it folds."""

    kinds: ClassVar[frozenset[str]]

    def load(self, db: apsw.Connection) -> None:
        """Load the tables' rows; called once, before the first ``fold``."""
        ...

    def fold(self, events: Sequence[Recorded]) -> None:
        """Apply a run of events of one kind, in log order. Parts earlier in the image have already
        folded them."""
        for event in events:
            self.fold_event(event)

    def fold_event(self, event: Recorded) -> None:
        """Apply one event, in a part that takes them one by one."""

    def forget(self, facts: Mapping[str, int]) -> None:
        """Drop the data of erased facts, given by id and slot. By default a part has none, or none
        that a caller can read."""


class SmallPart(ImagePart, Protocol):
    """A part that an image file holds as one document."""

    def state(self) -> bytes:
        """All data of the part. Call in the writer's thread."""
        ...

    def restore(self, state: bytes) -> None:
        """Restore what ``state`` returned, in place of ``load``. Raises msgspec.MsgspecError."""
        ...
