"""Gardens, their members over time, and the reviews of quarantined facts.

``gardens`` and ``garden_members`` carry the interval of each row; ``quarantine`` has one row per
reviewed fact. Visibility always follows the present state. Source: wire 2.2 and 4.
"""

from collections.abc import Mapping

import apsw
import msgspec

from engramlog.eventlog.event import Recorded
from engramlog.eventlog.kinds import (
    GardenCreated,
    GardenDeleted,
    GardenMemberSet,
    QuarantineReviewed,
)
from engramlog.projections.columns.fact_columns import FactColumns
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import query, query_one
from engramlog.projections.tables.erasing import FACTS
from engramlog.projections.tables.projector import Projector, SmallPart
from engramlog.projections.tables.struct_rows import end_rows, insert_row

_STANDING = f"""
SELECT added_by, added_at FROM garden_members
WHERE garden_id=? AND entity_uri=? AND to_position={LIVE}
"""
_REVIEWS = "SELECT position, fact_id, decision FROM quarantine ORDER BY position"


class GardensProjector(Projector):
    """Rows of ``gardens``, ``garden_members`` and ``quarantine``."""

    name = "gardens"
    version = 1
    schema = f"""
    CREATE TABLE gardens (
        id TEXT PRIMARY KEY,
        slug TEXT NOT NULL,
        name TEXT NOT NULL,
        scope TEXT NOT NULL,
        description TEXT,
        quarantine INTEGER NOT NULL,
        created_by TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        from_position INTEGER NOT NULL,
        to_position INTEGER NOT NULL DEFAULT {LIVE}
    ) STRICT;
    CREATE UNIQUE INDEX gardens_by_slug ON gardens (slug) WHERE to_position = {LIVE};
    CREATE TABLE garden_members (
        garden_id TEXT NOT NULL,
        entity_uri TEXT NOT NULL,
        role TEXT NOT NULL,
        added_by TEXT NOT NULL,
        added_at INTEGER NOT NULL,
        from_position INTEGER NOT NULL,
        to_position INTEGER NOT NULL DEFAULT {LIVE},
        PRIMARY KEY (garden_id, entity_uri, from_position)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX garden_members_live ON garden_members (garden_id, entity_uri)
        WHERE to_position = {LIVE};
    CREATE TABLE quarantine (
        fact_id TEXT PRIMARY KEY,
        garden_id TEXT NOT NULL,
        decision TEXT NOT NULL,
        reason TEXT NOT NULL,
        target_garden_id TEXT,
        admitted_fact_id TEXT,
        reviewed_by TEXT NOT NULL,
        reviewed_at INTEGER NOT NULL,
        position INTEGER NOT NULL
    ) STRICT;
    """
    kinds = frozenset(
        {"garden_created", "garden_member_set", "garden_deleted", "quarantine_reviewed"}
    )
    erasing = (f"DELETE FROM quarantine WHERE fact_id IN {FACTS}",)

    def apply_event(self, event: Recorded, db: apsw.Connection) -> None:
        payload = event.payload
        if isinstance(payload, GardenCreated):
            _create(event, payload, db)
        elif isinstance(payload, GardenMemberSet):
            _set_member(event, payload, db)
        elif isinstance(payload, GardenDeleted):
            end_rows(db, "gardens", event, id=payload.garden_id)
            end_rows(db, "garden_members", event, garden_id=payload.garden_id)
        else:
            by, at = event.header.actor, event.header.recorded_at
            insert_row(db, "quarantine", event, reviewed_by=by, reviewed_at=at, or_ignore=True)


def _create(event: Recorded, garden: GardenCreated, db: apsw.Connection) -> None:
    at, creator = event.header.recorded_at, garden.created_by
    insert_row(db, "gardens", event, id=garden.garden_id, created_at=at)
    insert_row(
        db, "garden_members", event, entity_uri=creator, role="admin", added_by=creator, added_at=at
    )


def _set_member(event: Recorded, member: GardenMemberSet, db: apsw.Connection) -> None:
    """Set a member's role; a changed role keeps who added the member and when."""
    who = {"garden_id": member.garden_id, "entity_uri": member.entity_uri}
    added = query_one(db, _STANDING, tuple(who.values()))
    by, at = added or (member.added_by, event.header.recorded_at)
    end_rows(db, "garden_members", event, **who)
    if member.role is not None:
        insert_row(db, "garden_members", event, added_by=by, added_at=at)


_decode_state = msgspec.msgpack.Decoder(tuple[set[int], dict[int, tuple[int, str]]]).decode


class GardensPart(SmallPart):
    """Which gardens are quarantines, and the decisions on their facts."""

    kinds = frozenset({"garden_created", "quarantine_reviewed"})

    def __init__(self, facts: FactColumns) -> None:
        self._facts = facts
        self.quarantines: set[int] = set()
        """Numbers of gardens whose facts wait for a review."""
        self.reviews: dict[int, tuple[int, str]] = {}
        """By slot of a quarantined fact: position and decision of its review."""

    def load(self, db: apsw.Connection) -> None:
        for garden, quarantine in query(db, "SELECT id, quarantine FROM gardens"):
            self._add_garden(garden, quarantine=bool(quarantine))
        for position, fact, decision in query(db, _REVIEWS):
            self._review(position, fact, decision)

    def fold_event(self, event: Recorded) -> None:
        payload = event.payload
        if isinstance(payload, GardenCreated):
            self._add_garden(payload.garden_id, quarantine=payload.quarantine)
        else:
            assert isinstance(payload, QuarantineReviewed)
            self._review(event.position, payload.fact_id, payload.decision)

    def forget(self, facts: Mapping[str, int]) -> None:
        for slot in facts.values():
            self.reviews.pop(slot, None)

    def state(self) -> bytes:
        return msgspec.msgpack.encode((self.quarantines, self.reviews))

    def restore(self, state: bytes) -> None:
        self.quarantines, self.reviews = _decode_state(state)

    def _add_garden(self, garden: str, *, quarantine: bool) -> None:
        number = self._facts.gardens.add(garden)
        if quarantine:
            self.quarantines.add(number)

    def _review(self, position: int, fact: str, decision: str) -> None:
        slot = self._facts.slot_of.get(fact)
        if slot is not None:
            self.reviews.setdefault(slot, (position, decision))
