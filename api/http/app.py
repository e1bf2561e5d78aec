"""The HTTP application: the route table turned into a server.

Each request goes identify → permission → handler → answer, and every failure leaves
through ``errors``. Paths match as sent: ``//`` in a raw URI stays.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import cache
from time import perf_counter

from aiohttp import web
from msgspec import Struct, json

from engramlog.api.http.auth import PRINCIPAL, KnownCallers, identify, of_held_scopes, require
from engramlog.api.http.bodies import DirectResponse, answer
from engramlog.api.http.call import Call, note_unread, parameters_of
from engramlog.api.http.compression import compress, is_large
from engramlog.api.http.connections import connection_of
from engramlog.api.http.errors import ApiError, coded, from_typed
from engramlog.api.http.minimum_position import at_position, names_position, note_position
from engramlog.api.http.openapi import DOCUMENT, build_openapi
from engramlog.api.http.routing import Route
from engramlog.api.http.state.quotas import dimension_of
from engramlog.api.node.issuers import issuers_of
from engramlog.api.node.node import Node
from engramlog.api.node.service import Service
from engramlog.api.routes.table import ROUTES
from engramlog.api.settings import Settings
from engramlog.eventlog.held_scopes import EVERY_SCOPE
from engramlog.eventlog.struct_types import complete_struct_types
from engramlog.projections.rights.capability_token import BEARER_PREFIX

SERVICE = web.AppKey("service", Service)

_log = logging.getLogger(__name__)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_WITH_BODY = (DirectResponse, web.Response)
"""The most frequent class first: only an exact class is found fast."""
_PLAIN_DETAIL = {404: "Not Found", 405: "Method Not Allowed"}


def create_app(
    node: Node, settings: Settings, *, control_token: str | None = None
) -> web.Application:
    """The application over an open node. The caller closes the node. ``control_token``: a bearer
    token with every right, for the machine's own command line."""
    complete_struct_types()
    service = Service(node, settings, control_token=control_token)
    resources, patterns = routing()
    app = web.Application(
        middlewares=[web.middleware(_Guard(service, patterns))],
        client_max_size=settings.request_body_bytes_max,
    )
    app[SERVICE] = service
    app[_SERVING] = _Serving(service, KnownCallers())
    app[DOCUMENT] = _document
    for resource in resources:
        app.router.register_resource(resource)
    app.cleanup_ctx.append(_lifetime)
    app.on_shutdown.append(_release_waiting)
    return app


@cache
def _document() -> bytes:
    return json.encode(build_openapi(ROUTES))


@cache
def routing() -> tuple[Sequence[web.AbstractResource], Mapping[_Handler, str]]:
    """The route table's resources, which applications share, and each handler's path."""
    router = web.UrlDispatcher()
    patterns: dict[_Handler, str] = {}
    # One resource for all methods of a path: the router tries a path's resources in turn.
    at = {path: router.add_resource(path) for path in dict.fromkeys(each.path for each in ROUTES)}
    for route in ROUTES:
        handler = _serve(route)
        patterns[handler] = route.path
        at[route.path].add_route(route.method, handler)
        if route.method == "GET":
            at[route.path].add_route("HEAD", handler)
    return [*router.resources()], patterns


class _Serving:
    """What a handler knows of its application."""

    def __init__(self, service: Service, known: KnownCallers) -> None:
        self.service = service
        self.node = service.node
        self.held = service.node.log.held
        self.keys_required = service.settings.auth_required
        self.known = known


_SERVING = web.AppKey("serving", _Serving)


def _serve(route: Route) -> _Handler:
    """The route's handler behind identification and its permission."""

    permission = route.permission
    dimension = dimension_of(route.method, permission)
    parameters = frozenset[str]() if route.query is None else parameters_of(route.query)
    open_to_all = permission in ("none", "peer")
    allowed = None if permission in ("none", "any", "peer", "operator") else permission

    async def serve(request: web.Request) -> web.StreamResponse:
        serving = request.app[_SERVING]
        service, node, held = serving.service, serving.node, serving.held
        needed = allowed
        if permission == "operator" and serving.keys_required:
            needed = "admin"
        header = request.headers.get("Authorization")
        reader = node.reader
        caller = identify(
            header,
            reader.keys,
            reader.gardens,
            node.clock.now_us(),
            required=serving.keys_required and not open_to_all,
            control_token=service.control_token,
            capabilities=reader.capabilities,
            issuers=issuers_of(node) if header and BEARER_PREFIX in header else None,
            known=serving.known,
        )
        if held != EVERY_SCOPE:
            caller = of_held_scopes(caller, held, permission)
        rights = caller.authorization
        request[PRINCIPAL] = rights.principal
        if caller.capability is not None and not route.delegable:
            raise coded("not_delegable", "this route does not take a capability")
        if needed is not None and needed not in rights.permissions:
            require(caller, needed)
        if permission != "none" and (charged := caller.charged) is not None:
            service.quotas.take(charged, dimension)
        if names_position(request):
            request = await at_position(request, service)
        made = await route.answer(Call(service, caller, request))
        if made is None:
            response = web.Response(status=route.status)
        elif isinstance(made, Struct) or not isinstance(made, web.StreamResponse):
            response = answer(made, route.status)
        else:
            response = made
        if not response.prepared:
            note_position(response, service)
            if request.query_string:
                note_unread(response, request, parameters)
        return response

    return serve


class _Guard:
    """Turns failures into answers, and counts every request."""

    def __init__(self, service: Service, patterns: Mapping[_Handler, str]) -> None:
        self._service = service
        self._patterns = patterns

    async def __call__(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        started = perf_counter()
        status = 500
        service = self._service
        connection = connection_of(request)
        if connection is not None:
            connection.begin(request)
        method = request.method
        try:
            try:
                if method == "OPTIONS":
                    response = service.browsers.preflight(request, _methods_of(request))
                else:
                    service.browsers.check(request)
                    response = await handler(request)
            except Exception as fault:
                response = _answer_to(fault, request)
            status = response.status
            if not response.prepared:
                if service.browsers.configured:
                    response.headers.update(service.browsers.headers(request))
                if isinstance(response, _WITH_BODY) and is_large(response):
                    await compress(request, response)
            return response
        finally:
            if connection is not None:
                connection.finish()
            pattern = self._patterns.get(handler)
            if pattern is None:
                resource = request.match_info.route.resource
                pattern = "unmatched" if resource is None else resource.canonical
            if method not in _METHODS:
                method = "other"
            service.metrics.observe(pattern, method, status, perf_counter() - started)


def _answer_to(fault: Exception, request: web.Request) -> web.StreamResponse:
    """The answer to a failure. Raises redirections and the like again."""
    if isinstance(fault, ApiError):
        return _failure(fault)
    if isinstance(fault, web.HTTPException):
        if fault.status < 400:
            raise fault
        kept = {name: fault.headers[name] for name in ("Allow",) if name in fault.headers}
        detail = _PLAIN_DETAIL.get(fault.status, fault.reason)
        return answer({"detail": detail}, fault.status, kept)
    known = from_typed(fault)
    if known is not None:
        return _failure(known)
    error_id = secrets.token_hex(8)
    _log.error("error %s at %s %s", error_id, request.method, request.path, exc_info=fault)
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


def _methods_of(request: web.Request) -> frozenset[str]:
    """The methods of a request's path. Raises HTTPNotFound."""
    fault = request.match_info.http_exception
    if isinstance(fault, web.HTTPMethodNotAllowed):
        return frozenset(fault.allowed_methods)
    raise web.HTTPNotFound


def _failure(fault: ApiError) -> web.Response:
    headers = dict(fault.headers)
    if fault.status == 503:
        headers.setdefault("Retry-After", "1")
    return answer(fault.body(), fault.status, headers)


async def _release_waiting(app: web.Application) -> None:
    """Waiting requests would delay the stop: it waits for running ones, they for the log."""
    app[SERVICE].commits.stop()


async def _lifetime(app: web.Application) -> AsyncIterator[None]:
    """Start the tasks with the app; stop them at its end."""
    service = app[SERVICE]
    followers = service.node.reader.followers
    told = (service.commits.committed, service.jobs.committed)
    followers.extend(told)
    await service.tasks.start()
    yield
    await service.tasks.stop()
    for each in told:
        followers.remove(each)
    await asyncio.to_thread(service.close)
