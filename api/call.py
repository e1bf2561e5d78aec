"""One request on its way through a handler: who asks, what of, and at which moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from aiohttp import web
from pydantic import BaseModel

from api.auth import Caller
from api.background_job import BackgroundJob
from api.bodies import parse_body, query_of, read_bytes, unknown_fields
from api.chain_proof import FactChains
from api.cleaning import Cleaning
from api.commit_watch import CommitWatch
from api.cursors import CursorSealer
from api.delivery.deliverer import Deliverer
from api.errors import ApiError, coded, plain, refused
from api.jobs import Jobs
from api.memory.consolidator import Consolidator
from api.memory.scheduler import ConsolidationScheduler
from api.metrics import Metrics
from api.node import Node
from api.peering import Peers
from api.protocol_federation import ProtocolFederation
from api.quotas import Quotas
from api.records import Record, records_of
from api.schemas.facts import MomentQuery
from api.screening import look_up_rights, model_rights, screen
from api.sessions import SESSION_LENGTH_MAX, Sessions
from api.settings import Settings
from api.snapshotting import Snapshotting
from api.tracking import RecallTracker
from eventlog.log import Idempotency
from projections.archive.archive import Archive
from projections.arrays import I32
from projections.audit.desk import AuditDesk
from projections.authorization import Authorization
from projections.cards.serving import Cards
from projections.episodic.shown import Shown
from projections.intents import Done, Intent, Refused, WriteAnswer
from projections.moment import Moment, parse_instant
from projections.normalization import SCOPES
from projections.view import View
from replay.moment import MomentError, before_floor, resolve

if TYPE_CHECKING:
    from api.commands.answering import Answered
    from api.schemas.recall import RecallBody

IDEMPOTENCY_KEY_LENGTH_MAX = 255
EMBEDDED_POLL_S = 0.01

Result = TypeVar("Result")
Model = TypeVar("Model", bound=BaseModel)


class Recalls(Protocol):
    """Whoever may answer a recall in the place of this process."""

    def start(self) -> None: ...
    async def stop(self) -> None: ...
    @property
    def ready(self) -> int: ...
    async def answer(
        self, call: Call, body: RecallBody, warnings: list[str], *, legacy: bool, verify: bool
    ) -> Answered | None: ...


@dataclass(frozen=True)
class Service:
    """What handlers share: the node and the API's own state."""

    node: Node
    settings: Settings
    cursors: CursorSealer
    sessions: Sessions
    quotas: Quotas
    jobs: Jobs
    tracker: RecallTracker
    cards: Cards
    metrics: Metrics
    rebuilds: BackgroundJob
    snapshots: Snapshotting
    reindexing: BackgroundJob
    chains: FactChains
    archive: Archive
    cleaning: Cleaning
    desk: AuditDesk
    consolidator: Consolidator
    scheduler: ConsolidationScheduler
    pool: ThreadPoolExecutor
    stage_pool: ThreadPoolExecutor
    openapi: Callable[[], bytes]
    recalls: Recalls
    commits: CommitWatch
    deliverer: Deliverer
    peers: Peers
    federation: ProtocolFederation
    control_token: str | None = None
    forking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the one fork that is under way: each takes memory of its own."""


@dataclass(frozen=True)
class Call:
    """A request, its caller and the service."""

    request: web.Request
    service: Service
    caller: Caller

    @property
    def node(self) -> Node:
        return self.service.node

    @property
    def authorization(self) -> Authorization:
        """The caller's rights in lists and look-ups, as the sanitizer mode leaves them."""
        return look_up_rights(self.service.settings.sanitizer_mode, self.caller.authorization)

    @property
    def model_authorization(self) -> Authorization:
        """The caller's rights where facts are chosen for a model (recall, neighbours, cards)."""
        return model_rights(self.service.settings.sanitizer_mode, self.caller.authorization)

    def shown(self, view: View) -> Shown:
        """What the caller sees of episodes and deltas."""
        return Shown(view, self.authorization)

    def segment(self, name: str) -> str:
        """A part of the path."""
        return self.request.match_info[name]

    # -- what came ------------------------------------------------------------------------

    async def raw(self, limit: int | None = None) -> bytes:
        """The raw body, at most ``limit`` bytes. Raises ApiError 413."""
        most = self.service.settings.request_body_bytes_max if limit is None else limit
        return await read_bytes(self.request, most)

    async def body(self, model: type[Model]) -> Model:
        """The JSON body as ``model``. Raises ApiError 400, 413 or 422."""
        return parse_body(model, await self.raw())

    def query(self, model: type[Model]) -> Model:
        """The query string as ``model``. Raises ApiError 422."""
        return query_of(model, self.request)

    def session(self) -> str | None:
        """The ``Stigmem-Session`` header.

        Raises:
            ApiError: 400 ``session_id_too_long`` or ``invalid_session_id``.
        """
        text = self.request.headers.get("Stigmem-Session", "").strip()
        if len(text) > SESSION_LENGTH_MAX:
            raise coded(
                "session_id_too_long", f"Stigmem-Session exceeds {SESSION_LENGTH_MAX} characters"
            )
        if not text.isprintable():
            raise coded("invalid_session_id", "Stigmem-Session must be printable text")
        return text or None

    def credential(self) -> bytes:
        """What tells this caller's credential from every other: of the key, not of its owner."""
        given = self.request.headers.get("Authorization", "")
        return sha256(f"{self.caller.principal}\n{given}".encode(errors="replace")).digest()

    def note_facts(self, facts: Iterable[Mapping[str, Any]]) -> None:
        """Remember for the session the scopes of records that were shown."""
        if self.session() is not None:
            self.note_read(frozenset(str(fact["scope"]) for fact in facts))

    def note_read(self, scopes: Sequence[str] | frozenset[str]) -> None:
        """Remember for the session that these scopes were read."""
        session = self.session()
        if session is not None:
            self.service.sessions.note_read(self.caller.principal, session, scopes)

    # -- when to look ---------------------------------------------------------------------

    def view(self) -> View:
        """The mirror as it stands."""
        return self.node.reader.pin()

    def moment(self, view: View, at: MomentQuery | None = None, *, allowed: bool = True) -> Moment:
        """The moment a request asks about: now, or its ``as_of`` and ``valid_at``.

        ``allowed``: the setting that lets this route look back.

        Raises:
            ApiError: 400 ``as_of_*``; 501 or 403 where time travel is switched off.
        """
        now_us = self.node.clock.now_us()
        moment = Moment(view.position, now_us)
        if at is None:
            return moment
        if at.as_of is not None:
            self._check_time_travel(allowed)
            floor_us = self.service.settings.as_of_floor_us(now_us)
            try:
                moment = resolve(at.as_of, self.node.log, view.position, now_us, floor_us)
            except MomentError as fault:
                raise coded(fault.code, str(fault)) from fault
        if at.valid_at is not None:
            moment = Moment(moment.position, moment.instant_us, parse_instant(at.valid_at))
        return moment

    def check_retained(self, moment: Moment) -> None:
        """Raises ApiError 400 ``as_of_before_retention_floor`` for one that is too old."""
        floor_us = self.service.settings.as_of_floor_us(self.node.clock.now_us())
        if floor_us is not None and moment.instant_us < floor_us:
            fault = before_floor(floor_us)
            raise coded(fault.code, str(fault))

    def _check_time_travel(self, allowed: bool) -> None:
        if not self.service.settings.time_travel_enabled:
            raise ApiError(
                501,
                {
                    "code": "time_travel_plugin_not_loaded",
                    "message": "time-travel queries are switched off on this node",
                },
            )
        if not allowed:
            raise ApiError(
                403,
                {
                    "code": "time_travel_plugin_disabled",
                    "message": "this route does not take as_of on this node",
                },
            )

    # -- rights ---------------------------------------------------------------------------

    def check_scope(self, scope: str) -> None:
        """Raises ApiError 403 where the caller's key does not cover ``scope``."""
        if scope not in self.authorization.scopes:
            raise coded("scope_forbidden", f"this key does not cover scope {scope!r}")

    def check_served(self, fact_id: str) -> None:
        """Raises ApiError 404 where the sanitizer mode hides the fact from this caller, a
        tombstone hides it from everybody, a capability does not reach its entity, its
        classification is too high, or the caller may not read and did not say it."""
        view, slot = self.view(), self.node.reader.slot_of(fact_id)
        if slot is not None and slot < view.count:
            if not self.authorization.covers(view.entities.text(int(view.entity[slot]))):
                raise plain("fact_not_found")
            said = view.sources.text(int(view.source[slot]))
            if not self.authorization.may("read") and said != self.authorization.own_source:
                raise plain("fact_not_found")
            chosen = np.asarray([slot], dtype=np.int32)
            if view.flags(chosen)[0] & self.authorization.withheld:
                raise plain("fact_not_found")
            if not self.authorization.alone().cleared(view, chosen)[0]:
                raise plain("fact_not_found")
            hidden = view.hidden(chosen)
            if hidden is not None and hidden[0]:
                raise plain("fact_not_found")

    def narrowed(self, scope: str | None, *, for_model: bool = False) -> Authorization:
        """The caller's rights, within one scope of a query string.

        Args:
            for_model: as ``model_authorization``.

        Raises:
            ApiError: 400 in the protocol's words for a scope that does not exist.
        """
        rights = self.model_authorization if for_model else self.authorization
        if scope is None:
            return rights
        if scope not in SCOPES:
            raise ApiError(400, f"scope must be one of {sorted(SCOPES)}")
        return rights.narrowed(frozenset({scope}))

    # -- reading and writing --------------------------------------------------------------

    def records(
        self, view: View, slots: Sequence[int] | I32, moment: Moment, *, whole: bool = False
    ) -> list[Record]:
        """Full records of slots, in order, as the sanitizer mode lets them be seen; ``whole``
        for the one who wrote them."""
        reader, node_id = self.node.reader, self.node.node_id
        chosen: I32 = np.asarray(slots, dtype=np.int32)
        records = records_of(reader, view, chosen, moment, self.authorization, node_id)
        mode = self.service.settings.sanitizer_mode
        return screen(reader, view, chosen, mode, whole=whole).show_all(records)

    async def in_pool(self, work: Callable[[], Result]) -> Result:
        """Run a long read beside the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.service.pool, work)

    async def submit(
        self,
        intents: Sequence[Intent],
        *,
        idempotency: Idempotency | None = None,
        atomic: bool = False,
    ) -> WriteAnswer:
        """Hand intents to the writer and wait until they are durable."""
        future = self.node.writer.submit(
            intents, actor=self.caller.principal, idempotency=idempotency, atomic=atomic
        )
        return await asyncio.wrap_future(future)

    async def embedded(self, position: int) -> bool:
        """Whether everything up to ``position`` gets its vector while the setting lets us
        wait; True where embeddings are off and there is nothing to wait for."""
        embeddings = self.node.embeddings
        if embeddings is None or embeddings.space is None:
            return True
        deadline = monotonic() + self.service.settings.embed_wait_timeout_s
        while (status := embeddings.status()) is not None and status.position < position:
            if monotonic() >= deadline:
                return False
            await asyncio.sleep(EMBEDDED_POLL_S)
        return True

    async def do_all(self, intents: Sequence[Intent]) -> None:
        """Intents that must happen together. Raises ApiError where one of them is refused."""
        for outcome in (await self.submit(intents, atomic=True)).outcomes:
            if isinstance(outcome, Refused):
                raise refused(outcome)

    async def do(
        self, intent: Intent, *, idempotency: Idempotency | None = None, atomic: bool = False
    ) -> Done:
        """One intent that must happen; with ``atomic`` a refused one leaves no trace, so that it
        is decided anew when it is repeated. Raises ApiError where the writer refuses it."""
        answer = await self.submit([intent], idempotency=idempotency, atomic=atomic)
        outcome = answer.outcomes[0]
        if isinstance(outcome, Refused):
            raise refused(outcome)
        return outcome

    def idempotency(self, body: bytes) -> Idempotency | None:
        """The ``Idempotency-Key`` header with a digest of this request.

        Raises:
            ApiError: 400 for a key that is empty, over 255 characters or not printable ASCII.
        """
        key = self.request.headers.get("Idempotency-Key")
        if key is None:
            return None
        if (
            not key
            or len(key) > IDEMPOTENCY_KEY_LENGTH_MAX
            or not (key.isascii() and key.isprintable())
        ):
            raise coded(
                "invalid_idempotency_key",
                f"Idempotency-Key must be 1 to {IDEMPOTENCY_KEY_LENGTH_MAX} printable characters",
            )
        what = f"{self.request.method} {self.request.path_qs}\n".encode()
        return Idempotency(self.caller.principal, key, sha256(what + body).digest())


def warned(body: dict[str, Any], *parts: BaseModel | None) -> dict[str, Any]:
    """``body`` with ``warnings`` where something sent is ignored; else as the protocol has it."""
    warnings = ignored(*parts)
    return {**body, "warnings": warnings} if warnings else body


def ignored(*parts: BaseModel | None) -> list[str]:
    """Warnings that name the fields and parameters nobody reads."""
    return [
        f"unknown field {name!r} is ignored"
        for part in parts
        if part is not None
        for name in unknown_fields(part)
    ]
