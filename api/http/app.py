"""The HTTP application: the route table turned into a server.

Each request goes identify → permission → handler → answer, and every failure leaves
through ``errors``. Paths match as sent: ``//`` in a raw URI stays.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from time import perf_counter
from typing import Any, cast

from aiohttp import hdrs, web
from aiohttp.web_urldispatcher import MatchInfoError
from msgspec import Struct, json

from engramlog.api.http.auth import PRINCIPAL, Caller, require
from engramlog.api.http.bodies import DirectResponse, answer
from engramlog.api.http.call import IDEMPOTENCY_HEADER, Call, note_unread, parameters_of
from engramlog.api.http.callers import RightsChanged
from engramlog.api.http.compression import compress, is_large
from engramlog.api.http.connections import connection_of
from engramlog.api.http.errors import ApiError, coded, from_limit, from_typed
from engramlog.api.http.malformed import RequestServer
from engramlog.api.http.minimum_position import at_position, names_position, note_position
from engramlog.api.http.openapi import build_openapi
from engramlog.api.http.routing import Route
from engramlog.api.http.state.quotas import Dimension, dimension_of
from engramlog.api.node.node import Node
from engramlog.api.node.refusing_threads import RefusingThreads
from engramlog.api.node.service import Service
from engramlog.api.routes.table import ROUTES
from engramlog.api.settings import Settings
from engramlog.eventlog.event import Recorded
from engramlog.eventlog.struct_types import complete_struct_types
from engramlog.projections.normalization import URI_LENGTH_MAX

_log = logging.getLogger(__name__)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_WITH_BODY = (DirectResponse, web.Response)
"""The most frequent class first: only an exact class is found fast."""
_CALLER_GONE = 499
"""A status for the metrics alone."""
PATH_PARTS_MAX = URI_LENGTH_MAX + 10
"""Parts of a path, which may end with a name."""
_PLAIN_DETAIL = {404: "Not Found", 405: "Method Not Allowed"}


class App:
    """The application over an open node. ``AppRunner`` serves it. ``router`` finds routes."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.node = service.node
        self.router = Router()
        resources, self._endpoints = routing()
        for resource in resources:
            self.router.register_resource(resource)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request; failures become answers too. Counts it."""
        started = perf_counter()
        status = 500
        service = self.service
        match = await self.router.resolve(request)
        endpoint = self._endpoints.get(match.route)
        connection = connection_of(request)
        if connection is not None:
            connection.begin(request)
        method = request.method
        try:
            try:
                if request.headers.get(hdrs.EXPECT):
                    await match.expect_handler(request)
                    await request.writer.drain()
                if method == "OPTIONS":
                    response = service.browsers.preflight(request, _methods_of(match))
                else:
                    service.browsers.check(request)
                    response = await (
                        match.handler(request)
                        if endpoint is None
                        else endpoint.answer(self, request, match)
                    )
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
            pattern = _pattern_of(match) if endpoint is None else endpoint.route.path
            counted = method if method in _METHODS else "other"
            service.metrics.observe(pattern, counted, status, perf_counter() - started)


class Router(web.UrlDispatcher):
    """Finds routes. aiohttp looks for one at each part of a path: the event loop would wait 30 ms
    for 8,000 slashes from anyone."""

    async def resolve(self, request: web.Request) -> web.UrlMappingMatchInfo:
        if request.rel_url.path_safe.count("/") > PATH_PARTS_MAX:
            return MatchInfoError(web.HTTPNotFound())
        return await super().resolve(request)


class AppRunner(web.ServerRunner):
    """Serves an application, whose tasks run from ``setup`` to ``cleanup``. Make it in the event
    loop. ``options``: of aiohttp's server."""

    def __init__(self, app: App, *, shutdown_timeout: float = 60.0, **options: Any) -> None:
        most = app.service.settings.request_body_bytes_max
        request = partial(web.Request, loop=asyncio.get_running_loop(), client_max_size=most)
        answer = cast("Any", app.answer)  # typed for all requests, but gets only these
        server = RequestServer(answer, request_factory=request, **options)
        super().__init__(server, shutdown_timeout=shutdown_timeout)
        self._app = app

    async def setup(self) -> None:
        asyncio.get_running_loop().set_default_executor(RefusingThreads())
        service = self._app.service
        service.node.reader.followers.extend(_followers(service))
        await service.tasks.start()
        await super().setup()

    async def shutdown(self) -> None:
        # Waiting requests would delay the stop: it waits for running ones, they for the log.
        self._app.service.commits.stop()

    async def cleanup(self) -> None:
        await super().cleanup()
        service = self._app.service
        await service.tasks.stop()
        for each in _followers(service):
            service.node.reader.followers.remove(each)
        await asyncio.to_thread(service.close)


def create_app(node: Node, settings: Settings, *, control_token: str | None = None) -> App:
    """The application over an open node. The caller closes the node. ``control_token``: a bearer
    token with every right, for the machine's own command line."""
    complete_struct_types()
    return App(Service(node, settings, _document, control_token=control_token))


@cache
def _document() -> bytes:
    return json.encode(build_openapi(ROUTES))


@cache
def routing() -> "tuple[Sequence[web.AbstractResource], Mapping[web.AbstractRoute, Endpoint]]":
    """The route table's resources, which applications share, and the endpoint of each route."""
    router = web.UrlDispatcher()
    endpoints: dict[web.AbstractRoute, Endpoint] = {}
    # One resource for all methods of a path: the router tries a path's resources in turn.
    at = {path: router.add_resource(path) for path in dict.fromkeys(each.path for each in ROUTES)}
    for route in ROUTES:
        endpoint = Endpoint(route)
        for method in (route.method, "HEAD") if route.method == "GET" else (route.method,):
            endpoints[at[route.path].add_route(method, _no_handler)] = endpoint
    return [*router.resources()], endpoints


async def _no_handler(_: web.Request) -> web.StreamResponse:
    """The router wants a handler of each route; ours have an endpoint instead."""
    raise web.HTTPNotFound


class Endpoint:
    """A route behind identification and its permission."""

    def __init__(self, route: Route) -> None:
        permission = route.permission
        self.route = route
        self._dimension: Dimension = dimension_of(route.method, permission)
        self._parameters = frozenset[str]() if route.query is None else parameters_of(route.query)
        self._takes_key = not route.changes or IDEMPOTENCY_HEADER in route.headers
        self._needed = None if permission in ("none", "any", "peer", "operator") else permission

    async def answer(
        self, app: App, request: web.Request, segments: Mapping[str, str]
    ) -> web.StreamResponse:
        """The route's answer. Raises ApiError and what its handler raises."""
        route, service = self.route, app.service
        permission = route.permission
        if names_position(request):  # first, as the key may be as new as the position
            request = await at_position(request, service)
        caller = self._caller(request, service)
        if permission != "none" and (charged := caller.charged) is not None:
            service.quotas.take(charged, self._dimension)
        call = Call(service, caller, request, segments)
        try:
            made = await route.answer(call)
        except RightsChanged:
            made = await route.answer(call.by(self._caller(request, service)))
        if made is None:
            response = web.Response(status=route.status)
        elif isinstance(made, Struct) or not isinstance(made, web.StreamResponse):
            response = answer(made, route.status)
        else:
            response = made
        if not response.prepared:
            note_position(response, service)
            if request.query_string or IDEMPOTENCY_HEADER in request.headers:
                note_unread(response, request, self._parameters, key=self._takes_key)
        return response

    def _caller(self, request: web.Request, service: Service) -> Caller:
        """The request's caller, who may use the route. Raises ApiError."""
        route, callers, needed = self.route, service.callers, self._needed
        if route.permission == "operator" and callers.keys_required:
            needed = "admin"
        caller = callers.caller_of(request.headers.get("Authorization"), route.permission)
        rights = caller.authorization
        request[PRINCIPAL] = rights.principal
        if caller.capability is not None and not route.delegable:
            raise coded("not_delegable", "this route does not take a capability")
        if needed is not None and needed not in rights.permissions:
            require(caller, needed)
        return caller


def _followers(service: Service) -> tuple[Callable[[Sequence[Recorded]], None], ...]:
    """What hears of published events while the application runs."""
    return service.commits.committed, service.jobs.committed


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
    limit = from_limit(fault)
    if limit is not None:
        _log.warning("%s %s: %r", request.method, request.path, fault)
        return _failure(limit)
    transport = request.transport
    if isinstance(fault, ConnectionError) and (transport is None or transport.is_closing()):
        _log.info("%s %s: the caller has gone", request.method, request.path)
        return answer({"detail": "the caller has gone"}, _CALLER_GONE)
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


def _pattern_of(match: web.UrlMappingMatchInfo) -> str:
    """The pattern of a path that is not in the table."""
    resource = match.route.resource
    return "unmatched" if resource is None else resource.canonical


def _methods_of(match: web.UrlMappingMatchInfo) -> frozenset[str]:
    """The methods of a request's path. Raises HTTPNotFound."""
    fault = match.http_exception
    if isinstance(fault, web.HTTPMethodNotAllowed):
        return frozenset(fault.allowed_methods)
    raise web.HTTPNotFound


def _failure(fault: ApiError) -> web.Response:
    headers = dict(fault.headers)
    if fault.status == 503:
        headers.setdefault("Retry-After", "1")
    return answer(fault.body(), fault.status, headers)
