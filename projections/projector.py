"""The contract of a projector: a pure function from events to rows.

No clock, randomness, network or model inside ``apply``; no table of another projector
unless ``reads`` names it. Projectors run in the order of the registry
(``registry.PROJECTORS``), so what one reads has been written before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import apsw

from eventlog.event import Recorded


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
