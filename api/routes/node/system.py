"""The node itself: discovery, health, who am I, tasks, rebuild, and the API's description."""

import asyncio
from contextlib import suppress
from functools import cache, partial
from importlib.resources import files
from typing import Any, Literal

from aiohttp import web
from msgspec import UNSET, Struct, UnsetType

from engramlog.api.client.discovery import EVENTS_WIRE
from engramlog.api.http.bodies import answer
from engramlog.api.http.call import Call
from engramlog.api.http.routing import Routes
from engramlog.api.node.node_status import status_of_node
from engramlog.api.node.tasks.jobs import Rebuild
from engramlog.api.node.tasks.task import TaskState, TaskStatus
from engramlog.api.routes.recall.embeddings import status_of
from engramlog.api.schemas.rights import TENANT
from engramlog.api.schemas.values import Model, ScopeText
from engramlog.projections.writing.submission import WriterBusy, WriterClosed
from engramlog.replay.federation.declaration import wire_key

routes = Routes("node")

PROTOCOL_VERSION = "1.0"
NAMESPACES = ("stigmem:", "rel:", "memory:", "intent:", "roadmap:", "preference:", "garden:")
SPEC_URL = "https://github.com/eidetic-labs/stigmem/blob/main/spec/stigmem-spec-v1.0.md"
RETRY_SECONDS_MAX = 1.0
"""How long a readiness check waits for a retry of the failed work."""


class RebuildBody(Model, extra="forbid"):
    """``from_scratch``: from the first event, without snapshots."""

    from_scratch: bool = False


class Me(Struct):
    """The caller."""

    entity_uri: str
    permissions: list[str]
    scopes: list[ScopeText]
    oidc_sub: None = None
    tenant_id: str = TENANT


class Health(Struct):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Ready(Struct):
    """``reason`` only if degraded; ``scopes`` only if the node holds a part of its log.
    ``clock_behind_s``: seconds by which this machine's clock is behind the log's, which never goes
    back."""

    status: Literal["ok", "degraded"]
    position: int
    clock_behind_s: float
    projections: dict[str, Any]
    embedding: dict[str, Any]
    tasks: dict[str, TaskState]
    replica: dict[str, Any] | UnsetType = UNSET
    scopes: list[str] | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class TaskList(Struct):
    """Every task, in start order."""

    tasks: list[TaskStatus]


class NodeInfo(Struct, kw_only=True, rename={"wire": EVENTS_WIRE}):
    """Discovery, in the protocol's order."""

    version: str
    node_id: str
    node_url: str
    auth: Literal["none", "required"]
    federation: Literal["disabled", "enabled"] = "disabled"
    federation_pubkey: str | UnsetType = UNSET
    federation_version: str | UnsetType = UNSET
    federation_endpoints: dict[str, str | None] | UnsetType = UNSET
    source_attestation: str
    namespaces: tuple[str, ...]
    spec: str
    cors: dict[str, bool]
    embedding: dict[str, Any]
    wire: int | UnsetType = UNSET


_READY_EMBEDDING = ("provider", "model", "dimensions", "lag", "error")


@routes.add("GET /.well-known/stigmem", permission="none", delegable=True)
async def discovery(call: Call) -> NodeInfo:
    """The node's identity and abilities."""
    settings = call.service.settings
    embedding = status_of(call)
    info = NodeInfo(
        version=PROTOCOL_VERSION,
        node_id=call.node.node_id,
        node_url=settings.public_url,
        auth="required" if settings.auth_required else "none",
        source_attestation="required" if settings.attestation_required else "off",
        namespaces=NAMESPACES,
        spec=SPEC_URL,
        cors={
            "dev_localhost": settings.cors_dev_localhost,
            "configured": call.service.browsers.configured,
        },
        embedding={
            name: getattr(embedding, name)
            for name in ("model", "dimensions", "truncated_dimensions")
        },
    )
    if settings.federation_enabled:  # for peers
        push = "/v1/federation/facts/push" if settings.federation_push_enabled else None
        info.federation = "enabled"
        info.federation_pubkey = wire_key(call.node.identity.public_key_b64)
        info.federation_version = "0.5"
        info.federation_endpoints = {
            "peers": "/v1/federation/peers",
            "facts": "/v1/federation/facts",
            "push": push,
        }
        info.wire = 1
    return info


@routes.add("GET /v1/health", "GET /healthz", permission="none", delegable=True)
async def health(_: Call) -> Health:
    """The process answers."""
    return Health()


@routes.add("GET /readyz", permission="none", answers={200: Ready, 503: Ready}, delegable=True)
async def ready(call: Call) -> web.Response:
    """Whether the node can serve reads and writes; 503 if it is degraded. Retries failed work
    first."""
    status, embedding = status_of_node(call.node), status_of(call)
    if status["degraded"] is not None:
        with suppress(WriterBusy, WriterClosed):
            retry = asyncio.wrap_future(call.node.writer.retry())
            await asyncio.wait([retry], timeout=RETRY_SECONDS_MAX)
        status = status_of_node(call.node)
    reason = status["degraded"]
    body = Ready(
        status="ok" if reason is None else "degraded",
        position=status["position"],
        clock_behind_s=status["clock_behind_s"],
        projections=status["projections"],
        embedding={name: getattr(embedding, name) for name in _READY_EMBEDDING},
        tasks={each.name: each.state for each in call.service.tasks.statuses()},
        replica=status.get("replica", UNSET),
        scopes=status.get("scopes", UNSET),
        reason=UNSET if reason is None else reason,
    )
    return answer(body, 200 if reason is None else 503)


@routes.add("GET /v1/me", permission="any", delegable=True)
async def me(call: Call) -> Me:
    """The caller's identity and rights."""
    rights = call.authorization
    return Me(rights.principal, sorted(rights.permissions), sorted(rights.scopes))


@routes.add("POST /v1/admin/rebuild", permission="admin", body_required=False, status=202)
async def start_rebuild(call: Call, body: RebuildBody) -> Rebuild:
    """Rebuild the projections in the background; GET shows the progress."""
    call.service.rebuilds.begin(partial(call.node.rebuild, from_scratch=body.from_scratch))
    return call.service.rebuilds.record()


@routes.add("GET /v1/admin/rebuild", permission="admin")
async def rebuild_progress(call: Call) -> Rebuild:
    """The progress of the rebuild, or the outcome of the last one."""
    return call.service.rebuilds.record()


@routes.add("GET /v1/admin/tasks", permission="admin")
async def list_tasks(call: Call) -> TaskList:
    """Every task of the node, its state, and why its last attempt failed."""
    return TaskList(call.service.tasks.statuses())


@routes.add("GET /openapi.json", permission="none", answers={200: "OpenAPI 3.1"}, delegable=True)
async def openapi(call: Call) -> web.Response:
    """This API as OpenAPI 3.1, generated from the route table."""
    document = await asyncio.to_thread(call.service.document)
    return web.Response(body=document, content_type="application/json")


@routes.add("GET /docs", permission="none", answers={200: None}, delegable=True)
async def docs(_: Call) -> web.Response:
    """The API's documentation on one self-contained page."""
    return web.Response(
        body=_docs_page(),
        content_type="text/html",
        charset="utf-8",
        headers={
            "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
            "script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'"
        },
    )


@cache
def _docs_page() -> bytes:
    return files("engramlog.api").joinpath("web", "docs.html").read_bytes()
