"""What a route is: one row of the route table, from which everything else is made.

The table drives the router, the permission check, OpenAPI and the docs page, so no route
can lack one of them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel

from api.call import Call

Permission: TypeAlias = Literal[
    "read", "write", "admin", "federate", "audit.read", "replicate", "peer", "any", "none"
]
"""``any``: whoever is known. ``none``: everybody. ``peer``: a peer, by its token."""

Handler: TypeAlias = Callable[[Call], Awaitable[web.StreamResponse]]


class Route(Struct, frozen=True, kw_only=True):
    """One method of one path.

    Attributes:
        group: the docs chapter.
        body, query: models of the request; ``lines`` where the body is many of them.
        answers: status → model, a list of one, words for it, or None (no JSON body).
        errors: statuses beyond 401, 403, 422 and 500.
        headers: request headers it reads.
    """

    method: str
    path: str
    handler: Handler
    permission: Permission
    group: str
    summary: str
    body: type[BaseModel] | None = None
    body_required: bool = True
    lines: bool = False
    query: type[BaseModel] | None = None
    answers: dict[int, Any] = {}
    errors: tuple[int, ...] = ()
    headers: tuple[str, ...] = ()

    @property
    def operation_id(self) -> str:
        """A name made of method and path, so that it is one route's alone."""
        return "_".join((self.method.lower(), *_WORD.findall(self.path)))


_WORD = re.compile(r"[A-Za-z0-9]+")
