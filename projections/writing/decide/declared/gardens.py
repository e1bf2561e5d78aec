"""Gardens: creation, members, deletion, and who may write in one.

Roles come from the writing transaction, so a removed member cannot write any more. ``member`` None
means the node's own tools, which may do anything.
"""

from uuid import uuid4

import apsw
import msgspec

from engramlog.eventlog.kinds import GardenCreated, GardenDeleted
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import query_one
from engramlog.projections.tables.declared.garden_directory import (
    WRITING_ROLES,
    Role,
    garden_state,
    role_in,
)
from engramlog.projections.writing import commands as ask
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.context import Context, Decision

_SLUG = f"SELECT 1 FROM gardens WHERE slug=? AND to_position={LIVE}"
_TAKEN = "SELECT 1 FROM gardens WHERE id=?"
_OTHER_ADMIN = f"""
SELECT 1 FROM garden_members
WHERE garden_id=? AND entity_uri<>? AND role='admin' AND to_position={LIVE} LIMIT 1
"""
_PENDING = f"""
SELECT 1 FROM fact_rows
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
    """Why ``member`` may not state a fact of this scope in a garden; None if it may.

    To a non-member the garden does not exist.
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
    """Why ``member`` may not end or settle a fact in a garden: ``absent`` if the garden is hidden
    from it. None if it may, and for facts outside gardens."""
    if garden_id is None or member is None:
        return None
    role = role_in(db, garden_id, member)
    if role is None:
        return absent
    return None if role in WRITING_ROLES else WRITE_FORBIDDEN


def create_garden(command: GardenCreated, context: Context) -> Decision | Refused:
    """Create a garden; its slug must be free. If its id is taken, it gets another."""
    context.flush()
    if query_one(context.db, _SLUG, (command.slug,)) is not None:
        return Refused("slug_exists", "slug already exists", "slug")
    if query_one(context.db, _TAKEN, (command.garden_id,)) is not None:
        command = msgspec.structs.replace(command, garden_id=str(uuid4()))
    return Decision([context.draft(command)], detail={"garden_id": command.garden_id})


def delete_garden(command: ask.DeleteGarden, context: Context) -> Decision | Refused:
    """Delete a garden; a quarantine must be empty first."""
    context.flush()
    state = garden_state(context.db, command.garden_id)
    refusal = _admin_refusal(command.garden_id, command.admin, context)
    if state is None or refusal is not None:
        return refusal or GARDEN_NOT_FOUND
    if state[1] and query_one(context.db, _PENDING, (command.garden_id,)) is not None:
        return Refused("quarantine_has_pending_facts", "quarantine_has_pending_facts")
    return Decision([context.draft(GardenDeleted(garden_id=command.garden_id))])


def set_member(command: ask.SetMember, context: Context) -> Decision | Refused:
    """Add a member, change a role, or end a membership; one admin must remain."""
    context.flush()
    member = command.member
    if garden_state(context.db, member.garden_id) is None:
        return GARDEN_NOT_FOUND
    refusal = _admin_refusal(member.garden_id, command.admin, context)
    if refusal is not None:
        return refusal
    standing = role_in(context.db, member.garden_id, member.entity_uri)
    refusal = _member_refusal(command, standing, context)
    if refusal is not None:
        return refusal
    if standing == member.role:
        return Decision([], created=False)
    return Decision([context.draft(member)])


def _member_refusal(
    command: ask.SetMember, standing: Role | None, context: Context
) -> Refused | None:
    if command.change == "add" and standing is not None:
        return Refused(
            "already_member",
            f"entity is already a member with role {standing!r}; use PATCH to change role",
            "entity_uri",
        )
    if command.change != "add" and standing is None:
        return Refused("member_not_found", "member not found", "entity_uri")
    if standing == "admin" and command.member.role != "admin":
        others = query_one(
            context.db, _OTHER_ADMIN, (command.member.garden_id, command.member.entity_uri)
        )
        return _LAST_ADMIN if others is None else None
    return None


def _admin_refusal(garden_id: str, admin: str | None, context: Context) -> Refused | None:
    """Why ``admin`` may not administer a garden; ``admin`` None means an admin of the node."""
    if admin is None:
        return None
    role = role_in(context.db, garden_id, admin)
    if role is None:
        return GARDEN_NOT_FOUND
    return None if role == "admin" else _ADMIN_REQUIRED
