"""The caller, rights and moment of a request, for commands.

Independent of HTTP: recall workers and forks make their own contexts.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic
from typing import TypeVar

import numpy as np

from engramlog.api.answers.fact_record import FactRecord
from engramlog.api.answers.sanitizer_modes import (
    look_up_rights,
    model_rights,
    recall_rights,
    screen,
)
from engramlog.api.answers.wire_facts import record_of, records_of, volatile_of_one
from engramlog.api.http.auth import Caller
from engramlog.api.http.errors import ApiError, coded, plain, refused
from engramlog.api.node.node import Node
from engramlog.api.node.reading_node import ReadingNode
from engramlog.api.node.service import ReadingService, Service
from engramlog.api.schemas.facts import MomentQuery
from engramlog.eventlog.held_scopes import EVERY_SCOPE
from engramlog.eventlog.log import Idempotency
from engramlog.projections.arrays import I32
from engramlog.projections.authorization import Authorization
from engramlog.projections.episodes.shown import Shown
from engramlog.projections.image.view import View
from engramlog.projections.moment import Moment, parse_instant
from engramlog.projections.normalization import SCOPES
from engramlog.projections.tables.facts.fact_rows import FactRow
from engramlog.projections.writing.commands import Command, Done, Refused, WriteAnswer
from engramlog.projections.writing.held_commands import scope_not_held
from engramlog.projections.writing.submission import LoopAnswer, Submission
from engramlog.replay.moment import MomentError, before_floor, resolve

EMBEDDED_POLL_S = 0.01

Result = TypeVar("Result")


class Unsettled(ApiError):
    """The node still writes events that it received by the instant of a question."""

    def __init__(self) -> None:
        message = "the node still writes what it had received by this instant"
        super().__init__(503, {"code": "position_not_reached", "message": message})


@dataclass(frozen=True)
class ReadingContext:
    """The caller and its rights to read; also in a process that follows a node."""

    service: ReadingService
    caller: Caller
    node: ReadingNode = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "node", self.service.node)

    def session(self) -> str | None:
        """The caller's session, if the request has one."""
        return None

    @cached_property
    def authorization(self) -> Authorization:
        """The caller's rights in lists and look-ups, under the sanitizer mode."""
        return look_up_rights(self.service.settings.sanitizer_mode, self.caller.authorization)

    @cached_property
    def own_rights(self) -> Authorization:
        """The caller's rights to a fact that the request names or states again."""
        return self.authorization.alone()

    @cached_property
    def model_authorization(self) -> Authorization:
        """The caller's rights in results for a model (neighbours, cards)."""
        return model_rights(self.service.settings.sanitizer_mode, self.caller.authorization)

    @cached_property
    def recall_authorization(self) -> Authorization:
        return recall_rights(self.service.settings.sanitizer_mode, self.caller.authorization)

    @property
    def sees_chains(self) -> bool:
        """Whether the caller may see an event's number and neighbours in its stream. Only the
        operator may: they count events that others may not know of."""
        anonymous = self.caller.key_id is None and not self.service.settings.auth_required
        return self.authorization.every_garden or anonymous

    def shown(self, view: View) -> Shown:
        """The episodes and deltas that the caller may see."""
        return Shown(view, self.authorization)

    def view(self) -> View:
        return self.node.reader.pin()

    def moment(self, view: View, at: MomentQuery | None = None, *, allowed: bool = True) -> Moment:
        """The moment of a request: now, or its ``as_of`` and ``valid_at``. ``allowed``: the setting
        that lets this route look back. Raises ApiError 400 ``as_of_*``; 501 or 403 if time travel
        is off; Unsettled."""
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
            if not (at.as_of.startswith("position:") or self.node.shows(view, moment.instant_us)):
                raise Unsettled
        if at.valid_at is not None:
            moment = Moment(moment.position, moment.instant_us, parse_instant(at.valid_at))
        return moment

    def at(self, query: MomentQuery | None = None) -> tuple[View, Moment]:
        """The present memory image, and the moment of a request in it. Raises as ``moment``."""
        view = self.view()
        return view, self.moment(view, query)

    def check_retained(self, moment: Moment) -> None:
        """Raises ApiError 400 ``as_of_before_retention_floor`` if it is too old."""
        floor_us = self.service.settings.as_of_floor_us(self.node.clock.now_us())
        if floor_us is not None and moment.instant_us < floor_us:
            fault = before_floor(floor_us)
            raise coded(fault.code, str(fault))

    def _check_time_travel(self, allowed: bool) -> None:
        if not self.service.settings.time_travel_enabled:
            raise coded("time_travel_plugin_not_loaded", "time-travel queries are off on this node")
        if not allowed:
            raise coded(
                "time_travel_plugin_disabled", "this route does not take as_of on this node"
            )

    def check_held(self, scope: object) -> None:
        """Raises ApiError 421 if this node does not hold ``scope`` of its log."""
        held = self.node.log.held
        if scope in EVERY_SCOPE - held:
            raise coded("scope_not_held", scope_not_held(held, f"scope {scope!r}"))

    def check_scope(self, scope: str) -> None:
        """Raises ApiError 403 if the caller's key does not cover ``scope``."""
        self.check_held(scope)
        if scope not in self.authorization.scopes:
            raise coded("scope_forbidden", f"this key does not cover scope {scope!r}")

    def check_scopes(self, scopes: Collection[str]) -> None:
        """``check_scope`` for several."""
        for scope in scopes:
            self.check_held(scope)
        beyond = sorted(set(scopes) - self.authorization.scopes)
        if beyond:
            raise coded("scope_forbidden", f"this key does not cover scopes {beyond}")

    def check_served(self, fact_id: str) -> None:
        """Raises ApiError 404 if the caller may not see the fact: the sanitizer mode hides it from
        this caller, a tombstone hides it from all, a capability does not cover its entity, its
        classification is too high, or the caller neither may read it nor stated it."""
        view = self.view()
        slot = view.slot_of(fact_id)
        if slot is not None and not self._serves(view, slot):
            raise plain("fact_not_found")

    def _serves(self, view: View, slot: int) -> bool:
        rights, chosen = self.authorization, np.asarray([slot], dtype=np.int32)
        hidden = view.hidden(chosen)
        return (
            rights.covers(view.entities.text(int(view.entity[slot])))
            and (
                rights.may("read") or view.sources.text(int(view.source[slot])) == rights.own_source
            )
            and not view.flags(chosen)[0] & rights.withheld
            and bool(rights.alone().cleared(view, chosen)[0])
            and (hidden is None or not hidden[0])
        )

    def narrowed(self, scope: str | None, *, for_model: bool = False) -> Authorization:
        """The caller's rights, narrowed to the scope in a query string. ``for_model``: as
        ``model_authorization``. Raises ApiError 400 in the protocol's words for a scope that does
        not exist."""
        rights = self.model_authorization if for_model else self.authorization
        if scope is None:
            return rights
        if scope not in SCOPES:
            raise ApiError(400, f"scope must be one of {sorted(SCOPES)}")
        return rights.narrowed(frozenset({scope}))

    def records(
        self,
        view: View,
        slots: Sequence[int] | I32,
        moment: Moment,
        *,
        whole: bool = False,
    ) -> list[FactRecord]:
        """Full records of slots, in order, in the sanitizer mode. ``whole``: for their writer."""
        reader, node_id = self.node.reader, self.node.node_id
        chosen: I32 = np.asarray(slots, dtype=np.int32)
        rights = self.authorization.reading()
        records = records_of(reader, view, chosen, moment, rights, node_id)
        mode = self.service.settings.sanitizer_mode
        return screen(reader, view, chosen, mode, whole=whole).show_all(records)

    def record(
        self,
        view: View,
        slot: int,
        moment: Moment,
        *,
        whole: bool = False,
        row: FactRow | None = None,
    ) -> FactRecord:
        """``records`` of one slot."""
        reader, node_id = self.node.reader, self.node.node_id
        row = row or reader.row(view, slot)
        rights = self.authorization.reading()
        record = record_of(row, volatile_of_one(view, slot, moment, rights), node_id)
        mode = self.service.settings.sanitizer_mode
        return screen(reader, view, np.int32(slot), mode, whole=whole).show(0, record)


@dataclass(frozen=True)
class RequestContext(ReadingContext, ABC):
    service: Service
    node: Node = field(init=False)
    written: list[Done] = field(default_factory=list, init=False)
    """What the request has written so far."""

    async def in_pool(self, work: Callable[[], Result]) -> Result:
        """Run a read in a thread; long reads use ``Call.in_long_pool``."""
        return await self.service.reads.run(self.caller.queued_as, work, admitted=True)

    @abstractmethod
    def check_rights(self) -> None:
        """Raises ApiError 401 or RightsChanged if the caller has not the rights any more with which
        the request began. In any thread, and only before the request changes anything."""

    async def submit(
        self,
        commands: Sequence[Command],
        *,
        idempotency: Idempotency | None = None,
        atomic: bool = False,
        check: Callable[[], None] | None = None,
    ) -> WriteAnswer:
        """Submit commands to the writer and wait until they are durable. Raises as ``check_rights``
        and ``check``, which look again at what this node found before, if other nodes write to the
        log and the request has written nothing so far."""
        answer = LoopAnswer()
        principal = self.caller.principal

        def look_again() -> None:
            self.check_rights()
            if check is not None:
                check()

        again = None if self.node.shared is None or self.written else look_again
        self.node.writer.take(
            Submission(
                commands, principal, idempotency, None, atomic, answer, again, self.caller.queued_as
            )
        )
        answered = await answer.future
        self.written.extend(each for each in answered.outcomes if isinstance(each, Done))
        return answered

    async def embedded(self, position: int) -> bool:
        """Whether everything up to ``position`` gets its vector within the time that the setting
        allows; True if embeddings are off."""
        embeddings = self.node.embeddings
        if embeddings is None or embeddings.space is None:
            return True
        deadline = monotonic() + self.service.settings.embed_wait_timeout_s
        while (status := embeddings.status()) is not None and status.position < position:
            if monotonic() >= deadline:
                return False
            await asyncio.sleep(EMBEDDED_POLL_S)
        return True

    async def do_all(
        self,
        commands: Sequence[Command],
        *,
        idempotency: Idempotency | None = None,
        check: Callable[[], None] | None = None,
    ) -> list[Done]:
        """Submit commands together. Raises ApiError if the writer refuses one; as ``submit``."""
        made: list[Done] = []
        answer = await self.submit(commands, idempotency=idempotency, atomic=True, check=check)
        for outcome in answer.outcomes:
            if isinstance(outcome, Refused):
                raise refused(outcome)
            made.append(outcome)
        return made

    async def do(
        self, command: Command, *, idempotency: Idempotency | None = None, atomic: bool = False
    ) -> Done:
        """Submit one command. With ``atomic``, a refusal leaves no trace, so a repetition is
        decided again. Raises ApiError if the writer refuses it."""
        answer = await self.submit([command], idempotency=idempotency, atomic=atomic)
        outcome = answer.outcomes[0]
        if isinstance(outcome, Refused):
            raise refused(outcome)
        return outcome
