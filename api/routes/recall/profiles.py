"""Recall profiles: built-in ones, and those in the node's log."""

from typing import Any, Literal, TypeAlias

from msgspec import Struct
from pydantic import RootModel

from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded, invalid, invalid_at
from engramlog.api.http.routing import Routes
from engramlog.eventlog.kinds import ProfileSet
from engramlog.projections.recall.profile import (
    ProfileError,
    UnknownProfile,
    built_in_document,
    parse_profile,
    profile_names,
)

routes = Routes("recall")

Origin: TypeAlias = Literal["built-in", "installed"]


class ProfileRecord(Struct):
    """One profile in full."""

    name: str
    description: str | None
    origin: Origin
    document: dict[str, Any]


class Profiles(Struct):
    """Recall profiles this node can answer with."""

    profiles: list[ProfileRecord]
    default: str


class ProfileDocument(RootModel[dict[str, Any]]):
    """A profile as ``GET /v1/profiles/{name}`` shows it under ``document``."""


@routes.add("GET /v1/profiles", permission="read", delegable=True)
async def list_profiles(call: Call) -> Profiles:
    """The recall profiles of this node in full, by name."""
    found = {name: _listed(name, built_in_document(name), "built-in") for name in profile_names()}
    installed = call.node.reader.profiles(call.view().position)
    found |= {name: _listed(name, document, "installed") for name, document in installed.items()}
    listed = [found[name] for name in sorted(found)]
    return Profiles(listed, call.service.settings.recall_profile)


@routes.add("GET /v1/profiles/{name}", permission="read", delegable=True)
async def get_profile(call: Call) -> ProfileRecord:
    """One recall profile."""
    name = call.segment("name")
    installed = call.node.reader.profiles(call.view().position)
    if name in installed:
        return _listed(name, installed[name], "installed")
    try:
        return _listed(name, built_in_document(name), "built-in")
    except UnknownProfile as fault:
        raise coded("profile_not_found", str(fault)) from fault


@routes.add("PUT /v1/profiles/{name}", permission="operator", headers=("Idempotency-Key",))
async def put_profile(call: Call, body: ProfileDocument) -> ProfileRecord:
    """Install a recall profile, replacing any of that name."""
    name, document = call.segment("name"), body.root
    document.setdefault("name", name)
    if document["name"] != name:
        raise invalid("value_error", ["body", "name"], f"must be {name!r}, as in the path")
    try:
        parse_profile(document)
    except ProfileError as fault:
        raise invalid_at("invalid_profile", fault.path, fault.reason) from fault
    await call.do(ProfileSet(name=name, document=document), idempotency=call.idempotency())
    return _listed(name, document, "installed")


@routes.add("DELETE /v1/profiles/{name}", permission="operator", status=204)
async def delete_profile(call: Call) -> None:
    """Remove an installed recall profile; a built-in one of that name takes over again."""
    name = call.segment("name")
    if name not in call.node.reader.profiles(call.view().position):
        raise coded("profile_not_found", f"no recall profile {name!r} to remove")
    await call.do(ProfileSet(name=name, document=None))


def _listed(name: str, document: dict[str, Any], origin: Origin) -> ProfileRecord:
    return ProfileRecord(name, document.get("description"), origin, document)
