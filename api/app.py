"""The HTTP application: the route table turned into a server.

Each request goes identify → permission → handler → answer, and every failure leaves
through ``errors``. Paths are matched as sent: ``//`` in a raw URI stays.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from time import perf_counter

from aiohttp import web
from msgspec import json

from api.auth import identify, require
from api.background_job import BackgroundJob
from api.bodies import answer
from api.call import Call, Service
from api.chain_proof import FactChains
from api.cleaning import cleaning_of
from api.commit_watch import CommitWatch
from api.cursors import CursorSealer
from api.delegation import DELEGABLE
from api.delivery.deliverer import Deliverer
from api.errors import ApiError, coded, from_typed
from api.issuers import issuers_of
from api.jobs import Jobs
from api.memory.consolidator import Consolidator
from api.memory.scheduler import ConsolidationScheduler
from api.metrics import Metrics
from api.node import Node
from api.openapi import build_openapi
from api.peering import Peers
from api.protocol_federation import ProtocolFederation
from api.quotas import Quotas, dimension_of
from api.recall_workers.pool import RecallWorkers
from api.route_table import ROUTES
from api.routing import Route
from api.sealing import Sealer
from api.sessions import Sessions
from api.settings import Settings
from api.snapshotting import Snapshotting
from api.summary_folder import SummaryFolder
from api.tracking import RecallTracker
from projections.archive.archive import Archive
from projections.audit.desk import AuditDesk
from projections.capabilities.token import BEARER_PREFIX
from projections.cards.serving import Cards

READ_THREADS = 4
STAGE_THREADS = 8
SERVICE = web.AppKey("service", Service)

_log = logging.getLogger(__name__)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_PLAIN_DETAIL = {404: "Not Found", 405: "Method Not Allowed"}


def create_app(
    node: Node, settings: Settings, *, control_token: str | None = None
) -> web.Application:
    """The application over an open node. The node stays the caller's to close.

    ``control_token``: a bearer token with every right, for the machine's own command line.
    """
    service = create_service(node, settings, control_token=control_token)
    app = web.Application(middlewares=[_guard], client_max_size=settings.request_body_bytes_max)
    app[SERVICE] = service
    for route in ROUTES:
        _add(app, route)
    app.cleanup_ctx.append(_lifetime)
    app.on_shutdown.append(_release_waiting)
    return app


def create_service(node: Node, settings: Settings, *, control_token: str | None = None) -> Service:
    """What the handlers share. Nothing of it runs yet."""
    archive = Archive(node.directory.path, node.log)
    desk = AuditDesk(archive)
    tracker = RecallTracker(node.writer, settings.recall_track_interval_s)
    consolidator = Consolidator(node)
    peers = Peers(node, settings)
    commits = CommitWatch()
    return Service(
        node=node,
        settings=settings,
        cursors=CursorSealer(node.cursor_key, settings.cursor_ttl_s * 1_000_000),
        sessions=Sessions(),
        jobs=Jobs(),
        quotas=Quotas(settings.quota_reads_per_hour, settings.quota_writes_per_hour),
        cards=Cards(
            node.reader.rows,
            node.reader.pin,
            node.clock.now_us,
            node.reader.slot_of,
            max_age_s=settings.card_max_age_s,
            queue_max=settings.card_queue_max,
            vectors=lambda: None if node.embeddings is None else node.embeddings.cards,
        ),
        tracker=tracker,
        cleaning=cleaning_of(node, archive, desk, tracker.flush),
        metrics=Metrics(),
        rebuilds=BackgroundJob("rebuild", "events", node.clock.now_us),
        snapshots=Snapshotting(node, settings.snapshots_every_events, settings.snapshots_keep),
        reindexing=BackgroundJob("reindex", "facts", node.clock.now_us),
        chains=FactChains(),
        archive=archive,
        desk=desk,
        consolidator=consolidator,
        scheduler=ConsolidationScheduler(
            node, consolidator, enabled=settings.consolidation_enabled
        ),
        pool=ThreadPoolExecutor(READ_THREADS, thread_name_prefix="read"),
        stage_pool=ThreadPoolExecutor(STAGE_THREADS, thread_name_prefix="stage"),
        openapi=_openapi,
        recalls=RecallWorkers(node, settings, settings.recall_workers),
        control_token=control_token,
        commits=commits,
        deliverer=Deliverer(node, settings, commits),
        federation=ProtocolFederation(node, settings, peers),
        peers=peers,
    )


@cache
def _openapi() -> bytes:
    """The routes described; made when it is first asked for, as few starts need it."""
    return json.encode(build_openapi(ROUTES))


def _add(app: web.Application, route: Route) -> None:
    handler = _serve(route)
    app.router.add_route(route.method, route.path, handler)
    if route.method == "GET":
        app.router.add_route("HEAD", route.path, handler)


def _serve(route: Route) -> _Handler:
    """The route's handler behind identification and its permission."""

    dimension = dimension_of(route.method, route.permission)

    async def serve(request: web.Request) -> web.StreamResponse:
        service = request.app[SERVICE]
        node = service.node
        header = request.headers.get("Authorization")
        caller = identify(
            header,
            node.reader.keys,
            node.reader.gardens,
            node.clock.now_us(),
            required=service.settings.auth_required and route.permission not in ("none", "peer"),
            control_token=service.control_token,
            capabilities=node.reader.capabilities,
            issuers=issuers_of(node) if header and BEARER_PREFIX in header else None,
        )
        if caller.capability is not None and (route.method, route.path) not in DELEGABLE:
            raise coded("not_delegable", "this route does not take a capability")
        if route.permission not in ("none", "any", "peer"):
            require(caller, route.permission)
        if caller.charged is not None and route.permission != "none":
            service.quotas.take(caller.charged, dimension)
        return await route.handler(Call(request, service, caller))

    return serve


@web.middleware
async def _guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Turn failures into answers, and count every request."""
    started = perf_counter()
    status = 500
    try:
        response = await _answered(request, handler)
        status = response.status
        return response
    finally:
        resource = request.match_info.route.resource
        pattern = "unmatched" if resource is None else resource.canonical
        method = request.method if request.method in _METHODS else "other"
        seconds = perf_counter() - started
        request.app[SERVICE].metrics.observe(pattern, method, status, seconds)


async def _answered(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as fault:
        return _failure(fault)
    except web.HTTPException as fault:
        if fault.status < 400:
            raise
        kept = {name: fault.headers[name] for name in ("Allow",) if name in fault.headers}
        detail = _PLAIN_DETAIL.get(fault.status, fault.reason)
        return answer({"detail": detail}, fault.status, kept)
    except Exception as fault:
        known = from_typed(fault)
        if known is not None:
            return _failure(known)
        error_id = secrets.token_hex(8)
        _log.exception("error %s at %s %s", error_id, request.method, request.path)
        return answer(
            {
                "detail": {
                    "code": "internal_error",
                    "message": "the node failed to answer; its log has the cause",
                    "error_id": error_id,
                }
            },
            500,
        )


def _failure(fault: ApiError) -> web.Response:
    headers = dict(fault.headers)
    if fault.status == 503:
        headers.setdefault("Retry-After", "1")
    return answer(fault.body(), fault.status, headers)


async def _release_waiting(app: web.Application) -> None:
    """A stop waits for running requests, and these would wait for the log."""
    app[SERVICE].commits.stop()


async def _lifetime(app: web.Application) -> AsyncIterator[None]:
    """Start the background tasks with the app; at the end flush and stop them."""
    service = app[SERVICE]
    service.cards.start()
    service.node.reader.followers.append(service.cards.committed)
    service.commits.start()
    service.node.reader.followers.append(service.commits.committed)
    await service.tracker.start()
    await service.federation.start()
    service.peers.start()
    await service.deliverer.start()
    sealer = Sealer(service.archive)
    await sealer.start()
    await service.cleaning.start()
    await service.snapshots.start()
    await service.scheduler.start()
    summaries = SummaryFolder(service.node, service.settings)
    await summaries.start()
    yield
    await summaries.stop()
    await service.scheduler.stop()
    await service.deliverer.stop()
    await service.federation.stop()
    await asyncio.to_thread(service.peers.stop)
    await service.snapshots.stop()
    await service.cleaning.stop()
    await sealer.stop()
    await service.recalls.stop()
    await service.jobs.stop()
    await service.rebuilds.stop()
    if service.node.embeddings is not None:
        service.node.embeddings.stop_reindexing()
    await service.reindexing.stop()
    await service.tracker.stop()
    service.node.reader.followers.remove(service.cards.committed)
    service.node.reader.followers.remove(service.commits.committed)
    await asyncio.to_thread(service.cards.close)
    service.pool.shutdown(wait=True, cancel_futures=True)
    service.desk.close()
    service.stage_pool.shutdown(wait=True, cancel_futures=True)
