"""Gardens and their members over HTTP (wire 2.2, 4)."""

from typing import Literal
from uuid import uuid4

from engramlog.api.answers.fact_record import Warned
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.entity_names import stored_uri
from engramlog.api.commands.garden_access import entered_garden, garden_uri, known_garden
from engramlog.api.http.call import Call
from engramlog.api.http.errors import existing, plain
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.rights import GardenRequest, MemberRequest, RoleRequest
from engramlog.api.schemas.values import ScopeText
from engramlog.eventlog.kinds import GardenCreated, GardenMemberSet, GardenRole
from engramlog.projections.tables.declared.garden_directory import Garden, Member
from engramlog.projections.writing.commands import DeleteGarden, SetMember

routes = Routes("gardens")


class GardenMember(Warned):
    """A garden's member, its role, and who added it."""

    entity_uri: str
    role: GardenRole
    added_by: str
    added_at: str


class GardenRecord(Warned):
    """``id`` is the uuid that facts carry as ``garden_id``; here that is the garden's URI."""

    id: str
    garden_id: str
    slug: str
    name: str
    scope: ScopeText
    description: str | None
    created_by: str
    created_at: str
    members: list[GardenMember]
    quarantine: bool


@routes.add("POST /v1/gardens", permission="write", status=201)
async def create_garden(call: Call, request: GardenRequest) -> GardenRecord:
    """Create a garden; the caller becomes its first admin."""
    call.check_scope(request.scope)
    command = shaped(
        request, GardenCreated, garden_id=str(uuid4()), created_by=call.caller.principal
    )
    done = await call.do(command)
    garden = existing(call.node.reader.gardens.find(done.detail["garden_id"]), "garden_not_found")
    return _garden(call, garden)


@routes.add("GET /v1/gardens", permission="read")
def list_gardens(call: Call) -> list[GardenRecord]:
    """The gardens of which the caller is a member; all of them for admins of the node."""
    rights = call.authorization
    everything = rights.every_garden or rights.may("admin")
    return [
        _garden(call, garden)
        for garden in call.node.reader.gardens.list()
        if everything or garden.id in rights.gardens
    ]


@routes.add("GET /v1/gardens/{garden_id}", permission="read")
async def get_garden(call: Call) -> GardenRecord:
    """One garden by slug or id."""
    return _garden(call, known_garden(call, call.segment("garden_id")))


@routes.add("DELETE /v1/gardens/{garden_id}", permission="write", status=204)
async def delete_garden(call: Call) -> None:
    """Delete a garden; its facts are hidden from every caller."""
    garden = known_garden(call, call.segment("garden_id"))
    await call.do(DeleteGarden(garden_id=garden.id, rights=call.authorization))


@routes.add("GET /v1/gardens/{garden_id}/members", permission="read")
def list_members(call: Call) -> list[GardenMember]:
    """The members of a garden."""
    garden = known_garden(call, call.segment("garden_id"))
    if not call.authorization.may("admin"):
        garden = entered_garden(call, garden.id)
    return [shaped(member, GardenMember) for member in garden.members]


@routes.add("POST /v1/gardens/{garden_id}/members", permission="write", status=201)
async def add_member(call: Call, request: MemberRequest) -> GardenMember:
    """Add an entity to a garden."""
    member = await _set(call, stored_uri(request.entity_uri), "add", request.role)
    return shaped(member, GardenMember)


@routes.add("PATCH /v1/gardens/{garden_id}/members/{entity_uri:.+}", permission="write")
async def change_member(call: Call, request: RoleRequest) -> GardenMember:
    """Give a member another role."""
    member = await _set(call, stored_uri(call.segment("entity_uri")), "change", request.role)
    return shaped(member, GardenMember)


@routes.add(
    "DELETE /v1/gardens/{garden_id}/members/{entity_uri:.+}",
    permission="write",
    status=204,
    errors=(400,),
)
async def remove_member(call: Call) -> None:
    """Remove a member."""
    garden = known_garden(call, call.segment("garden_id"))
    await call.do(_change(call, garden, stored_uri(call.segment("entity_uri")), "remove", None))


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
    raise plain("member_not_found")  # removed meanwhile


def _change(
    call: Call,
    garden: Garden,
    entity_uri: str,
    change: Literal["add", "change", "remove"],
    role: GardenRole | None,
) -> SetMember:
    member = GardenMemberSet(
        garden_id=garden.id, entity_uri=entity_uri, added_by=call.caller.principal, role=role
    )
    return SetMember(member=member, change=change, rights=call.authorization)


def _garden(call: Call, garden: Garden) -> GardenRecord:
    return shaped(
        garden,
        GardenRecord,
        garden_id=garden_uri(call, garden.slug),
        members=[shaped(member, GardenMember) for member in garden.members],
    )
