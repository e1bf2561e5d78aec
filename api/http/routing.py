"""What a route is: one row beside its handler, from which everything else is made.

The rows drive the router, the permission check, OpenAPI and the docs page, so no route
can lack one of them.
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
"""``any``: every known caller. ``none``: everybody. ``peer``: a peer, by its token. ``operator``:
an admin; where no key is asked for, every caller."""

Handler: TypeAlias = Callable[[Call], Awaitable[web.StreamResponse]]
AnyHandler = TypeVar("AnyHandler", bound=Handler)


class Media(Struct, frozen=True):
    """An answer that is no JSON: its media type, and words for it."""

    type: str
    words: str


class Route(Struct, frozen=True, kw_only=True):
    """One method of one path.

    Attributes:
        group: the docs chapter.
        body, query: models of the request; ``lines`` where the body is many of them.
        answers: status → model, a list of one, several models (any of them), words for a JSON
            object, ``Media``, or None (no body, or a page).
        errors: statuses beyond 401, 403, 422, 429 and 500, beyond 400 and 413 with a body, and
            beyond 404 with a name in the path.
        headers: request headers it reads.
        delegable: whether a capability opens it: everything it shows or changes is bounded by
            scope and entity, and passes the caller's mask first. All others want a key.
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
        """A name of method and path, unique to one route."""
        return "_".join((self.method.lower(), *_WORD.findall(self.path)))


_WORD = re.compile(r"[A-Za-z0-9]+")


class Routes:
    """The rows of one file, in the order in which they are written.

    Args:
        group: their docs chapter.
    """

    def __init__(self, group: str) -> None:
        self.rows: list[Route] = []
        self._group = group

    def add(
        self,
        method: str,
        path: str,
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
        """The row of the handler that follows; arguments are those of ``Route``."""

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
