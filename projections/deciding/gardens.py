"""Gardens: made, peopled and deleted, and who may write in one.

Roles are asked of the transaction that writes, so a member who was removed a moment ago
writes nothing more. ``member`` None stands for the node's own tools, which may do anything.
"""

from __future__ import annotations

from uuid import uuid4

import apsw

from eventlog.kinds import GardenCreated, GardenDeleted, GardenMemberSet
from projections import intents as ask
from projections.database import query_one
from projections.deciding.context import Context, Decision
from projections.garden_directory import WRITING_ROLES, Role, garden_state, role_in
from projections.intents import Refused
from projections.moment import LIVE

_SLUG = f"SELECT 1 FROM gardens WHERE slug=? AND to_position={LIVE}"
_TAKEN = "SELECT 1 FROM gardens WHERE id=?"
_OTHER_ADMIN = f"""
SELECT 1 FROM garden_members
WHERE garden_id=? AND entity_uri<>? AND role='admin' AND to_position={LIVE} LIMIT 1
"""
_PENDING = f"""
SELECT 1 FROM facts
WHERE garden_id=? AND to_position={LIVE} AND base_confidence>0 LIMIT 1
"""
GARDEN_NOT_FOUND = Refused("garden_not_found", "garden not found", "garden_id")
WRITE_FORBIDDEN = Refused(
    "garden_write_forbidden", "write permission required — you are a reader in this garden"
)
_ADMIN_REQUIRED = Refused("garden_admin_required", "garden admin permission required")
_LAST_ADMIN = Refused(
    "last_garden_admin",
    "cannot remove or demote the last admin; promote another member first",
)


def write_refusal(
    db: apsw.Connection, garden_id: str, scope: str, member: str | None
) -> Refused | None:
    """Why ``member`` may not state a fact of this scope in a garden; None where it may.

    To somebody who is no member the garden does not exist.
    """
    state = garden_state(db, garden_id)
    if state is None:
        return GARDEN_NOT_FOUND
    refusal = touch_refusal(db, garden_id, member, GARDEN_NOT_FOUND)
    if refusal is not None:
        return refusal
    if state[0] != scope:
        return Refused(
            "garden_scope_mismatch",
            f"scope mismatch: garden scope is {state[0]!r} but fact scope is {scope!r}",
            "scope",
        )
    return None


def touch_refusal(
    db: apsw.Connection, garden_id: str | None, member: str | None, absent: Refused
) -> Refused | None:
    """Why ``member`` may not end or settle what is in a garden: ``absent`` where it may not
    even know of it. None where it may, and for what is in no garden."""
    if garden_id is None or member is None:
        return None
    role = role_in(db, garden_id, member)
    if role is None:
        return absent
    return None if role in WRITING_ROLES else WRITE_FORBIDDEN


def create_garden(intent: ask.CreateGarden, context: Context) -> Decision | Refused:
    """A new garden under a slug that no other has."""
    context.flush()
    if query_one(context.db, _SLUG, (intent.slug,)) is not None:
        return Refused("slug_exists", "slug already exists", "slug")
    garden_id = intent.garden_id
    if garden_id is None or query_one(context.db, _TAKEN, (garden_id,)) is not None:
        garden_id = str(uuid4())
    payload = GardenCreated(
        garden_id=garden_id,
        slug=intent.slug,
        name=intent.name,
        scope=intent.scope,  # pyright: ignore[reportArgumentType]  # validated at the edge
        created_by=intent.created_by,
        description=intent.description,
        quarantine=intent.quarantine,
    )
    return Decision([context.draft(payload)], detail={"garden_id": garden_id})


def delete_garden(intent: ask.DeleteGarden, context: Context) -> Decision | Refused:
    """The garden is gone; a quarantine must be empty first."""
    context.flush()
    state = garden_state(context.db, intent.garden_id)
    refusal = _admin_refusal(intent.garden_id, intent.admin, context)
    if state is None or refusal is not None:
        return refusal or GARDEN_NOT_FOUND
    if state[1] and query_one(context.db, _PENDING, (intent.garden_id,)) is not None:
        return Refused("quarantine_has_pending_facts", "quarantine_has_pending_facts")
    return Decision([context.draft(GardenDeleted(garden_id=intent.garden_id))])


def set_member(intent: ask.SetMember, context: Context) -> Decision | Refused:
    """Add a member, change a role, or end a membership; one admin always stays."""
    context.flush()
    if garden_state(context.db, intent.garden_id) is None:
        return GARDEN_NOT_FOUND
    refusal = _admin_refusal(intent.garden_id, intent.admin, context)
    if refusal is not None:
        return refusal
    standing = role_in(context.db, intent.garden_id, intent.entity_uri)
    refusal = _member_refusal(intent, standing, context)
    if refusal is not None:
        return refusal
    if standing == intent.role:
        return Decision([], created=False)
    payload = GardenMemberSet(
        garden_id=intent.garden_id,
        entity_uri=intent.entity_uri,
        added_by=intent.added_by,
        role=intent.role,
    )
    return Decision([context.draft(payload)])


def _member_refusal(
    intent: ask.SetMember, standing: Role | None, context: Context
) -> Refused | None:
    if intent.change == "add" and standing is not None:
        return Refused(
            "already_member",
            f"entity is already a member with role {standing!r}; use PATCH to change role",
            "entity_uri",
        )
    if intent.change != "add" and standing is None:
        return Refused("member_not_found", "member not found", "entity_uri")
    if standing == "admin" and intent.role != "admin":
        others = query_one(context.db, _OTHER_ADMIN, (intent.garden_id, intent.entity_uri))
        return _LAST_ADMIN if others is None else None
    return None


def _admin_refusal(garden_id: str, admin: str | None, context: Context) -> Refused | None:
    """Why ``admin`` may not administer a garden; None stands for an admin of the node."""
    if admin is None:
        return None
    role = role_in(context.db, garden_id, admin)
    if role is None:
        return GARDEN_NOT_FOUND
    return None if role == "admin" else _ADMIN_REQUIRED
