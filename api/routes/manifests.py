"""Manifests: put by their entity, served to everybody who asks (wire 3.8)."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from api.bodies import answer, parse_json, validated
from api.call import Call
from api.commands.naming import stored_uri
from api.errors import ApiError, entry, plain, unprocessable
from api.schemas.manifests import ManifestBody
from eventlog.identity import Identity
from projections.capabilities.token import to_url_text
from projections.intents import PutManifest
from projections.manifests.document import Manifest, canonical, manifest_fault, read_manifest
from projections.moment import format_instant
from replay.federation.declaration import fingerprint, wire_key

DAY_US = 86_400_000_000
OWN_LIFETIME_US = 365 * DAY_US
NO_LOG = "no transparency log is configured: the manifest is vouched for by its signature alone"


async def put_manifest(call: Call) -> web.Response:
    """Take a manifest in the place of the entity's last one."""
    body = parse_json(await call.raw())
    validated(ManifestBody, body, "body")
    entity = stored_uri(body["entity_uri"])
    if entity != call.caller.principal and not call.authorization.may("admin"):
        raise ApiError(403, "entity_uri must be the caller's own")
    manifest = _read(body)
    fault = manifest_fault(manifest, call.node.clock.now_us())
    if fault is not None:
        raise _refusal(fault)
    await call.do(
        PutManifest(
            entity_uri=entity,
            key_id=manifest.key_id,
            public_key=manifest.public_key,
            issued_at_us=manifest.issued_at_us,
            expires_at_us=manifest.expires_at_us,
            rotations=manifest.rotations,
            document=manifest.document,
        )
    )
    names = ("entity_uri", "key_id", "issued_at", "expires_at")
    return answer({**{name: manifest.document[name] for name in names}, "tl_warning": NO_LOG})


def _read(body: dict[str, Any]) -> Manifest:
    try:
        return read_manifest(body)
    except ValueError as fault:
        raise _refusal(str(fault)) from fault


def _refusal(fault: str) -> ApiError:
    name, _, message = fault.partition(": ")
    return unprocessable([entry("manifest_invalid", ["body", name], message)])


async def get_manifest(call: Call) -> web.Response:
    """The entity's manifest, unless it has expired."""
    entity = stored_uri(call.segment("entity_uri"))
    row = call.node.reader.manifest(entity)
    if row is None or row.expires_at_us <= call.node.clock.now_us():
        raise plain("manifest_not_found")
    return answer({**row.document, "log_entry": None})


async def own_manifest(call: Call) -> web.Response:
    """What this node states about its own key; the same all day."""
    day_us = call.node.clock.now_us() // DAY_US * DAY_US
    return answer({**node_manifest(call.node.identity, day_us), "log_entry": None})


def node_manifest(identity: Identity, issued_us: int) -> dict[str, Any]:
    """A node's own manifest. Its key's rotations are in every statement of its stream heads,
    signed in another form, so none are repeated here."""
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
