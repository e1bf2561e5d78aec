"""Gardens and their members over HTTP (wire 2.2, 4)."""

from __future__ import annotations

from typing import Literal

from aiohttp import web

from api.bodies import answer
from api.call import Call, warned
from api.commands.gardening import (
    admin_of,
    entered_garden,
    garden_record,
    known_garden,
    member_record,
)
from api.commands.naming import stored_uri
from api.errors import plain
from api.schemas.gardens import GardenRequest, MemberRequest, RoleRequest
from eventlog.kinds import GardenRole
from projections.garden_directory import Garden, Member
from projections.intents import CreateGarden, DeleteGarden, SetMember


async def create_garden(call: Call) -> web.Response:
    """Make a garden; the caller becomes its first admin."""
    request = await call.body(GardenRequest)
    call.check_scope(request.scope)
    intent = CreateGarden(
        slug=request.slug,
        name=request.name,
        scope=request.scope,
        created_by=call.caller.principal,
        description=request.description,
        quarantine=request.quarantine,
    )
    done = await call.do(intent)
    garden = call.node.reader.gardens.find(done.detail["garden_id"])
    if garden is None:  # deleted in the meantime
        raise plain("garden_not_found")
    return answer(warned(garden_record(call, garden), request), 201)


async def list_gardens(call: Call) -> web.Response:
    """The gardens the caller is a member of; all of them to an admin of the node."""
    rights = call.authorization
    everything = rights.every_garden or rights.may("admin")
    return answer(
        [
            garden_record(call, garden)
            for garden in call.node.reader.gardens.list()
            if everything or garden.id in rights.gardens
        ]
    )


async def get_garden(call: Call) -> web.Response:
    """One garden by slug or id."""
    return answer(garden_record(call, known_garden(call, call.segment("garden_id"))))


async def delete_garden(call: Call) -> web.Response:
    """The garden is gone; what it held is nobody's to see any more."""
    garden = known_garden(call, call.segment("garden_id"))
    await call.do(DeleteGarden(garden_id=garden.id, admin=admin_of(call)))
    return web.Response(status=204)


async def list_members(call: Call) -> web.Response:
    """Who is in a garden."""
    garden = known_garden(call, call.segment("garden_id"))
    if not call.authorization.may("admin"):
        garden = entered_garden(call, garden.id)
    return answer([member_record(member) for member in garden.members])


async def add_member(call: Call) -> web.Response:
    """Let an entity into a garden."""
    request = await call.body(MemberRequest)
    member = await _set(call, stored_uri(request.entity_uri), "add", request.role)
    return answer(warned(member_record(member), request), 201)


async def change_member(call: Call) -> web.Response:
    """Give a member another role."""
    request = await call.body(RoleRequest)
    member = await _set(call, stored_uri(call.segment("entity_uri")), "change", request.role)
    return answer(warned(member_record(member), request))


async def remove_member(call: Call) -> web.Response:
    """End a membership."""
    garden = known_garden(call, call.segment("garden_id"))
    await call.do(_change(call, garden, stored_uri(call.segment("entity_uri")), "remove", None))
    return web.Response(status=204)


async def _set(
    call: Call, entity_uri: str, change: Literal["add", "change"], role: GardenRole
) -> Member:
    garden = known_garden(call, call.segment("garden_id"))
    await call.do(_change(call, garden, entity_uri, change, role))
    now = call.node.reader.gardens.find(garden.id)
    members = () if now is None else now.members
    for member in members:
        if member.entity_uri == entity_uri:
            return member
    raise plain("member_not_found")  # removed in the meantime


def _change(
    call: Call,
    garden: Garden,
    entity_uri: str,
    change: Literal["add", "change", "remove"],
    role: GardenRole | None,
) -> SetMember:
    return SetMember(
        garden_id=garden.id,
        entity_uri=entity_uri,
        added_by=call.caller.principal,
        change=change,
        role=role,
        admin=admin_of(call),
    )
