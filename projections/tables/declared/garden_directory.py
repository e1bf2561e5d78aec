"""The present gardens and their members: the basis of every request's rights.

The writer replaces it after a change, like the key ring, so a request costs one look-up. A garden
hidden from the caller gives the same answer as one that does not exist.
"""

from collections.abc import Collection, Sequence

import apsw
from msgspec import Struct

from engramlog.eventlog.kinds import GardenRole
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import json_list, query, where_in

WRITING_ROLES = frozenset({"admin", "writer"})
MODERATING_ROLES = frozenset({"admin", "quarantine:moderator"})

_GARDENS = f"""
SELECT id, slug, name, scope, description, quarantine, created_by, created_at FROM gardens
WHERE to_position={LIVE} AND {{wanted}} ORDER BY from_position
"""
_MEMBERS = f"""
SELECT garden_id, entity_uri, role, added_by, added_at FROM garden_members
WHERE to_position={LIVE} AND {{wanted}} ORDER BY added_at, entity_uri
"""
_OF_SCOPES = "SELECT id FROM gardens WHERE scope IN (SELECT value FROM json_each(?))"
_REVIEWS = """
SELECT fact_id, reason, reviewed_by, reviewed_at FROM quarantine
WHERE fact_id IN (SELECT value FROM json_each(?))
"""
_ROLE = f"""
SELECT role FROM garden_members
WHERE garden_id=? AND entity_uri=? AND to_position={LIVE}
"""
_GARDEN = f"SELECT scope, quarantine FROM gardens WHERE id=? AND to_position={LIVE}"


class Member(Struct, frozen=True):
    """One membership; ``added_at`` in microseconds."""

    entity_uri: str
    role: GardenRole
    added_by: str
    added_at: int


class Garden(Struct, frozen=True):
    """A present garden, with its members in the order in which they joined."""

    id: str
    slug: str
    name: str
    scope: str
    description: str | None
    quarantine: bool
    created_by: str
    created_at: int
    members: tuple[Member, ...] = ()

    def role(self, entity_uri: str) -> GardenRole | None:
        """An entity's role here, or None for a non-member."""
        for member in self.members:
            if member.entity_uri == entity_uri:
                return member.role
        return None


class QuarantineReview(Struct, frozen=True):
    """The decision on a quarantined fact; ``reviewed_at`` in microseconds."""

    reason: str
    reviewed_by: str
    reviewed_at: int


class GardenDirectory:
    """Gardens by id and slug, and by member. Immutable: a change makes a new one."""

    def __init__(self, gardens: Sequence[Garden] = ()) -> None:
        self._gardens = {garden.id: garden for garden in gardens}
        self._by_slug = {garden.slug: garden for garden in gardens}
        of_member: dict[str, set[str]] = {}
        for garden in gardens:
            for member in garden.members:
                of_member.setdefault(member.entity_uri, set()).add(garden.id)
        self._of_member = {name: frozenset(ids) for name, ids in of_member.items()}

    def updated(self, ids: Collection[str], gardens: Sequence[Garden]) -> "GardenDirectory":
        """This directory with the present state of the gardens ``ids``: those of them that are in
        ``gardens``, without the others."""
        directory = GardenDirectory()
        present = {garden.id: garden for garden in gardens}
        directory._gardens = {**self._gardens, **present}
        directory._by_slug = dict(self._by_slug)
        directory._of_member = dict(self._of_member)
        for garden_id in ids:
            was, now = self._gardens.get(garden_id), present.get(garden_id)
            directory._move(garden_id, _names(was), _names(now))
            if was is not None and self._by_slug.get(was.slug) is was:
                directory._by_slug.pop(was.slug, None)
            if now is None:
                directory._gardens.pop(garden_id, None)
        directory._by_slug.update({garden.slug: garden for garden in gardens})
        return directory

    def _move(self, garden_id: str, was: set[str], now: set[str]) -> None:
        for name in was - now:
            self._of_member[name] -= {garden_id}
        for name in now - was:
            self._of_member[name] = self.of_member(name) | {garden_id}

    def of_member(self, entity_uri: str) -> frozenset[str]:
        """Ids of the gardens with an entity as a member, in any role."""
        return self._of_member.get(entity_uri, _NONE)

    def find(self, name: str) -> Garden | None:
        """The garden with an id or a slug."""
        return self._gardens.get(name) or self._by_slug.get(name)

    def list(self) -> list[Garden]:
        """All gardens, oldest first."""
        return list(self._gardens.values())


_NONE: frozenset[str] = frozenset()


def _names(garden: Garden | None) -> set[str]:
    return set() if garden is None else {member.entity_uri for member in garden.members}


def load_gardens(db: apsw.Connection, ids: Collection[str] | None = None) -> list[Garden]:
    """Present gardens, oldest first: all, or those of some ids."""
    members: dict[str, list[Member]] = {}
    where, bindings = where_in("garden_id", ids)
    for garden_id, *member in query(db, _MEMBERS.format(wanted=where), bindings):
        members.setdefault(garden_id, []).append(Member(*member))
    where, bindings = where_in("id", ids)
    rows = query(db, _GARDENS.format(wanted=where), bindings)
    return [
        Garden(
            garden_id,
            slug,
            name,
            scope,
            description,
            bool(quarantine),
            created_by,
            created_at,
            members=tuple(members.get(garden_id, ())),
        )
        for garden_id, slug, name, scope, description, quarantine, created_by, created_at in rows
    ]


def gardens_of_scopes(db: apsw.Connection, scopes: Collection[str]) -> set[str]:
    """Ids of the gardens of some scopes, deleted ones too."""
    return {garden for (garden,) in query(db, _OF_SCOPES, (json_list(sorted(scopes)),))}


def reviews_of(db: apsw.Connection, fact_ids: Sequence[str]) -> dict[str, QuarantineReview]:
    """Reviews of quarantined facts, by fact id."""
    rows = query(db, _REVIEWS, (json_list(fact_ids),))
    return {fact_id: QuarantineReview(*review) for fact_id, *review in rows}


def role_in(db: apsw.Connection, garden_id: str, entity_uri: str) -> GardenRole | None:
    """An entity's role in a garden, read in the deciding transaction."""
    rows = query(db, _ROLE, (garden_id, entity_uri))
    return rows[0][0] if rows else None


def garden_state(db: apsw.Connection, garden_id: str) -> tuple[str, bool] | None:
    """(scope, whether it is a quarantine) of a present garden, else None."""
    rows = query(db, _GARDEN, (garden_id,))
    return (rows[0][0], bool(rows[0][1])) if rows else None
