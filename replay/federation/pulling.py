"""Replaying one peer: its pages, verified and appended, or held.

Nothing here knows what carries the pages. One fault stops one stream; the others continue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from engramlog.eventlog.errors import AppendError, EventLogError
from engramlog.eventlog.kinds import PeerEquivocated, PeerStateSet
from engramlog.eventlog.log import EventLog, StreamHead
from engramlog.eventlog.signing import SignedHead, SignedHeads
from engramlog.projections.tables.peers.peers import PeerRow, PeerStream
from engramlog.projections.writing.commands import (
    AdoptPage,
    Command,
    NoteEquivocation,
    Refused,
    TakeForeignEnds,
    WriteAnswer,
)
from engramlog.projections.writing.group import ForeignEventRefused
from engramlog.projections.writing.writer_errors import WriterBusy, WriterClosed, WriterDegraded
from engramlog.replay.federation.missing_payloads import (
    ERASURE_WAIT_SECONDS,
    Ahead,
    ErasedHere,
    ErasureAwaited,
    missing_of,
    named_by,
    read_on,
)
from engramlog.replay.federation.page import PAGE_EVENTS_MAX, ClockAwaited, PageFault, StreamPage
from engramlog.replay.federation.verification import (
    CheckedPage,
    check_page,
    check_statement,
    check_stream,
)

PASSED_OVER_MAX = 20
PASSED_OVER_LENGTH = 200
WITHHELD = "withheld"
"""Why a stream is held whose missing payloads no erasure names; it continues once one does."""
PASSING_FAULTS = (WITHHELD, "hlc_skew")
"""Reasons that may pass: a stream that is held for one is tried again in each round."""
EVIDENCE_BYTES_MAX = 1024 * 1024
"""A statement over this cannot be kept in an event; its stream is held without it."""


class PeerUnreachable(Exception):
    """The peer did not answer, or refused; the next attempt may go better."""


PASSING = (PeerUnreachable, EventLogError, WriterClosed, WriterBusy, WriterDegraded)
"""What says nothing about a page: the whole round is tried again later."""


class PeerSource(Protocol):
    """A peer's federation routes, over any transport."""

    def heads(self) -> SignedHeads:
        """Its statement about the streams it lets us replay. Raises PeerUnreachable, PageFault."""
        ...

    def page(self, stream: str, after_seq: int, limit: int) -> StreamPage | None:
        """Events behind a sequence; None if there is none. Raises as ``heads``."""
        ...


Submit = Callable[[Sequence[Command]], WriteAnswer]
"""Hands a command to the writer, atomically, and waits; raises what the writer raises."""


class Pulled(Struct, frozen=True):
    """What one round with a peer did. ``faults``: stream → why it was held.

    ``passed_over``: streams that the peer offered though they are not granted to it; the
    first few. They are neither replayed nor held, so a later grant lets them in.
    ``waiting``: stream → what it waits for; it continues by itself. ``due_us``: when one of them
    that waits for a time does (microseconds); 0 if none does.
    """

    events: int
    pages: int
    faults: dict[str, str]
    complete: bool
    passed_over: tuple[str, ...] = ()
    waiting: dict[str, str] = {}
    due_us: int = 0


class Here(Struct, frozen=True):
    """The node that replays.

    ``waits``: since when (microseconds) streams wait, kept from round to round.
    """

    log: EventLog
    submit: Submit
    now_us: Callable[[], int]
    erased: ErasedHere
    waits: dict[str, int]


def pull(
    source: PeerSource,
    here: Here,
    peer: PeerRow,
    known: dict[str, PeerStream],
    *,
    pages_max: int = 1_000_000,
) -> Pulled:
    """Replay what a peer offers beyond what is here.

    Args:
        known: the peer's streams that were replayed or held, by name.
        pages_max: after so many pages the round ends, and others have their turn.

    Raises:
        PeerUnreachable: it did not answer; what came before stays.
        PageFault: its statement of heads cannot be believed.
        Exception: a page brought out a fault of ours; raised when the other streams are done.
    """
    statement = source.heads()
    check_statement(statement, peer)
    if statement.public_key != peer.public_key:
        # The chain of rotations leads there from the key of the node id.
        here.submit([PeerStateSet(peer_id=peer.peer_id, public_key=statement.public_key)])
    turn = _Round(source, here, peer, statement, pages_max)
    heads = here.log.stream_heads()
    for offered in statement.heads:
        state = known.get(offered.stream)
        if state is None or not state.held or state.reason.startswith(PASSING_FAULTS):
            turn.take(offered, heads.get(offered.stream), state)
    if turn.broken is not None:
        raise turn.broken
    return Pulled(
        turn.events,
        turn.pages,
        turn.faults,
        # What came may explain what another stream waits for.
        turn.complete and not (turn.waiting and turn.events),
        tuple(turn.passed_over[:PASSED_OVER_MAX]),
        turn.waiting,
        min(turn.due_us, default=0),
    )


class _Round:
    """One round with a peer, stream after stream; its result."""

    def __init__(
        self, source: PeerSource, here: Here, peer: PeerRow, statement: SignedHeads, pages_max: int
    ) -> None:
        self.events = 0
        self.pages = 0
        self.faults: dict[str, str] = {}
        self.passed_over: list[str] = []
        self.waiting: dict[str, str] = {}
        self.due_us: list[int] = []
        self.broken: Exception | None = None
        self.complete = True
        self._source = source
        self._here = here
        self._peer = peer
        self._statement = statement
        self._pages_max = pages_max
        self._page_events = PAGE_EVENTS_MAX

    def take(self, offered: SignedHead, head: StreamHead | None, state: PeerStream | None) -> None:
        """Replay one stream to the signed head, or hold it; others continue either way."""
        stream = offered.stream
        submit = self._here.submit
        try:
            check_stream(stream, self._peer)
        except PageFault:
            self.passed_over.append(stream[:PASSED_OVER_LENGTH])
            return
        held = state is not None and state.held
        try:
            _check_history(offered, head, self._statement.epoch, self._here.log)
            self._replay(offered, head, held)
            self._here.waits.pop(stream, None)
        except ClockAwaited as fault:
            self.waiting[stream] = str(fault)
            self.due_us.append(fault.due_us)
        except ErasureAwaited as fault:
            self.waiting[stream] = str(fault)
            now_us = self._here.now_us()
            since = self._here.waits.setdefault(stream, now_us)
            if not held and now_us - since > ERASURE_WAIT_SECONDS * 1_000_000:
                self.faults[stream] = f"{WITHHELD}: {fault}"
                reason = PageFault(WITHHELD, str(fault))
                _hold(submit, self._peer, stream, reason, state, self._statement)
        except PageFault as fault:
            if not held:
                self.faults[stream] = str(fault)
                _hold(submit, self._peer, stream, fault, state, self._statement)
        except PASSING:
            raise
        except Exception as fault:
            self.broken = fault

    def _replay(self, offered: SignedHead, head: StreamHead | None, held: bool) -> None:
        """Page after page. Raises PageFault for what cannot be believed."""
        stream = offered.stream
        ahead: Ahead | None = None
        after, until = 0 if head is None else head.stream_seq, offered.stream_seq
        while after < until:
            if self.pages >= self._pages_max:
                self.complete = False
                return
            found = self._next_page(stream, head)
            if found is None:
                raise PeerUnreachable(f"{stream}: nothing behind {after}, though it is signed")
            page, head, checked = found
            if unexplained := self._unexplained(page):
                ahead = ahead or Ahead(head, set())
                if ahead.read_to.stream_seq < head.stream_seq:
                    ahead.read_to = head
                if left := read_on(ahead, unexplained, lambda end: self._next_page(stream, end)):
                    raise ErasureAwaited(stream, left)
                # Once its payloads are gone here, the erasure is to be here as well.
                until = max(until, ahead.read_to.stream_seq)
            if held:
                self._release(stream)
                held = False
            self.events += _take(self._here.submit, self._peer, stream, after, page, checked)
            self.pages += 1
            after = head.stream_seq
        if held:
            self._release(stream)

    def _next_page(
        self, stream: str, end: StreamHead | None
    ) -> tuple[StreamPage, StreamHead, CheckedPage] | None:
        """The verified page behind the end of what is known of a stream, where it ends, and what
        it holds."""
        after = 0 if end is None else end.stream_seq
        fitting = self._page_events
        while True:
            try:
                page = self._source.page(stream, after, min(fitting, self._page_events))
                if page is None:
                    return None
                checked = check_page(page, self._peer, stream, end, self._here.now_us())
                break
            except ClockAwaited as fault:
                if fault.fitting == 0 or fault.fitting >= fitting:
                    raise
                fitting = fault.fitting
            except PageFault as fault:
                if fault.code != "oversized" or self._page_events == 1:
                    raise
                self._page_events //= 2
        return page, StreamHead(stream, after + len(page.events), page.events[-1][1]), checked

    def _unexplained(self, page: StreamPage) -> set[bytes]:
        missing = missing_of(page)
        if not missing:
            return missing
        missing -= named_by(page)
        return missing - self._here.erased(missing, self._peer.node_id)

    def _release(self, stream: str) -> None:
        reason = "what it waited for has come"
        self._here.submit(
            [PeerStateSet(peer_id=self._peer.peer_id, stream=stream, held=False, reason=reason)]
        )


def _take(
    submit: Submit,
    peer: PeerRow,
    stream: str,
    after: int,
    page: StreamPage,
    checked: CheckedPage,
) -> int:
    """Append a verified page. Raises PageFault if the log refuses it."""
    command = AdoptPage(
        node_id=peer.node_id,
        stream=stream,
        first_seq=after + 1,
        events=page.foreign(),
        statement=as_document(page.statement),
        erasable=frozenset(page.erased),
        refused=checked.refused,
        fact_ids=checked.fact_ids,
    )
    try:
        answer = submit([command, TakeForeignEnds()])
    except (AppendError, ForeignEventRefused) as fault:
        # Not the log's or a projector's fault: an event id that is here already, for one.
        raise PageFault("refused", f"{stream} behind {after}: {fault}") from fault
    outcome = answer.outcomes[0]
    if isinstance(outcome, Refused):
        raise PageFault(outcome.code, outcome.message)
    submit([TakeForeignEnds()])  # an erasure asks the log for what was committed before it
    return len(page.events)


def _check_history(offered: SignedHead, here: StreamHead | None, epoch: int, log: EventLog) -> None:
    """Raises PageFault if the peer now signs less, or other, than it had signed. A peer that
    was restored from a backup continues in a later epoch: it may have less of an earlier one."""
    stream, seq = offered.stream, offered.stream_seq
    if here is None or seq > here.stream_seq:
        return
    digest = here.hash
    if seq < here.stream_seq:
        if int(stream.split("/")[-3]) >= epoch or seq < 1:
            signed = f"{stream} was signed up to {here.stream_seq}, now up to {seq}"
            raise PageFault("rollback", signed)
        digest = log.read_stream(stream, seq - 1, 1)[0].hash
    if offered.hash != digest.hex():
        raise PageFault("equivocation", f"{stream} has another event {seq} than it had")


def _hold(
    submit: Submit,
    peer: PeerRow,
    stream: str,
    fault: PageFault,
    state: PeerStream | None,
    statement: SignedHeads,
) -> None:
    """Stop replaying a stream until an operator releases it; keep signed contradictions."""
    earlier = None if state is None else state.statement
    forked = fault.code == "chain" and "prev_hash" in fault.detail
    contradicts = fault.code in ("rollback", "equivocation") or forked
    small = len(msgspec.json.encode(statement)) <= EVIDENCE_BYTES_MAX
    if earlier is not None and contradicts and small:
        submit(
            [
                NoteEquivocation(
                    peer_id=peer.peer_id,
                    evidence=PeerEquivocated(
                        node_id=peer.node_id,
                        stream=stream,
                        sort="rollback" if fault.code == "rollback" else "equivocation",
                        detail=str(fault),
                        earlier=earlier,
                        later=as_document(statement),
                    ),
                )
            ]
        )
        return
    submit([PeerStateSet(peer_id=peer.peer_id, stream=stream, held=True, reason=str(fault))])


def as_document(statement: SignedHeads) -> dict[str, Any]:
    """A statement as plain data, to be kept in an event."""
    return msgspec.to_builtins(statement)
