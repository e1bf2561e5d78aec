"""The contract of a projection: a pure function from events to rows, and to its part of the
memory image.

No clock, randomness, network or model inside ``apply``; no table of another projector
unless ``reads`` names it. Projectors run in the order of the registry
(``registry.PROJECTORS``), so what one reads has been written before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import apsw

from engramlog.eventlog.event import Recorded


class Projector(Protocol):
    """Turns events into the rows of its own tables.

    Attributes:
        name: unique; the checkpoint's key.
        version: raised when the rows would differ; a change triggers a rebuild.
        tables: the tables it owns, in the order of the digest.
        schema: DDL that creates them.
        late_indexes: DDL of indexes that ``apply`` does not need; bulk loads create them last.
        kinds: the event kinds it reads.
        reads: projectors whose tables it reads.
    """

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def tables(self) -> tuple[str, ...]: ...
    @property
    def schema(self) -> str: ...
    @property
    def late_indexes(self) -> str: ...
    @property
    def kinds(self) -> frozenset[str]: ...
    @property
    def reads(self) -> frozenset[str]: ...

    def apply(self, events: Sequence[Recorded], db: apsw.Connection) -> None:
        """Write the rows of ``events`` (of ``kinds`` only, in log order)."""
        ...


class ImagePart(Protocol):
    """What a projection keeps in memory of its tables: the same, whether it was loaded from
    them or folded from the events. Only the writer's thread changes it.

    Attributes:
        kinds: the event kinds it folds.
    """

    @property
    def kinds(self) -> frozenset[str]: ...

    def load(self, db: apsw.Connection) -> None:
        """Load what the tables hold; once, before anything is folded."""
        ...

    def fold(self, events: Sequence[Recorded]) -> None:
        """Apply a run of events of one kind, in log order; parts before this one
        in the image have folded them."""
        ...

    def forget(self, facts: Mapping[str, int]) -> None:
        """Drop what is kept of erased facts, given by id and slot."""
        ...


class SmallPart(ImagePart, Protocol):
    """A part that a file of the memory image holds as one document."""

    def state(self) -> bytes:
        """All that the part holds. Call in the writer's thread."""
        ...

    def restore(self, state: bytes) -> None:
        """Restore, in place of ``load``, what the part held when ``state`` was called.
        Raises msgspec.MsgspecError."""
        ...
