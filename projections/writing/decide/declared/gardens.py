"""Gardens: creation, members, deletion, and who may write in one.

Roles come from the writing transaction, so a removed member cannot write any more.
"""

from uuid import uuid4

import msgspec

from engramlog.eventlog.kinds import GardenCreated, GardenDeleted, GardenRole
from engramlog.projections.authorization import Authorization
from engramlog.projections.moment import LIVE
from engramlog.projections.tables.database import query_one
from engramlog.projections.tables.declared.garden_directory import (
    WRITING_ROLES,
    garden_state,
    role_in,
)
from engramlog.projections.writing import commands as ask
from engramlog.projections.writing.commands import CommandRefused, Refused
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
_ADMIN_REQUIRED = Refused("garden_admin_required", "garden admin permission required")
_LAST_ADMIN = Refused(
    "last_garden_admin",
    "cannot remove or demote the last admin; promote another member first",
)


def role_of(context: Context, rights: Authorization | None, garden_id: str) -> GardenRole | None:
    """The caller's role in a garden. The machine's owner and the node's own tools are admins."""
    if rights is None or rights.every_garden:
        return "admin"
    return role_in(context.db, garden_id, rights.principal)


def write_forbidden(role: GardenRole) -> Refused:
    """Why a member of this role may not do it."""
    message = f"write permission required — you are a {role} in this garden"
    return Refused("garden_write_forbidden", message)


def check_writing(
    context: Context, rights: Authorization | None, garden_id: str | None, scope: str
) -> None:
    """Raises CommandRefused if the caller may not state a fact of this scope in a garden. Outside
    gardens it may. To a non-member the garden does not exist."""
    if garden_id is None:
        return
    state = garden_state(context.db, garden_id)
    if state is None:
        raise CommandRefused(GARDEN_NOT_FOUND)
    check_touching(context, rights, garden_id, GARDEN_NOT_FOUND)
    if state[0] != scope:
        message = f"scope mismatch: garden scope is {state[0]!r} but fact scope is {scope!r}"
        raise CommandRefused(Refused("garden_scope_mismatch", message, "scope"))


def check_touching(
    context: Context, rights: Authorization | None, garden_id: str | None, absent: Refused
) -> None:
    """Raises CommandRefused if the caller may not end or settle a fact in a garden: ``absent`` if
    the garden is hidden from it. Outside gardens it may."""
    if garden_id is None:
        return
    role = role_of(context, rights, garden_id)
    if role not in WRITING_ROLES:
        raise CommandRefused(absent if role is None else write_forbidden(role))


def create_garden(command: GardenCreated, context: Context) -> Decision | Refused:
    """Create a garden; its slug must be free. If its id is taken, it gets another."""
    if query_one(context.db, _SLUG, (command.slug,)) is not None:
        return Refused("slug_exists", "slug already exists", "slug")
    if query_one(context.db, _TAKEN, (command.garden_id,)) is not None:
        command = msgspec.structs.replace(command, garden_id=str(uuid4()))
    return Decision([context.draft(command)], detail={"garden_id": command.garden_id})


def delete_garden(command: ask.DeleteGarden, context: Context) -> Decision | Refused:
    """Delete a garden; a quarantine must be empty first."""
    state = garden_state(context.db, command.garden_id)
    _check_admin(command.garden_id, command.rights, context)
    if state is None:
        return GARDEN_NOT_FOUND
    if state[1] and query_one(context.db, _PENDING, (command.garden_id,)) is not None:
        return Refused("quarantine_has_pending_facts", "quarantine_has_pending_facts")
    return Decision([context.draft(GardenDeleted(garden_id=command.garden_id))])


def set_member(command: ask.SetMember, context: Context) -> Decision | Refused:
    """Add a member, change a role, or end a membership; one admin must remain."""
    member = command.member
    if garden_state(context.db, member.garden_id) is None:
        return GARDEN_NOT_FOUND
    _check_admin(member.garden_id, command.rights, context)
    standing = role_in(context.db, member.garden_id, member.entity_uri)
    _check_change(command, standing, context)
    if standing == member.role:
        return Decision([], created=False)
    return Decision([context.draft(member)])


def _check_change(command: ask.SetMember, standing: GardenRole | None, context: Context) -> None:
    if command.change == "add" and standing is not None:
        message = f"entity is already a member with role {standing!r}; use PATCH to change role"
        raise CommandRefused(Refused("already_member", message, "entity_uri"))
    if command.change != "add" and standing is None:
        raise CommandRefused(Refused("member_not_found", "member not found", "entity_uri"))
    if standing == "admin" and command.member.role != "admin":
        who = (command.member.garden_id, command.member.entity_uri)
        if query_one(context.db, _OTHER_ADMIN, who) is None:
            raise CommandRefused(_LAST_ADMIN)


def _check_admin(garden_id: str, rights: Authorization | None, context: Context) -> None:
    """Raises CommandRefused if the caller may administer neither the node nor this garden."""
    if rights is not None and rights.may("admin"):
        return
    role = role_of(context, rights, garden_id)
    if role != "admin":
        raise CommandRefused(GARDEN_NOT_FOUND if role is None else _ADMIN_REQUIRED)
