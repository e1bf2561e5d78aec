"""Manifests: their entity puts them, all callers may read them (wire 3.8)."""

from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType
from pydantic import Field, StringConstraints

from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.entity_names import stored_uri
from engramlog.api.http.bodies import parse_json, validated
from engramlog.api.http.call import Call
from engramlog.api.http.errors import ApiError, invalid, plain
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.values import Model
from engramlog.eventlog.identity import Identity
from engramlog.eventlog.kinds import OrgManifestSet
from engramlog.projections.moment import DAY_US, format_instant
from engramlog.projections.rights.capability_token import to_url_text
from engramlog.projections.rights.manifest_document import (
    canonical,
    manifest_fault,
    read_manifest,
)
from engramlog.projections.tables.declared.manifests import load_manifest
from engramlog.projections.writing.peer_commands import PutManifest
from engramlog.replay.federation.declaration import fingerprint, wire_key

routes = Routes("federation")

Text = Annotated[str, StringConstraints(min_length=1, max_length=2_048)]


class RotationEvent(Model, extra="allow"):
    """One change of key, signed by the key that it retires."""

    previous_key_id: Text
    new_key_id: Text
    new_public_key: Text
    previous_public_key: Text | None = None
    rotated_at: Text
    signature: Text


class ManifestBody(Model, extra="allow"):
    """An organisation's statement about its key and its entities."""

    entity_uri: Text
    key_id: Text
    public_key: Text
    issued_at: Text
    expires_at: Text
    entities: list[Text] = Field(default=[], max_length=10_000)
    rotation_events: list[RotationEvent] = Field(default=[], max_length=1_000)
    signature: Text


class ManifestPut(Struct):
    """The manifest in force. No transparency log exists here: ``tl_warning`` says so."""

    entity_uri: str
    key_id: str
    issued_at: str
    expires_at: str
    tl_warning: str


class ManifestAnswer(Struct, kw_only=True):
    """A manifest as signed, complete; ``log_entry`` is null without a transparency log."""

    entity_uri: str
    key_id: str
    public_key: str
    issued_at: str
    expires_at: str
    entities: list[str] | UnsetType = UNSET
    rotation_events: list[dict[str, Any]] | UnsetType = UNSET
    signature: str
    log_entry: dict[str, Any] | None


OWN_LIFETIME_US = 365 * DAY_US
NO_LOG = "no transparency log is configured: only its signature vouches for the manifest"


@routes.add("PUT /v1/federation/manifest", permission="write", body=ManifestBody)
async def put_manifest(call: Call) -> ManifestPut:
    """Put an entity's manifest, replacing its last one."""
    body = parse_json(await call.raw())
    validated(ManifestBody, body, "body")
    entity = stored_uri(body["entity_uri"])
    operator = call.authorization.may("admin") or not call.service.settings.auth_required
    if entity != call.caller.principal and not operator:
        raise ApiError(403, "entity_uri must be the caller's own")
    try:
        manifest = read_manifest(body)
    except ValueError as refused:
        raise _refusal(str(refused)) from refused
    fault = manifest_fault(manifest, call.node.clock.now_us())
    if fault is not None:
        raise _refusal(fault)
    await call.do(
        PutManifest(
            manifest=shaped(manifest, OrgManifestSet, entity_uri=entity),
            rotations=manifest.rotations,
        )
    )
    document = manifest.document
    return ManifestPut(
        entity_uri=document["entity_uri"],
        key_id=document["key_id"],
        issued_at=document["issued_at"],
        expires_at=document["expires_at"],
        tl_warning=NO_LOG,
    )


def _refusal(fault: str) -> ApiError:
    name, _, message = fault.partition(": ")
    return invalid("manifest_invalid", ["body", name], message)


@routes.add(
    "GET /v1/federation/manifest/{entity_uri:.+}",
    permission="read",
    answers={200: ManifestAnswer},
    errors=(400,),
)
async def get_manifest(call: Call) -> dict[str, Any]:
    """The entity's manifest, unless it has expired."""
    entity = stored_uri(call.segment("entity_uri"))
    row = call.node.reader.ask(load_manifest, entity)
    if row is None or row.expires_at_us <= call.node.clock.now_us():
        raise plain("manifest_not_found")
    return {**row.document, "log_entry": None}


@routes.add(
    "GET /.well-known/stigmem-manifest.json",
    permission="none",
    answers={200: ManifestAnswer},
)
async def own_manifest(call: Call) -> dict[str, Any]:
    """This node's statement about its own key; the same all day."""
    day_us = call.node.clock.now_us() // DAY_US * DAY_US
    return {**node_manifest(call.node.identity, day_us), "log_entry": None}


def node_manifest(identity: Identity, issued_us: int) -> dict[str, Any]:
    """A node's own manifest. The signed stream heads already list the key's rotations, in another
    form; the manifest omits them."""
    key = wire_key(identity.public_key_b64)
    unsigned: dict[str, Any] = {
        "entity_uri": identity.node_id,
        "key_id": fingerprint(key),
        "public_key": key,
        "issued_at": format_instant(issued_us),
        "expires_at": format_instant(issued_us + OWN_LIFETIME_US),
        "entities": [identity.node_id],
        "rotation_events": [],
    }
    return {**unsigned, "signature": to_url_text(identity.sign(canonical(unsigned)))}
