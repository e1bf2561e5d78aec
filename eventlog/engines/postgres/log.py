"""The event log in PostgreSQL, for any number of nodes that share its origin.

A writer locks the row ``engramlog.head``, updates its heads from the log, decides, and commits the
events and the moved head in one transaction. A commit whose answer is lost is unknown and never
acknowledged; the next transaction reads the head again and so learns its outcome.
"""

import os
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from typing import Self

from engramlog.eventlog.chain import Chain, Link
from engramlog.eventlog.clock import Clock
from engramlog.eventlog.codec import decode
from engramlog.eventlog.engines.appending import KeyUse, KeyUses, Transaction, WriterTurn
from engramlog.eventlog.engines.following import CommitSignal
from engramlog.eventlog.engines.postgres import statements, writing
from engramlog.eventlog.engines.postgres.connecting import Connection, connect, failures
from engramlog.eventlog.engines.postgres.listening import Listener
from engramlog.eventlog.engines.postgres.reading import (
    PostgresReading,
    fetch,
    key_use_of,
    scalar,
    stream_heads_of,
)
from engramlog.eventlog.engines.postgres.schema import check_version
from engramlog.eventlog.engines.postgres.server import (
    TIMELINE,
    Durability,
    ServerState,
    another_history,
    check_owner,
    check_whole,
    durability_fault,
)
from engramlog.eventlog.engines.postgres.session import (
    Figures,
    WritingSession,
    lock_timeout,
    locked,
)
from engramlog.eventlog.engines.stored_log import TAIL_CHECK_EVENTS, StoredLog, check_tail
from engramlog.eventlog.errors import DataDirectoryError, HistoryChanged, NotDurable, StorageFailed
from engramlog.eventlog.event import Header, Recorded, Stored
from engramlog.eventlog.held_scopes import EVERY_SCOPE, known
from engramlog.eventlog.log import Head, check_limit


class PostgresLog(PostgresReading, StoredLog):
    """Implements ``EventLog``. Open it with ``PostgresLog.open``. ``fault``: why nothing can be
    acknowledged now, or None."""

    def __init__(
        self, url: str, clock: Clock, chain: Chain, durability: Durability, held: frozenset[str]
    ) -> None:
        super().__init__(url)
        self.held = held
        self.clock = clock
        self.chain = chain
        self._url = url
        self._durability: Durability = durability
        self._session = WritingSession(url, self._check)
        self._head = self._seen = Head()
        self._head_hash = b""
        self._unproven = False
        self._stale = False
        self._timeline = 0
        self._stream_numbers: dict[str, int] = {}
        self._room = 0
        self._last_event_id = b""
        self._changed: str | None = None
        self._turn = WriterTurn()
        self._seeing = threading.Lock()
        self._signal = CommitSignal(live=True)
        self._mark = (0, b"")
        self._grown: Callable[[], None] = lambda: None
        self._listener = Listener(url, self._saw, self._lost, may_lead=held == EVERY_SCOPE)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        origin: str,
        epoch: int,
        clock: Clock,
        durability: Durability = "quorum",
        entropy: Callable[[int], bytes] = os.urandom,
        held: frozenset[str] = EVERY_SCOPE,
        copying: bool = False,
    ) -> Self:
        """Open the log in the database at ``url``, as a role that may append.

        Claims an empty log for ``origin``, and checks the last ``TAIL_CHECK_EVENTS`` events.
        Durability is checked before every write, not here: a node may open and report why it does
        not write. ``copying``: only ``copy`` writes; an empty log, or the incomplete copy of one,
        is in no epoch until ``end_copying``.

        Raises DataDirectoryError: the log does not exist, belongs to another node, is in a later
        epoch, or is an incomplete copy. CorruptLog: its last events contradict themselves.
        LogBusy: another node holds the lock. StorageFailed: the server cannot be reached.
        """
        log = cls(url, clock, Chain(origin, epoch, Head(), {}, entropy), durability, held)
        try:
            with failures(), connect(url, lock_timeout=lock_timeout()) as db:
                check_version(db)
                with locked(db) as state:
                    check_owner(state, origin, epoch)
                    if copying:
                        log.chain.epoch = state.epoch
                    else:
                        check_whole(state)
                    if (state.origin, state.epoch) != (origin, log.epoch):
                        db.execute(statements.CLAIM, (origin, log.epoch))
                    log._load(db, state)
                log._check_tail(db)
            log._listener.start()
        except BaseException:
            log.close()
            raise
        return log

    def begin(self) -> Transaction:
        """Lock the log and read what others wrote; waits for this process's other transactions.
        Raises LogBusy: another node does not release the lock in time. NotDurable: the server's
        settings could lose acknowledged writes. HistoryChanged: the log is not the one that this
        node has followed. StorageFailed: the server cannot be reached."""
        self._turn.take()
        try:
            self._lock()
        except BaseException:
            self.release()
            raise
        return Transaction(self)

    def key_use(self, actor: str, key: str) -> KeyUse | None:
        with failures():
            return key_use_of(self._writer(), actor, key)

    def holds(self, event_id: bytes) -> bool:
        # As in the SQLite engine: ids are time-ordered, so most need no look-up.
        if event_id > self._last_event_id:
            return False
        with failures():
            return scalar(self._writer(), statements.EVENT_HELD, event_id) is not None

    def recorded(self, first: int, last: int) -> list[Recorded]:
        bindings = {"after": first - 1, "limit": max(0, last - first + 1)}
        with failures():
            rows = fetch(self._writer(), statements.READ_ALL, bindings)
        return [known(self.held, decode(Stored(*row))) for row in rows]

    def store(self, links: Sequence[Link], keys: KeyUses, erased: Sequence[bytes]) -> None:
        """See ``AppendingLog``. Raises OutcomeUnknown if the server is lost at the commit."""
        db = self._writer()
        head, digest = self._head, self._head_hash
        if links:
            last = links[-1][1]
            head = Head(last.position, last.received_at, last.received_hlc)
            digest = last.hash
        before = (self._head.position, self._head_hash, self.epoch)
        after = (head.position, head.received_at, head.received_hlc, digest)
        one_trip = len(links) < writing.COPY_EVENTS_MIN and not erased
        self._stale = True  # until it is done: new streams' numbers may not be kept
        room = self._room
        try:
            with self._session.refusals():
                if head.position > room:
                    room = int(scalar(db, statements.MAKE_ROOM, head.position))
                with db.pipeline() if one_trip else nullcontext():
                    writing.write_links(db, links, self._stream_numbers)
                    writing.write_keys(db, keys)
                    writing.write_names(db, links)
                    if erased:
                        writing.erase(db, erased)
                moved = (statements.MOVE_HEAD, (*before, *after))
                self._session.commit([moved] if links else [(statements.PROVE, ())])
        finally:
            self.fault = self._session.refused
        newest = max((recorded.header.event_id for recorded, _ in links), default=b"")
        self._last_event_id = max(self._last_event_id, newest)
        self._settle(self.chain.settle(), digest)
        self._room = room
        self._unproven = self._stale = False

    def retry(self) -> None:
        """See ``EventLog``: after a refusal, writes an event that is rolled back."""
        if self._session.refused is None:
            return
        self._turn.take()
        try:
            self._lock()
            with self._session.refusals():
                writing.try_to_write(self._writer(), self._head.position + 1)
        finally:
            self.fault = self._session.refused
            self.release()

    def confirm(self) -> None:
        """See ``AppendingLog``: other nodes' writes may be visible before a standby has them."""
        self._writer()
        if self._unproven:
            self._session.prove()
            self._unproven = False

    def release(self) -> None:
        self._session.abandon()
        super().release()

    def end_copying(self, epoch: int) -> None:
        """The log is a whole copy: nodes in ``epoch`` may open it. Write no more through this one.
        Raises StorageFailed."""
        with failures(), connect(self._url) as db:
            db.execute(statements.CLAIM, (self.origin, epoch))

    def scrub(self) -> None:
        """Rewrite the tables without the deleted rows. Standbys follow; archived write-ahead logs
        and base backups keep copies until the operator lets them expire."""
        self._turn.take()
        try:
            self._lock()
            self._session.scrub()
        finally:
            self.release()

    def _lock(self) -> None:
        self._require_open()
        if self._changed is not None:
            raise HistoryChanged(self._changed)
        state = self._session.lock()
        try:
            with failures():
                self._follow(self._writer(), state)
        except BaseException:
            self._session.abandon()
            raise
        self.fault = self._session.refused

    def _writer(self) -> Connection:
        self._require_open()
        return self._session.db

    def _check(self, state: ServerState) -> None:
        """Raises if a server in this state must not be written."""
        fault = durability_fault(state, self._durability)
        if fault is not None:
            self.fault = fault
            raise NotDurable(fault)
        try:
            check_owner(state, self.origin, self.epoch)
        except DataDirectoryError as other:
            raise self._diverged(str(other)) from other
        self._check_timeline(state.timeline)

    def _check_timeline(self, timeline: int) -> None:
        """Raises StorageFailed if another server has replaced this one: the next connection may
        find it."""
        if timeline < self._timeline:
            raise StorageFailed(
                f"the server is on timeline {timeline}, this node has seen {self._timeline}: "
                "another server has taken its place"
            )
        self._timeline = timeline

    def _check_reader(self, db: Connection) -> None:
        self._check_timeline(scalar(db, TIMELINE))

    def _follow(self, db: Connection, state: ServerState) -> None:
        """Update the heads in memory from the log, which is locked."""
        mine, digest = self._head.position, self._head_hash
        if (state.position, state.hash) == (mine, digest):
            if self._stale:
                self._stream_numbers = dict(fetch(db, statements.STREAMS))
                self._stale = False
            return
        held = digest if mine == 0 else scalar(db, statements.HASH_AT, mine)
        if state.position < mine or held != digest:
            raise self._diverged(another_history(state.position, mine))
        self._stream_numbers = dict(fetch(db, statements.STREAMS))
        self._last_event_id = scalar(db, statements.LAST_EVENT_ID) or b""
        head = Head(state.position, state.received_at, state.received_hlc)
        self.chain.advance(head, stream_heads_of(db, mine))
        self._settle(head, state.hash)
        self._unproven, self._stale = True, False

    def _diverged(self, reason: str) -> HistoryChanged:
        self._changed = self.fault = reason
        return HistoryChanged(reason)

    def _load(self, db: Connection, state: ServerState) -> None:
        """Read the log's heads on opening, under the lock."""
        self._timeline = state.timeline
        self._stream_numbers = dict(fetch(db, statements.STREAMS))
        self._last_event_id = scalar(db, statements.LAST_EVENT_ID) or b""
        head = Head(state.position, state.received_at, state.received_hlc)
        self.chain.restart(head, stream_heads_of(db))
        self._settle(head, state.hash)

    def _check_tail(self, db: Connection) -> None:
        after = max(0, self._head.position - TAIL_CHECK_EVENTS)
        rows = fetch(db, statements.READ_ALL, {"after": after, "limit": TAIL_CHECK_EVENTS})

        def may_be_erased(stored: Stored, _: Header) -> bool:
            # The erasure of another node's event may arrive on a later page.
            return stored.peer is not None or bool(scalar(db, statements.IS_NAMED, stored.position))

        check_tail((Stored(*row) for row in rows), after, may_be_erased)

    def _settle(self, head: Head, digest: bytes) -> None:
        """Set the log's end for this process's next transaction."""
        with self._seeing:
            self._head, self._head_hash = head, digest
            if head.position > self._seen.position:
                self._seen = head
            if head.position > self._mark[0]:
                self._mark = (head.position, digest)

    def _saw(self, state: ServerState) -> None:
        """Handle the listener's report: wake waiting readers if the log has grown."""
        self._check_timeline(state.timeline)
        fault = self._changed or durability_fault(state, self._durability)
        self.fault = fault or self._session.refused
        head = Head(state.position, state.received_at, state.received_hlc)
        with self._seeing:
            grown = head.position > self._seen.position
            if grown:
                self._seen = head
        if grown:
            self._signal.notify()
        self._grown()

    def _lost(self, reason: str) -> None:
        self.fault = self._changed or f"the log's server cannot be reached: {reason}"
        self._readers.reopen()

    @property
    def leads(self) -> bool:
        """Whether this node, of all over the log, does the work that only one may do."""
        return self._listener.leads

    @property
    def figures(self) -> Figures:
        """How long locks and commits took, and how far the standbys are behind."""
        return self._session.figures(self._listener.standby_lag_bytes)

    def on_growth(self, grown: Callable[[], None]) -> None:
        """Call ``grown`` whenever the log may have grown, from another thread."""
        self._grown = grown

    def read_stored(
        self, after: int = 0, limit: int = 1000, streams: Collection[str] | None = None
    ) -> list[Stored]:
        """See ``EventLog``, and ``_read_on``."""
        if streams is not None:
            return super().read_stored(after, limit, streams)
        return self._read_on(after, limit, whole=True)

    def _read_from(self, after: int, limit: int) -> list[Stored]:
        return self._read_on(after, limit, whole=False)

    def _read_on(self, after: int, limit: int, *, whole: bool) -> list[Stored]:
        """Read events. A read from this node's last known event proves that the event is still
        there; raises HistoryChanged otherwise."""
        mark, digest = self._mark
        check_limit(limit)
        if after > mark or limit == 0:
            with self._reader() as db:
                return self._page(db, after, limit, whole=whole)
        first = after if after < mark else max(0, mark - 1)
        with self._reader() as db:
            page = self._page(db, first, limit + after - first, whole=whole)
            complete = len(page) < limit + after - first
            if mark and (complete or page[-1].position >= mark):
                here = page[mark - first - 1] if len(page) >= mark - first else None
                if here is None or (here.position, here.hash) != (mark, digest):
                    self._check_reader(db)
                    raise self._diverged(another_history(first + len(page), mark))
        if page and page[-1].position > mark:
            with self._seeing:
                if page[-1].position > self._mark[0]:
                    self._mark = (page[-1].position, page[-1].hash)
        return page[after - first :]

    def head(self) -> Head:
        """The log's end, as last seen by this process."""
        self._require_open()
        return self._seen

    def close(self) -> None:
        self._closed = True
        self._signal.notify()
        self._listener.close()
        super().close()

    def _close_connections(self) -> None:
        self._readers.close()
        self._session.close()
