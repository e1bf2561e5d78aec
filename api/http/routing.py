"""Routes: one row next to each handler, from which everything else follows.

The router, the permission check, OpenAPI and the docs page all read the rows, so no route lacks one
of these.
"""

import re
from collections.abc import Callable
from functools import partial
from inspect import getdoc, iscoroutinefunction
from types import NoneType
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, cast, get_type_hints

from msgspec import UNSET, Struct
from pydantic import BaseModel

from engramlog.api.commands.request_context import Unsettled
from engramlog.api.http.call import SESSION_HEADER, Call, Warns, settled, warned
from engramlog.api.http.errors import ApiError, coded, plain
from engramlog.eventlog.errors import StorageError
from engramlog.projections.image.reader import ErasedMeanwhile

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

Handler: TypeAlias = Callable[..., Any]
AnyHandler = TypeVar("AnyHandler", bound=Handler)


class Media(Struct, frozen=True):
    """A non-JSON answer: its media type and a description."""

    type: str
    words: str


class Route(Struct, frozen=True, kw_only=True):
    """One method of one path.

    Attributes:
        handler: takes the ``Call``, and the models of the request that it names: ``query``, and the
            body under any other name. It returns the answer: a struct, a list of structs, None for
            no body, or a response. Its docstring begins with the route's summary.
        is_async: whether the handler is ``async``; others run in a thread.
        group: the docs chapter.
        body, query: models of the request; ``lines`` if the body has many of them.
        takes: the handler's parameter for each of them that it names.
        status: of an answer that is no response.
        answers: status → type of the answer, a description of a JSON object, ``Media``, or None (no
            body, or a page).
        errors: statuses in addition to those that follow from the rest of the row.
        long: whether its handler may run long; such requests wait in their own queue (503 when it
            is full).
        headers: request headers it reads.
        delegable: whether capabilities open it. Then everything it shows or changes has a scope and
            an entity, and passes the caller's mask first. All other routes need a key.
    """

    method: str
    path: str
    handler: Handler
    is_async: bool
    permission: Permission
    group: str
    body: type[BaseModel] | None
    body_required: bool
    lines: bool
    query: type[BaseModel] | None
    takes: dict[str, type[BaseModel]]
    status: int
    answers: dict[int, Any]
    errors: tuple[int, ...]
    long: bool
    headers: tuple[str, ...]
    delegable: bool

    @property
    def operation_id(self) -> str:
        """A unique name from method and path."""
        ending = ("folder",) if self.path[1:].endswith("/") else ()
        return "_".join((self.method.lower(), *_WORD.findall(self.path), *ending))

    @property
    def summary(self) -> str:
        """The handler's first sentence."""
        words = " ".join(self.description.replace("``", "").split())
        return _SENTENCE_END.split(words)[0]

    @property
    def description(self) -> str:
        """The handler's docstring, without the exceptions that it raises."""
        return (getdoc(self.handler) or "").partition("\n\nRaises:")[0]

    @property
    def changes(self) -> bool:
        """Whether it may change something, judged by its method and permission."""
        return self.method != "GET" and self.permission not in _ASKING

    async def answer(self, call: Call) -> object:
        """The handler's answer to a call, with warnings of what the request's models ignore if it
        has room for them. Raises ApiError for a malformed request."""
        given: dict[str, BaseModel] = {}
        for name, model in self.takes.items():
            if name == QUERY:
                given[name] = call.query(model)
            else:
                given[name] = await call.body(model, required=self.body_required)
        if SESSION_HEADER in self.headers:
            call.session()
        handled = partial(self._handled, call, given)
        try:
            made = await (handled() if self.changes else settled(handled))
        except (ErasedMeanwhile, Unsettled) as fault:
            if self.changes:  # it may have written, and must not write again
                raise plain("fact_not_found") from fault
            raise
        except (StorageError, ApiError) as fault:
            reason = fault if isinstance(fault, StorageError) else _unreadable(call, fault)
            if not call.written or reason is None:
                raise
            message = f"it is written, but this node cannot read it back: {reason}"
            raise coded("outcome_unknown", message) from fault
        if given and getattr(made, "warnings", None) is UNSET:
            return warned(cast("Warns", made), *given.values())
        return made

    async def _handled(self, call: Call, given: dict[str, BaseModel]) -> Any:
        if self.is_async:
            return await self.handler(call, **given)
        work = partial(self.handler, call, **given)
        return await (call.in_long_pool(work) if self.long else call.read(work))


def _unreadable(call: Call, fault: ApiError) -> str | None:
    """Why the node may not find what the request has written, if it does not find something."""
    return call.node.writer.degraded if fault.status == 404 else None


QUERY = "query"
"""The parameter of a handler that takes the query string."""
_WORD = re.compile(r"[A-Za-z0-9]+")
_SENTENCE_END = re.compile(r"\.(?: |$)")
_ASKING = frozenset({"read", "audit.read", "any", "none"})


class Routes:
    """The rows of one file in source order. ``group``: their docs chapter."""

    def __init__(self, group: str) -> None:
        self.rows: list[Route] = []
        self._group = group

    def add(
        self,
        *where: str,
        permission: Permission,
        body: type[BaseModel] | None = None,
        body_required: bool = True,
        lines: bool = False,
        query: type[BaseModel] | None = None,
        status: int = 200,
        answers: dict[int, Any] | None = None,
        errors: tuple[int, ...] = (),
        long: bool = False,
        headers: tuple[str, ...] = (),
        delegable: bool = False,
        group: str | None = None,
    ) -> Callable[[AnyHandler], AnyHandler]:
        """Add the row of the handler that follows. ``where``: method and path, as in
        ``GET /v1/facts``, of each way to it; the other arguments are those of ``Route``. Give
        ``body``, ``query`` and ``answers`` only if the handler's parameters and result do not say
        them."""

        def added(handler: AnyHandler) -> AnyHandler:
            hints = get_type_hints(handler)
            result = hints.pop("return")
            takes: dict[str, type[BaseModel]] = {
                name: hint for name, hint in hints.items() if issubclass(hint, BaseModel)
            }
            bodies = [model for name, model in takes.items() if name != QUERY]
            for method, path in map(str.split, where):
                row = Route(
                    method=method,
                    path=path,
                    handler=handler,
                    is_async=iscoroutinefunction(handler),
                    permission=permission,
                    group=group or self._group,
                    body=bodies[0] if bodies else body,
                    body_required=body_required,
                    lines=lines,
                    query=takes.get(QUERY, query),
                    takes=takes,
                    status=status,
                    answers=_answered(result, status) if answers is None else answers,
                    errors=(*errors, 503) if long else errors,
                    long=long,
                    headers=headers,
                    delegable=delegable,
                )
                self.rows.append(row)
            return handler

        return added


def _answered(result: Any, status: int) -> dict[int, Any]:
    """The answers of a handler with this result."""
    if result is NoReturn:
        return {}
    return {status: None if result is NoneType else result}
