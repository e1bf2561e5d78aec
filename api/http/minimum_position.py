"""Read-your-writes on any node: an answer names the node's visible position, and a request may
require a minimum; so does the next page of a walk that began at another node."""

from aiohttp import web

from engramlog.api.http.errors import coded
from engramlog.api.node.service import Service

POSITION_HEADER = "X-Engramlog-Position"
POSITION_PARAMETER = "min_position"
WAIT_SECONDS_MAX = 5.0
"""Longest wait for the required position."""


def names_position(request: web.Request) -> bool:
    """Whether the request requires a position: by name, or with a cursor, which may be of another
    node over the log."""
    asked = request.query_string
    return POSITION_HEADER in request.headers or POSITION_PARAMETER in asked or "cursor=" in asked


async def at_position(request: web.Request, service: Service) -> web.Request:
    """The request, once the node has reached the required position, if any.

    Raises ApiError: the position is not a number, or not reached in time.
    """
    wanted = request.query.get(POSITION_PARAMETER, request.headers.get(POSITION_HEADER, "0"))
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) <= 18):
        raise coded("invalid_position", f"{POSITION_PARAMETER} must be a position, is {wanted!r}")
    cursor = service.cursors.position(request.query.get("cursor", ""))
    position, reader = max(int(wanted), cursor), service.node.reader
    if not await service.commits.wait(lambda: reader.position >= position, WAIT_SECONDS_MAX):
        raise coded(
            "position_not_reached",
            f"this node has not shown position {position} yet",
        )
    if POSITION_PARAMETER not in request.query:
        return request
    return request.clone(rel_url=request.rel_url.without_query_params(POSITION_PARAMETER))


def note_position(response: web.StreamResponse, service: Service) -> None:
    """Name the answer's position, or a later one."""
    response.headers.setdefault(POSITION_HEADER, str(service.node.reader.image.position))
