"""Routes: one row next to each handler, from which everything else follows.

The router, the permission check, OpenAPI and the docs page all read the rows, so no route lacks one
of these.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias, TypeVar

from aiohttp import web
from msgspec import Struct
from pydantic import BaseModel

from engramlog.api.http.call import Call

Permission: TypeAlias = Literal[
    "read",
    "write",
    "admin",
    "operator",
    "federate",
    "audit.read",
    "replicate",
    "peer",
    "any",
    "none",
]
"""``any``: every known caller. ``none``: all callers. ``peer``: a peer, by its token. ``operator``:
an admin; on a node without keys, every caller."""

Handler: TypeAlias = Callable[[Call], Awaitable[web.StreamResponse]]
AnyHandler = TypeVar("AnyHandler", bound=Handler)


class Media(Struct, frozen=True):
    """A non-JSON answer: its media type and a description."""

    type: str
    words: str


class Route(Struct, frozen=True, kw_only=True):
    """One method of one path.

    Attributes:
        group: the docs chapter.
        body, query: models of the request; ``lines`` if the body has many of them.
        answers: status → model, a list of one, several models (any of them), a description of a
            JSON object, ``Media``, or None (no body, or a page).
        errors: statuses in addition to 401, 403, 422, 429 and 500; to 400 and 413 with a body; to
            404 with a name in the path.
        headers: request headers it reads.
        delegable: whether capabilities open it. Then everything it shows or changes has a scope and
            an entity, and passes the caller's mask first. All other routes need a key.
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
    delegable: bool = False

    @property
    def operation_id(self) -> str:
        """A unique name from method and path."""
        return "_".join((self.method.lower(), *_WORD.findall(self.path)))


_WORD = re.compile(r"[A-Za-z0-9]+")


class Routes:
    """The rows of one file in source order.

    Args:
        group: their docs chapter.
    """

    def __init__(self, group: str) -> None:
        self.rows: list[Route] = []
        self._group = group

    def add(
        self,
        where: str,
        *,
        permission: Permission,
        summary: str,
        body: type[BaseModel] | None = None,
        body_required: bool = True,
        lines: bool = False,
        query: type[BaseModel] | None = None,
        answers: dict[int, Any] | None = None,
        errors: tuple[int, ...] = (),
        headers: tuple[str, ...] = (),
        delegable: bool = False,
        group: str | None = None,
    ) -> Callable[[AnyHandler], AnyHandler]:
        """Add the row of the handler that follows. ``where``: method and path, as in
        ``GET /v1/facts``; the other arguments are those of ``Route``."""
        method, path = where.split(" ")

        def added(handler: AnyHandler) -> AnyHandler:
            row = Route(
                method=method,
                path=path,
                handler=handler,
                permission=permission,
                group=group or self._group,
                summary=summary,
                body=body,
                body_required=body_required,
                lines=lines,
                query=query,
                answers=answers or {},
                errors=errors,
                headers=headers,
                delegable=delegable,
            )
            self.rows.append(row)
            return handler

        return added
