"""The reading side of a node: the memory image, row look-ups, keys and declarations."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import apsw

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import (
    AgentKeySet,
    AliasSet,
    CapabilityRevoked,
    FactErased,
    GardenCreated,
    GardenDeleted,
    GardenMemberSet,
    KeyIssued,
    KeyRevoked,
    Payload,
    PeerDeclared,
    PeerStateSet,
    ProfileSet,
)
from engramlog.eventlog.log import ReadableLog
from engramlog.projections.columns.fact_columns import cid_number
from engramlog.projections.image.image import MemoryImage
from engramlog.projections.image.partial_conflicts import PartialConflicts
from engramlog.projections.image.view import View
from engramlog.projections.tables.database import TablesPool
from engramlog.projections.tables.declared.agent_keys import AgentKeyRow, load_agent_keys
from engramlog.projections.tables.declared.aliases import AliasBook, count_aliases, load_aliases
from engramlog.projections.tables.declared.capabilities import capability_of, load_revocations
from engramlog.projections.tables.declared.capability_ring import CapabilityRing
from engramlog.projections.tables.declared.garden_directory import GardenDirectory, load_gardens
from engramlog.projections.tables.declared.keys import KeyRing, load_keys
from engramlog.projections.tables.declared.policies import load_profiles
from engramlog.projections.tables.digest import Digests, compute_digests
from engramlog.projections.tables.facts.fact_rows import (
    FactRow,
    SaidRow,
    fetch,
    said_after,
    said_at,
)
from engramlog.projections.tables.facts.tombstones import (
    TombstoneRevocationRow,
    TombstoneRow,
    revocations_of,
    tombstones_of,
)
from engramlog.projections.tables.facts.verdicts import codes_at
from engramlog.projections.tables.peers.peers import PeerRow, load_peers

ROWS_MAX, ROWS_LEFT = 4_096, 3_072
"""Most cached rows, and how many are left when the oldest are dropped: many at once, because each
search for a dict's first key passes over all that were deleted before it."""
VALUE_LENGTH_MAX = 2_048
"""Longer values are not cached."""


class KeptRows:
    """A cache of facts' rows, which never change, by position; an erasure empties it. Safe from any
    thread."""

    def __init__(self, image: MemoryImage) -> None:
        self._image = image
        self._lock = threading.Lock()
        self._erasures = image.erasures
        self._rows: dict[int, FactRow] = {}

    def find(self, positions: Sequence[int]) -> list[FactRow | None]:
        if self._erasures != self._image.erasures:
            self.clear()
        return list(map(self._rows.get, positions))

    def erasures(self) -> int:
        """A counter to read before reading rows to keep."""
        return self._image.erasures

    def keep(self, rows: Iterable[FactRow], erasures: int) -> None:
        """Keep rows, unless an erasure happened since they were read."""
        with self._lock:
            kept = self._rows
            if erasures != self._image.erasures or erasures != self._erasures:
                return
            for row in rows:
                if len(row.value_v) <= VALUE_LENGTH_MAX:
                    kept[row.from_position] = row
            if len(kept) > ROWS_MAX:
                for position in list(islice(kept, len(kept) - ROWS_LEFT)):
                    del kept[position]

    def clear(self) -> None:
        with self._lock:
            self._rows = {}
            self._erasures = self._image.erasures


_P = ParamSpec("_P")
_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_PEER_KINDS = frozenset((PeerDeclared, PeerStateSet))
_FOLLOWED = _PEER_KINDS.union(
    (KeyIssued, KeyRevoked, AgentKeySet, GardenCreated, GardenMemberSet, GardenDeleted),
    (AliasSet, FactErased, CapabilityRevoked, ProfileSet),
)

ATTEMPTS_MAX = 200
"""Attempts of a read whose facts are erased while it looks at them:"""
PAUSE_SECONDS = 0.02


class ErasedMeanwhile(Exception):
    """Facts of a view were erased before their rows were read; a later view lacks them."""


class Reader:
    """Synchronous queries; safe from any thread. ``followers`` are called with published events, in
    the writer's thread. ``history``: the log, if this process has it. ``position``: the last event
    whose effect on rights is known here; ``image`` may be ahead of it for a moment."""

    def __init__(self, link: Path, image: MemoryImage, history: ReadableLog | None = None) -> None:
        self.image = image
        self.history = history
        self.partial = PartialConflicts()
        self.pool = TablesPool(link, image.tail.settle)
        self._kept = KeptRows(image)
        self.followers: list[Callable[[Sequence[Recorded]], None]] = []
        self._withdrawn = False
        self.position = image.position
        self._load()

    def _load(self) -> None:
        with self.pool.connection() as db:
            self.keys = KeyRing(load_keys(db))
            self.agent_keys: dict[str, AgentKeyRow] = load_agent_keys(db)
            self.gardens = GardenDirectory(load_gardens(db))
            self.capabilities = self._capability_ring(db)
            self.aliases = AliasBook(load_aliases(db))
            self._profiles = load_profiles(db)
            self.peers: list[PeerRow] = load_peers(db)
            """Oldest first."""

    def committed(self, events: Sequence[Recorded]) -> None:
        """Refresh after these published events. If the tables cannot be read, no key is valid until
        it is called with the same events again and can read them."""
        if any(isinstance(event.payload, FactErased) for event in events):
            self._kept.clear()
        try:
            if self._withdrawn:
                self._load()
            else:
                self.refresh(events)
        except Exception:
            self._withdrawn = True
            self.keys, self.agent_keys = KeyRing(), {}
            self.capabilities = CapabilityRing()
            raise
        self._withdrawn = False
        if events:
            self.position = events[-1].position
        for follow in self.followers:
            try:
                follow(events)
            except Exception:  # a write stays written, even if a follower fails
                _log.exception("a follower of the log")

    def refresh(self, events: Sequence[Recorded]) -> None:
        """Load what these events change: of keys, gardens and aliases, which may be many, only the
        touched ones."""
        kinds = {type(event.payload) for event in events}
        if _FOLLOWED.isdisjoint(kinds):
            return
        with self.pool.connection() as db:
            if keys := _named(events, "key_id", KeyIssued, KeyRevoked):
                self.keys = self.keys.updated(load_keys(db, keys))
            if AgentKeySet in kinds:
                self.agent_keys = load_agent_keys(db)
            if gardens := _named(
                events, "garden_id", GardenCreated, GardenMemberSet, GardenDeleted
            ):
                self.gardens = self.gardens.updated(gardens, load_gardens(db, gardens))
            if CapabilityRevoked in kinds:
                self.capabilities = self._capability_ring(db)
            if not _PEER_KINDS.isdisjoint(kinds):
                self.peers = load_peers(db)
            if names := _named(events, "raw_uri", AliasSet):
                self.aliases = self.aliases.updated(load_aliases(db, names))
            if FactErased in kinds and self.aliases.count != count_aliases(db):
                self.aliases = AliasBook(load_aliases(db))
            if ProfileSet in kinds:
                self._profiles = load_profiles(db)

    def _capability_ring(self, db: apsw.Connection) -> CapabilityRing:
        return CapabilityRing(load_revocations(db), partial(self.ask, capability_of))

    def ask(
        self,
        query: Callable[Concatenate[apsw.Connection, _P], _T],
        *args: _P.args,
        **named: _P.kwargs,
    ) -> _T:
        """The result of a query of the tables, readable or not: the caller applies the rights."""
        with self.pool.connection() as db:
            return query(db, *args, **named)

    def pin(self) -> View:
        """A view of the memory image as last published."""
        return View(self.image)

    def rows(self, positions: Sequence[int]) -> list[FactRow]:
        """Rows of the facts asserted at ``positions``, in that order; without facts that were
        erased since the positions were found."""
        kept = self._kept
        found = kept.find(positions)
        missing = [at for at, row in zip(positions, found, strict=True) if row is None]
        if not missing:
            return [row for row in found if row is not None]
        erasures = kept.erasures()
        with self.pool.connection(max(missing)) as db:
            read = fetch(db, missing)
        kept.keep(read, erasures)
        if len(missing) == len(positions):
            return read
        by_position = {row.from_position: row for row in read}
        rows = [
            by_position.get(at) if row is None else row
            for at, row in zip(positions, found, strict=True)
        ]
        return [row for row in rows if row is not None]

    def every_row(self, positions: Sequence[int]) -> list[FactRow]:
        """``rows``, one for each position. Raises ErasedMeanwhile."""
        rows = self.rows(positions)
        if len(rows) < len(positions):
            raise ErasedMeanwhile(f"{len(positions) - len(rows)} facts are erased")
        return rows

    def row(self, view: View, slot: int) -> FactRow:
        """The row of one fact. Raises ErasedMeanwhile."""
        return self.every_row([int(view.from_position[slot])])[0]

    def said(self, positions: Sequence[int]) -> list[SaidRow]:
        """What the facts asserted at ``positions`` say; the positions ascend."""
        with self.pool.connection(positions[-1]) as db:
            return said_at(db, positions)

    def slot_of(self, fact_id: str) -> int | None:
        """The slot of a fact id, readable or not: the caller applies the authorization."""
        return self.image.facts.slot_of.get(fact_id)

    def slots_of_cid(self, cid: str) -> list[int]:
        """Slots of the facts with this content id, oldest first."""
        image = self.image
        slots = image.facts.by_cid.slots(cid_number(cid), image.published)
        positions = image.facts.arrays["from_position"][slots].tolist()
        wanted = {row.from_position for row in self.rows(positions) if row.cid == cid}
        return [
            slot
            for slot, position in zip(slots.tolist(), positions, strict=True)
            if position in wanted
        ]

    def profiles(self, position: int) -> dict[str, dict[str, Any]]:
        """Installed recall profiles at a position."""
        return self._profiles.at(position)

    def codes(self, positions: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """The sanitizer's findings in facts asserted at ``positions``; only those with findings."""
        if not len(positions):
            return {}
        return self.ask(codes_at, positions)

    def fact_pages(self) -> Iterator[list[SaidRow]]:
        """What every fact says, page by page."""
        after = 0
        while True:
            rows = self.ask(said_after, after)
            if not rows:
                return
            yield rows
            after = rows[-1].from_position

    def tombstones_of(self, entity: str) -> tuple[list[TombstoneRow], list[TombstoneRevocationRow]]:
        """Every tombstone of an entity and every revocation of one, oldest first."""
        with self.pool.connection() as db:
            return tombstones_of(db, entity), revocations_of(db, entity)

    def digests(self) -> Digests:
        """Digests of the current tables."""
        return self.ask(compute_digests)

    def close(self) -> None:
        self.pool.close()


def _named(events: Sequence[Recorded], field: str, *kinds: type[Payload]) -> set[str]:
    """The ids in ``field`` of the events of some kinds."""
    return {getattr(event.payload, field) for event in events if isinstance(event.payload, kinds)}
