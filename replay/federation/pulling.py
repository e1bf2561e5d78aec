"""Replays one peer: its pages are verified and appended, or its streams held.

Nothing here depends on the transport. One fault stops one stream; the others continue.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from engramlog.eventlog.errors import AppendError, EventLogError
from engramlog.eventlog.kinds import PeerEquivocated, PeerStateSet
from engramlog.eventlog.log import EventLog, StreamHead
from engramlog.eventlog.signing import SignedHead, SignedHeads
from engramlog.projections.tables.peers.peers import PeerRow, PeerStream
from engramlog.projections.writing.commands import Command, Refused, WriteAnswer
from engramlog.projections.writing.decide.peers.peering import GRANTS_CHANGED, TAKEN_MEANWHILE
from engramlog.projections.writing.group import ForeignEventRefused
from engramlog.projections.writing.peer_commands import AdoptPage, NoteEquivocation, TakeForeignEnds
from engramlog.projections.writing.submission import WriterBusy, WriterClosed, WriterDegraded
from engramlog.replay.federation.missing_payloads import (
    ERASURE_WAIT_SECONDS,
    Ahead,
    ErasedHere,
    ErasureAwaited,
    missing_of,
    named_by,
    read_on,
)
from engramlog.replay.federation.page import (
    PAGE_EVENTS_MAX,
    AnotherNode,
    ClockAwaited,
    PageFault,
    StreamPage,
)
from engramlog.replay.federation.verification import (
    CheckedPage,
    check_page,
    check_statement,
    check_stream,
)

PASSED_OVER_MAX = 20
PASSED_OVER_LENGTH = 200
WITHHELD = "withheld"
"""Why to hold a stream whose missing payloads no erasure names; it continues once one does."""
PASSING_FAULTS = (WITHHELD, "hlc_skew")
"""Reasons that may pass: a stream held for one is retried in each round."""
TWO_COPIES = (
    "perhaps two copies of the node are running, or it lost its end and goes on in the same epoch"
)
EVIDENCE_BYTES_MAX = 1024 * 1024
"""A larger statement does not fit into an event; its stream is held without it."""


class PeerUnreachable(Exception):
    """The peer did not answer, or refused; the next attempt may succeed."""


PASSING = (PeerUnreachable, EventLogError, WriterClosed, WriterBusy, WriterDegraded)
"""Errors that say nothing about a page: the whole round is retried later."""


class PeerSource(Protocol):
    """A peer's federation routes, over any transport."""

    def heads(self) -> SignedHeads:
        """The peer's statement of the streams that it serves to this node. Raises PeerUnreachable,
        PageFault."""
        ...

    def page(self, stream: str, after_seq: int, limit: int) -> StreamPage | None:
        """Events after a sequence; None if there are no more. Raises as ``heads``."""
        ...


Submit = Callable[[Sequence[Command]], WriteAnswer]
"""Passes a command to the writer, atomically, and waits; raises the writer's errors."""


class Pulled(Struct, frozen=True):
    """The outcome of one round with a peer. ``faults``: stream → why it was held.

    ``passed_over``: the first few streams that the peer offered without a grant. They are neither
    replayed nor held, so a later grant admits them. ``waiting``: stream → what it waits for; it
    continues by itself. ``due_us``: when the first stream that waits for a time continues
    (microseconds); 0 if none does.
    """

    events: int
    pages: int
    faults: dict[str, str]
    complete: bool
    passed_over: tuple[str, ...] = ()
    waiting: dict[str, str] = {}
    due_us: int = 0


class Here(Struct, frozen=True):
    """The node that replays. ``waits``: since when (microseconds) each stream waits, kept between
    rounds."""

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
    """Replay a peer's events that are new here.

    Args:
        known: the peer's streams that were replayed or held, by name.
        pages_max: the round ends after this many pages, so that other peers get their turn.

    Raises:
        PeerUnreachable: it did not answer, at least for one stream; raised after the others are
            done, whose pages stay.
        PageFault: its statement of heads is not credible.
        Exception: a page exposed a fault of ours; raised after the other streams are done.
    """
    heads = here.log.stream_heads()  # before another node over it takes what the peer signs later
    statement = source.heads()
    check_statement(statement, peer)
    if statement.public_key != peer.public_key:
        # The chain of rotations leads there from the key of the node id.
        here.submit([PeerStateSet(peer_id=peer.peer_id, public_key=statement.public_key)])
    turn = _Round(source, here, peer, statement, pages_max)
    for offered in statement.heads:
        state = known.get(offered.stream)
        if state is None or not state.held or state.reason.startswith(PASSING_FAULTS):
            turn.take(offered, heads.get(offered.stream), state)
    if turn.broken is not None:
        raise turn.broken
    if turn.unanswered is not None:
        raise turn.unanswered
    return Pulled(
        turn.events,
        turn.pages,
        turn.faults,
        # New events may explain missing payloads of another stream.
        turn.complete and not (turn.waiting and turn.events),
        tuple(turn.passed_over[:PASSED_OVER_MAX]),
        turn.waiting,
        min(turn.due_us, default=0),
    )


class _Round:
    """One round with a peer, stream after stream, and its result."""

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
        self.unanswered: AnotherNode | PeerUnreachable | None = None
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
        except (AnotherNode, PeerUnreachable) as fault:
            self.unanswered = self.unanswered or fault
        except PageFault as fault:
            if not held:
                proof, statement = self._proof(stream, fault)
                self.faults[stream] = str(proof)
                _hold(submit, self._peer, stream, proof, state, statement)
        except PASSING:
            raise
        except Exception as fault:
            self.broken = fault

    def _replay(self, offered: SignedHead, head: StreamHead | None, held: bool) -> None:
        """Replay page after page. Raises PageFault for an invalid page."""
        stream = offered.stream
        ahead: Ahead | None = None
        after, until = 0 if head is None else head.stream_seq, offered.stream_seq
        while after < until:
            if self.pages >= self._pages_max:
                self.complete = False
                return
            fetched = self._next_page(stream, head)
            if fetched is None:
                raise PeerUnreachable(f"{stream}: nothing behind {after}, though it is signed")
            page, head, checked = fetched
            if unexplained := self._unexplained(page):
                ahead = ahead or Ahead(head, set())
                if ahead.read_to.stream_seq < head.stream_seq:
                    ahead.read_to = head
                if left := read_on(ahead, unexplained, lambda end: self._next_page(stream, end)):
                    raise ErasureAwaited(stream, left)
                # If its payloads are erased here, the erasure must arrive as well.
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
        """The verified page after the stream's known end, its end, and its content."""
        after = 0 if end is None else end.stream_seq
        fitting = self._page_events
        while True:
            try:
                page = self._source.page(stream, after, min(fitting, self._page_events))
                if page is None:
                    return None
                checked = self._checked(page, stream, end)
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

    def _checked(self, page: StreamPage, stream: str, end: StreamHead | None) -> CheckedPage:
        here = self._here
        return check_page(page, self._peer, stream, end, here.now_us(), here.log.origin)

    def _proof(self, stream: str, fault: PageFault) -> tuple[PageFault, SignedHeads]:
        """The reason to hold a stream, and the statement that shows it. Of a fork, the one in which
        the peer signs another event in the place of the last one here, if it does."""
        head = self._here.log.stream_heads().get(stream) if _is_fork(fault) else None
        if head is None:
            return fault, self._statement
        try:
            page = self._source.page(stream, head.stream_seq - 1, 1)
            if page is None:
                return fault, self._statement
            check_statement(page.statement, self._peer)
        except (PageFault, PeerUnreachable):
            return fault, self._statement
        for signed in page.statement.heads:
            at = (signed.stream, signed.stream_seq)
            if at == (stream, head.stream_seq) and signed.hash != head.hash.hex():
                return _another_event(*at), page.statement
        return fault, self._statement

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
    """Append a verified page. Raises PageFault if the log refuses it, PeerUnreachable if it was
    verified against another state of this node than that of now."""
    command = AdoptPage(
        node_id=peer.node_id,
        grants=peer.grants,
        stream=stream,
        first_seq=after + 1,
        events=checked.events,
        statement=as_document(page.statement),
        refused=checked.refused,
        fact_ids=checked.fact_ids,
    )
    try:
        answer = submit([command, TakeForeignEnds()])
    except (AppendError, ForeignEventRefused) as fault:
        # Not a fault of the log or a projector: for example, an event id that exists here.
        raise PageFault("refused", f"{stream} behind {after}: {fault}") from fault
    outcome = answer.outcomes[0]
    if isinstance(outcome, Refused):
        if outcome.code in (GRANTS_CHANGED, TAKEN_MEANWHILE):
            raise PeerUnreachable(f"{outcome.message}: the next round goes on from there")
        raise PageFault(outcome.code, outcome.message)
    submit([TakeForeignEnds()])  # an erasure reads only committed events of the log
    return len(page.events)


def _check_history(offered: SignedHead, here: StreamHead | None, epoch: int, log: EventLog) -> None:
    """Raises PageFault if the peer now signs less than before, or something else. A peer restored
    from a backup continues in a later epoch: it may have less of an earlier one."""
    stream, seq = offered.stream, offered.stream_seq
    if here is None or seq > here.stream_seq:
        return
    digest = here.hash
    if seq < here.stream_seq:
        if int(stream.split("/")[-3]) >= epoch or seq < 1:
            signed = f"{stream} was signed up to {here.stream_seq}, now up to {seq}"
            raise PageFault("rollback", f"{signed}: {TWO_COPIES}")
        digest = log.read_stream(stream, seq - 1, 1)[0].hash
    if offered.hash != digest.hex():
        raise _another_event(stream, seq)


def _another_event(stream: str, seq: int) -> PageFault:
    return PageFault("equivocation", f"{stream} has another event {seq} than it had: {TWO_COPIES}")


def _is_fork(fault: PageFault) -> bool:
    return fault.code == "chain" and "prev_hash" in fault.detail


def _hold(
    submit: Submit,
    peer: PeerRow,
    stream: str,
    fault: PageFault,
    state: PeerStream | None,
    statement: SignedHeads,
) -> None:
    """Stop replaying a stream until an operator releases it; store signed contradictions."""
    earlier = None if state is None else state.statement
    contradicts = fault.code in ("rollback", "equivocation") or _is_fork(fault)
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
    """A statement as plain data, for an event."""
    return msgspec.to_builtins(statement)
