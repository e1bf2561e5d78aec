"""One request on its way through a handler: its caller, its target, its moment."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from hashlib import sha256
from typing import Any, Protocol, TypeVar, cast

import msgspec
from aiohttp import web
from msgspec.structs import replace
from pydantic import BaseModel

from engramlog.api.answers.fact_record import FactRecord, Warnings
from engramlog.api.commands.request_context import RequestContext, Unsettled
from engramlog.api.http.auth import Caller
from engramlog.api.http.bodies import answer, parse_body, query_of, read_bytes, unknown_fields
from engramlog.api.http.connections import CONNECTION
from engramlog.api.http.errors import ApiError, coded
from engramlog.api.http.state.cursors import Cursor, filters_digest
from engramlog.api.http.state.sessions import SESSION_LENGTH_MAX
from engramlog.api.node.fair_threads import FairThreads, never
from engramlog.api.node.tasks.jobs import JobRecord, accepted
from engramlog.eventlog.held_scopes import EVERY_SCOPE
from engramlog.eventlog.log import Idempotency
from engramlog.projections.image.reader import ATTEMPTS_MAX, PAUSE_SECONDS, ErasedMeanwhile
from engramlog.projections.moment import Moment
from engramlog.projections.tables.peers.peers import PeerRow
from engramlog.replay.stigmem.peer_token import PeerClaims, PeerTokenError

IDEMPOTENCY_KEY_LENGTH_MAX = 255
IDEMPOTENCY_HEADER = "Idempotency-Key"
SESSION_HEADER = "Stigmem-Session"
WARNING_HEADER = "X-Stigmem-Warning"
WARNED_MAX = 5
"""Names in the header of warnings."""
IGNORED_MAX = 20
"""Names in the warnings of a body: a search for each name's meaning takes time."""
_WARNED_LENGTH_MAX = 60
"""Characters of a name in a warning."""

Model = TypeVar("Model", bound=BaseModel)
Row = TypeVar("Row")
Result = TypeVar("Result")


async def settled(read: Callable[[], Awaitable[Result]]) -> Result:
    """The result of a read, which is made again if it met an erasure or a group of writes under
    way: an erasure leaves the tables before the image, and a group ends. Raises ErasedMeanwhile,
    Unsettled: it still meets one after ``ATTEMPTS_MAX``."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return await read()
        except (ErasedMeanwhile, Unsettled):
            await asyncio.sleep(PAUSE_SECONDS)
    return await read()


@dataclass(frozen=True)
class Call(RequestContext):
    """A request over HTTP, with its context."""

    request: web.Request
    segments: Mapping[str, str]
    """The parts of the path, by name."""
    _body: list[bytes] = field(default_factory=list, init=False)
    """The raw body, once it was read."""

    def segment(self, name: str) -> str:
        """A part of the path."""
        return self.segments[name]

    async def raw(self, limit: int | None = None) -> bytes:
        """The raw body, at most ``limit`` bytes. Raises ApiError 413; as ``check_rights`` if it
        came after the header."""
        if not self._body:
            most = self.service.settings.request_body_bytes_max if limit is None else limit
            late = not self.request.content.is_eof()
            self._body.append(await read_bytes(self.request, most))
            if late:
                self.check_rights()
        return self._body[0]

    async def body(self, model: type[Model], *, required: bool = True) -> Model:
        """The JSON body as ``model``; unless required, an empty one counts as ``{}``. Raises
        ApiError 400, 413 or 422."""
        data = await self.raw()
        return self._of_held_scopes(parse_body(model, data if required else data.strip() or b"{}"))

    async def large_body(self, model: type[Model]) -> Model:
        """The JSON body of many items as ``model``, read in a thread. Raises as ``body``."""
        data = await self.raw(self.service.settings.batch_body_bytes_max)
        parsed = await self.in_pool(lambda: parse_body(model, data))
        self.check_rights()
        return self._of_held_scopes(parsed)

    def query(self, model: type[Model]) -> Model:
        """The query string as ``model``. Raises ApiError 422."""
        return self._of_held_scopes(query_of(model, self.request))

    def _of_held_scopes(self, parsed: Model) -> Model:
        """The request, unless it names a scope that this node does not hold. Raises ApiError."""
        if self.node.log.held != EVERY_SCOPE:
            named: object = getattr(parsed, "scope", None)
            of_garden = getattr(parsed, "garden_id", None) is not None
            if not of_garden or "scope" in parsed.model_fields_set:
                self.check_held(named)
            for each in getattr(parsed, "scopes", None) or ():
                self.check_held(each)
        return parsed

    def check_rights(self) -> None:
        self.service.callers.check(self.caller, self.request.headers.get("Authorization"))

    def by(self, caller: Caller) -> "Call":
        """The same request with the rights of ``caller``."""
        made = Call(self.service, caller, self.request, self.segments)
        made._body.extend(self._body)
        return made

    def checked(self, work: Callable[[], Result]) -> Callable[[], Result]:
        """Work that waits for a thread, and then begins with ``check_rights``."""

        def begun() -> Result:
            self.check_rights()
            return work()

        return begun

    async def read(self, work: Callable[[], Result]) -> Result:
        """Run a read in a thread, unless the caller disconnects before its turn. Raises as
        ``FairThreads``, and as ``check_rights`` if the rights change before its turn."""
        return await self.service.reads.run(
            self.caller.queued_as, self.checked(work), admitted=True, gone=self._gone()
        )

    def _gone(self) -> Callable[[], bool]:
        """Whether the caller has disconnected."""
        connection = self.request.get(CONNECTION)
        return never if connection is None else lambda: connection.lost

    async def in_long_pool(
        self, work: Callable[[], Result], *, pool: FairThreads | None = None, admitted: bool = False
    ) -> Result:
        """Run long work where it delays no other read; ``pool``: another than the usual one.
        ``admitted``: also if the caller disconnects (see ``FairThreads``). Raises as ``read``."""

        long = pool or self.service.long
        gone = never if admitted else self._gone()
        return await long.run(
            self.caller.queued_as, self.checked(work), admitted=admitted, gone=gone
        )

    def session(self) -> str | None:
        """The ``Stigmem-Session`` header. Raises ApiError 400 ``session_id_too_long`` or
        ``invalid_session_id``."""
        text = self.request.headers.get(SESSION_HEADER)
        if text is None:
            return None
        text = text.strip()
        if len(text) > SESSION_LENGTH_MAX:
            raise coded(
                "session_id_too_long", f"Stigmem-Session exceeds {SESSION_LENGTH_MAX} characters"
            )
        if not text.isprintable():
            raise coded("invalid_session_id", "Stigmem-Session must be printable text")
        return text or None

    def credential(self) -> bytes:
        """A digest that identifies the caller's credential with its present rights: the key, not
        its owner."""
        rights = msgspec.json.encode(self.caller.authorization, order="deterministic")
        given = self.request.headers.get("Authorization", "")
        return sha256(rights + given.encode(errors="replace")).digest()

    def note_facts(self, facts: Iterable[FactRecord]) -> None:
        """Note the scopes of shown records as read in the session."""
        if self.session() is not None:
            self.note_read(frozenset(fact.scope for fact in facts))

    def note_read(self, scopes: Sequence[str] | frozenset[str]) -> None:
        """Note scopes as read in the session."""
        session = self.session()
        if session is not None:
            self.service.sessions.note_read(self.caller.principal, session, scopes)

    def peer(self) -> tuple[PeerRow, PeerClaims]:
        """The calling peer, by its token. Raises ApiError 401."""
        try:
            return self.service.federation.peer_of(self.request.headers.get("Authorization"))
        except PeerTokenError as fault:
            raise ApiError(401, fault.code) from fault

    def check_peer(self, peer: PeerRow) -> None:
        """Raises ApiError 401 or 409 if the peer is not approved as it was in ``peer`` any more. In
        any thread. The request cannot be tried again by itself: a token is for one."""
        header = self.request.headers.get("Authorization")
        try:
            if self.service.federation.unchanged(header, peer):
                return
        except PeerTokenError as fault:
            raise ApiError(401, fault.code) from fault
        raise coded("rights_changed", "your grants changed while the request waited: repeat it")

    def charge(self, items: int) -> None:
        """Charge the caller for a request of several items; the request itself was the first."""
        if self.caller.charged is not None:
            self.service.quotas.charge(self.caller.charged, items - 1)

    async def perhaps_later(
        self, kind: str, facts: int, work: Callable[[], Awaitable[object]]
    ) -> web.Response:
        """The result of work on so many facts, or a job if these are many."""
        if facts <= self.service.settings.job_facts_min:
            return answer(await work())
        later, ceiling = partial(settled, work), self.authorization.ceiling
        job = self.service.jobs.begin(
            kind, self.credential(), self.caller.queued_as, later, ceiling
        )
        return answer(accepted(job, facts), 202)

    def job(self, kind: str) -> JobRecord:
        """The job that the path names. Raises ApiError 404."""
        return self.service.jobs.get(self.segment("job_id"), kind, self.credential()).record()

    def walk(
        self,
        kind: str,
        query: BaseModel,
        moment: Moment,
        *,
        unbound: frozenset[str] = frozenset({"cursor", "limit"}),
    ) -> Cursor:
        """The start of a list's page: after the query's cursor, or at the list's beginning at
        ``moment``. ``unbound``: parameters that may change between pages. Raises ApiError
        ``invalid_cursor`` or ``cursor_expired``."""
        given = {name: getattr(query, name) for name in type(query).model_fields}
        digest = filters_digest({name: given[name] for name in given if name not in unbound})
        if given["cursor"] is None:
            return Cursor(kind, digest, moment.position, moment.instant_us, 0)
        return self.service.cursors.open(
            given["cursor"], kind=kind, digest=digest, now_us=self.node.clock.now_us()
        )

    def cursor_after(self, walk: Cursor, place: tuple[int | str, ...]) -> str:
        """The cursor of the page that begins after ``place``."""
        cursors = self.service.cursors
        expires_at_us = cursors.expiry(self.node.clock.now_us())
        return cursors.seal(replace(walk, expires_at_us=expires_at_us, place=place))

    def page(
        self,
        walk: Cursor,
        found: Sequence[Row],
        limit: int,
        place: Callable[[Row], tuple[int | str, ...]],
    ) -> tuple[Sequence[Row], str | None]:
        """The first ``limit`` rows, and the cursor of the next page if more follow; ``place``: a
        row's sort key, after which to continue."""
        shown = found[:limit]
        return shown, None if len(found) <= limit else self.cursor_after(walk, place(shown[-1]))

    def idempotency(self) -> Idempotency | None:
        """The ``Idempotency-Key`` header with a digest of this request, whose body has been read.
        Raises ApiError 400 for a key that is empty, over 255 characters or not printable ASCII."""
        key = self.request.headers.get(IDEMPOTENCY_HEADER)
        if key is None:
            return None
        if (
            not key
            or len(key) > IDEMPOTENCY_KEY_LENGTH_MAX
            or not (key.isascii() and key.isprintable())
        ):
            raise coded(
                "invalid_idempotency_key",
                f"{IDEMPOTENCY_HEADER} must be 1 to {IDEMPOTENCY_KEY_LENGTH_MAX} "
                "printable characters",
            )
        what = f"{self.request.method} {self.request.path_qs}\n".encode()
        return Idempotency(self.caller.principal, key, sha256(what + self._body[0]).digest())


class Warns(Protocol):
    """An answer with room for warnings; omitted if unset."""

    warnings: Warnings


Answer = TypeVar("Answer", bound="dict[str, Any] | Warns")


def warned(body: Answer, *parts: BaseModel | None) -> Answer:
    """``body``, with ``warnings`` if the node ignores a part of the request, after those that it
    has; otherwise exactly the protocol's."""
    warnings = ignored(*parts)
    if warnings and isinstance(body, dict):
        body["warnings"] = warnings
    elif warnings:
        answer = cast("Warns", body)
        answer.warnings = (answer.warnings or []) + warnings
    return body


def ignored(*parts: BaseModel | None) -> list[str]:
    """Warnings that name the unused fields and parameters, the first ``IGNORED_MAX`` of them."""
    return warnings_of(
        [
            (name, type(part).model_fields)
            for part in parts
            if part is not None
            for name in unknown_fields(part)
        ]
    )


def warnings_of(unused: Sequence[tuple[str, Collection[str]]]) -> list[str]:
    """Warnings that name the first ``IGNORED_MAX`` of the unused names; with each the known ones of
    its place."""
    warnings = [unread(name, known) for name, known in unused[:IGNORED_MAX]]
    if len(unused) > IGNORED_MAX:
        warnings.append(f"{len(unused) - IGNORED_MAX} more unknown fields are ignored")
    return warnings


def parameters_of(model: type[BaseModel]) -> frozenset[str]:
    """The parameters of the model's query string."""
    return frozenset(field.alias or name for name, field in model.model_fields.items())


def unread(name: str, known: Collection[str]) -> str:
    """The warning about one name."""
    name = name[:_WARNED_LENGTH_MAX]
    meant = get_close_matches(name, known, 1)
    hint = f"; did you mean {meant[0]!r}?" if meant else ""
    return f"unknown field {name!r} is ignored{hint}"


def note_unread(
    response: web.StreamResponse, request: web.Request, known: frozenset[str], *, key: bool
) -> None:
    """Name unknown parameters of the request in a header, because every answer has room for one;
    also an ``Idempotency-Key``, unless the route takes a ``key`` or nothing would be repeated."""
    names = [name for name in dict.fromkeys(request.query) if name not in known]
    warnings = [ascii(unread(name, known))[1:-1] for name in names[:WARNED_MAX]]
    if not key and IDEMPOTENCY_HEADER in request.headers:
        warnings.append(f"{IDEMPOTENCY_HEADER} is ignored: a repetition may write again")
    if warnings:
        response.headers[WARNING_HEADER] = " | ".join(warnings)
